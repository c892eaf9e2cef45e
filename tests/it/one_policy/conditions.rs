//! Random conditions (`when`), as configured, and their documented meaning. Independent of the
//! workbench's code.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::one_policy::oracle::fits;

pub(crate) const FOLDER: &str = "/home/ann/notes";

#[derive(Clone, Debug)]
pub(crate) struct When {
    /// Tool patterns; `None` matches all tools.
    tools: Option<Vec<String>>,
    arguments: Vec<(&'static str, Test)>,
    /// `Some(true)` for a pattern that matches [`FOLDER`], `Some(false)` for one that doesn't.
    folder: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
enum Test {
    AtLeast(i64),
    AtMost(i64),
    OneOf(&'static [i64]),
    Begins(&'static str),
    Lacks(char),
}

pub(crate) fn whens() -> impl Strategy<Value = Vec<When>> {
    prop_oneof![1 => Just(Vec::new()), 2 => vec(when(), 1..3)]
}

pub(crate) fn when() -> impl Strategy<Value = When> {
    let patterns =
        vec!["*", "read", "r*", "*e*", "one:*", "two:write", "solo:*", "list", "nothing"];
    let tools = option::weighted(0.8, vec(select(patterns).prop_map(str::to_owned), 1..3));
    let tests = select(vec![
        ("/n", Test::AtLeast(1)),
        ("/n", Test::AtMost(3)),
        ("/n", Test::OneOf(&[1, 5])),
        ("/path", Test::Begins("/workspace/")),
        ("/path", Test::Lacks('~')),
        ("/all/*/n", Test::AtMost(3)),
        ("/all/0/n", Test::AtLeast(1)),
    ]);
    let folder = option::weighted(0.3, any::<bool>());
    (tools, vec(tests, 0..3), folder).prop_map(|(tools, mut arguments, folder)| {
        arguments.sort_by_key(|(pointer, _)| *pointer);
        arguments.dedup_by_key(|(pointer, _)| *pointer);
        // A condition without requirements is invalid.
        let folder = folder.or(arguments.is_empty().then_some(true));
        When { tools, arguments, folder }
    })
}

impl When {
    pub(crate) fn entry(&self) -> Value {
        let mut entry = json!({});
        if let Some(tools) = &self.tools {
            entry["tools"] = json!(tools);
        }
        for (pointer, test) in &self.arguments {
            entry["arguments"][pointer] = match test {
                Test::AtLeast(least) => json!({"min": least}),
                Test::AtMost(most) => json!({"max": most}),
                Test::OneOf(all) => json!({"oneOf": all}),
                Test::Begins(start) => json!({"matches": format!("^{start}")}),
                Test::Lacks(char) => json!({"notMatches": char}),
            };
        }
        if let Some(is_here) = self.folder {
            let folder = if is_here { "/home/*/notes" } else { "/elsewhere/**" };
            entry["workingDirectory"] = folder.into();
        }
        entry
    }

    pub(crate) fn is_about(&self, server: &str, tool: &str) -> bool {
        let Some(tools) = &self.tools else { return true };
        let qualified = format!("{server}:{tool}");
        tools.iter().any(|pattern| {
            fits(pattern, tool) || (pattern.contains(':') && fits(pattern, &qualified))
        })
    }

    /// Returns `true` if the condition covers every tool of the server, including unknown ones.
    pub(crate) fn is_about_all_of(&self, server: &str) -> bool {
        let Some(tools) = &self.tools else { return true };
        tools.iter().any(|pattern| *pattern == "*" || *pattern == format!("{server}:*"))
    }

    /// Returns `false` if the condition hides tools in [`FOLDER`].
    pub(crate) fn is_here(&self) -> bool {
        self.folder != Some(false)
    }

    pub(crate) fn holds(&self, arguments: &Value) -> bool {
        self.arguments.iter().all(|(pointer, test)| {
            leads_to(arguments, &mut pointer.split('/').skip(1), &|value| test.holds(value))
        })
    }
}

/// Returns `true` if the pointer matches at least one value and all matches are good.
fn leads_to<'s>(
    value: &Value,
    steps: &mut (impl Iterator<Item = &'s str> + Clone),
    is_good: &dyn Fn(&Value) -> bool,
) -> bool {
    match (steps.next(), value) {
        (None, value) => is_good(value),
        (Some("*"), Value::Array(all)) => {
            !all.is_empty() && all.iter().all(|value| leads_to(value, &mut steps.clone(), is_good))
        }
        (Some(step), Value::Array(all)) => {
            let element = step.parse::<usize>().ok().and_then(|at| all.get(at));
            element.is_some_and(|value| leads_to(value, steps, is_good))
        }
        (Some(step), Value::Object(members)) => {
            members.get(step).is_some_and(|value| leads_to(value, steps, is_good))
        }
        (Some(_), _) => false,
    }
}

impl Test {
    fn holds(self, value: &Value) -> bool {
        if let Value::Array(all) = value {
            return !all.is_empty() && all.iter().all(|value| self.holds(value));
        }
        match self {
            Self::AtLeast(least) => value.as_i64().is_some_and(|number| number >= least),
            Self::AtMost(most) => value.as_i64().is_some_and(|number| number <= most),
            Self::OneOf(all) => value.as_i64().is_some_and(|number| all.contains(&number)),
            Self::Begins(start) => value.as_str().is_some_and(|text| text.starts_with(start)),
            Self::Lacks(char) => value.as_str().is_some_and(|text| !text.contains(char)),
        }
    }
}
