//! Conditions (`when`), made ready: where, when, and with which arguments tools may be used.
//!
//! What cannot be evaluated does not hold.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;
use serde_json::{Number, Value};

use crate::policy::hours::{self, Moment};
use crate::policy::rule::Rule;
use crate::policy::strict;
use crate::settings::{ArgumentTest, TimeWindow, When};

/// One entry of `when`.
#[derive(Debug)]
pub(crate) struct Condition {
    rule: Rule,
    /// `true` if the working directory is as it must be.
    is_here: bool,
    window: Option<TimeWindow>,
    arguments: Vec<(Way, Test)>,
}

/// The way to an argument, or to one in every element of a list.
#[derive(Debug)]
struct Way {
    /// The JSON pointer as it is written.
    text: String,
    /// Its steps; none if it is no pointer, and leads nowhere.
    steps: Option<Vec<Step>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A member of an object by its name, or an element of a list by its index.
    Into(String),
    /// Every element of a list (`*`).
    Every,
}

impl Way {
    fn new(text: &str) -> Self {
        let steps = match text.strip_prefix('/') {
            Some(rest) => Some(rest.split('/').map(Step::new).collect()),
            None => text.is_empty().then(Vec::new),
        };
        Self { text: text.to_owned(), steps }
    }

    /// Returns all that it leads to: something, and in every element of each list on the way. None
    /// if one of them is missing, a list is empty, or something on the way is of another kind.
    fn follow<'v>(&self, arguments: &'v Value) -> Option<Vec<&'v Value>> {
        let mut found = vec![arguments];
        for step in self.steps.as_ref()? {
            let mut next = Vec::with_capacity(found.len());
            for value in found {
                match (step, value) {
                    (Step::Every, Value::Array(elements)) if !elements.is_empty() => {
                        next.extend(elements);
                    }
                    (Step::Into(key), Value::Object(members)) => next.push(members.get(key)?),
                    (Step::Into(key), Value::Array(elements)) => next.push(element(elements, key)?),
                    _ => return None,
                }
            }
            found = next;
        }
        Some(found)
    }

    fn is_of_every(&self) -> bool {
        self.steps.iter().flatten().any(|step| *step == Step::Every)
    }

    /// Returns how to speak of what it leads to.
    fn words(&self) -> String {
        let every = if self.is_of_every() { "every argument" } else { "argument" };
        format!("{every} `{}`", self.text)
    }
}

impl Step {
    /// Reads one step of a JSON pointer (RFC 6901), in which `~2` stands for a `*` that is a name.
    fn new(written: &str) -> Self {
        if written == "*" {
            return Self::Every;
        }
        let mut name = String::with_capacity(written.len());
        let mut chars = written.chars().peekable();
        while let Some(c) = chars.next() {
            let escaped = match (c, chars.peek()) {
                ('~', Some('0')) => Some('~'),
                ('~', Some('1')) => Some('/'),
                ('~', Some('2')) => Some('*'),
                _ => None,
            };
            if escaped.is_some() {
                chars.next();
            }
            name.push(escaped.unwrap_or(c));
        }
        Self::Into(name)
    }
}

/// Returns an element by its index, which has no sign and no zero before it.
fn element<'v>(elements: &'v [Value], index: &str) -> Option<&'v Value> {
    let is_plain = index == "0" || !index.starts_with(['0', '+']);
    elements.get(index.parse::<usize>().ok().filter(|_| is_plain)?)
}

/// A call is not let through for what it is, though the tool is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The condition that does not hold.
    pub rule: Rule,
    /// Why not, in words for the agent.
    pub reason: String,
    /// Advice on what to do about it.
    pub hint: String,
}

impl Condition {
    /// Makes an entry ready; `folder` is where the workbench was started.
    pub(crate) fn new(rule: Rule, when: &When, folder: Option<&Path>) -> Self {
        let globs = when.working_directory.as_ref();
        let arguments = when.arguments.iter();
        Self {
            rule,
            is_here: globs.is_none_or(|globs| {
                folder.is_some_and(|folder| globs.iter().any(|glob| is_within(glob, folder)))
            }),
            window: when.time,
            arguments: arguments.map(|(at, test)| (Way::new(at), Test::new(test))).collect(),
        }
    }

    /// The key that it stands under.
    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Returns `true` if the working directory is as it must be.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    /// When it holds, if that is not always.
    pub(crate) fn window(&self) -> Option<&TimeWindow> {
        self.window.as_ref()
    }

    /// Returns `true` if it holds now, as far as that does not depend on arguments.
    pub(crate) fn holds(&self, now: impl FnOnce() -> Moment) -> bool {
        self.is_here && self.window.as_ref().is_none_or(|window| hours::is_open(window, now()))
    }

    /// Returns `true` if it asks for arguments.
    pub(crate) fn asks_for_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// Its demands on arguments, each in words.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = String> {
        let arguments = self.arguments.iter();
        arguments.map(|(way, test)| format!("{} {}", way.words(), test.wanted()))
    }

    /// Checks that arguments, which are a JSON object, are as they must be.
    fn check(&self, arguments: &Value) -> Result<(), Refusal> {
        for (way, test) in &self.arguments {
            let found = way.follow(arguments);
            if found.as_ref().is_some_and(|found| found.iter().all(|value| test.holds(value))) {
                continue;
            }
            let wanted = test.wanted();
            let missing = match found {
                Some(_) => "",
                None if way.is_of_every() => ", and there is no list that has it in each element",
                None => ", and it is not there",
            };
            return Err(Refusal {
                rule: self.rule.clone(),
                reason: format!("it may only be called when {} {wanted}{missing}", way.words()),
                hint: "call it with such an argument, or do without; the configuration decides"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

/// Checks that the arguments of a call, which are JSON, are as all conditions want them.
pub(crate) fn check<'a>(
    conditions: impl Iterator<Item = &'a Condition>,
    arguments: Option<&[u8]>,
) -> Result<(), Refusal> {
    let mut value = None;
    for condition in conditions {
        let value = match &mut value {
            Some(value) => value,
            none => {
                none.insert(strict::parse(arguments.unwrap_or(b"{}")).map_err(|why| Refusal {
                    rule: condition.rule.clone(),
                    reason: format!("its arguments cannot be checked: {why}"),
                    hint: "write each name once".to_owned(),
                })?)
            }
        };
        condition.check(value)?;
    }
    Ok(())
}

/// The demands on one argument.
#[derive(Debug)]
struct Test {
    matches: Option<Pattern>,
    not_matches: Option<Pattern>,
    min: Option<Number>,
    max: Option<Number>,
    one_of: Option<Vec<Value>>,
}

/// A regular expression as it is written, and as it is used if it is one.
#[derive(Debug)]
struct Pattern {
    text: String,
    regex: Option<Regex>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), regex: Regex::new(text).ok() }
    }

    fn matches(&self, text: &str) -> Option<bool> {
        self.regex.as_ref().map(|regex| regex.is_match(text))
    }
}

impl Test {
    fn new(test: &ArgumentTest) -> Self {
        let ArgumentTest { matches, not_matches, min, max, one_of } = test;
        Self {
            matches: matches.as_deref().map(Pattern::new),
            not_matches: not_matches.as_deref().map(Pattern::new),
            min: min.clone(),
            max: max.clone(),
            one_of: one_of.clone(),
        }
    }

    /// Returns `true` if a value is as it must be. A list must not be empty, and all values in it
    /// must be so.
    fn holds(&self, value: &Value) -> bool {
        if let Value::Array(values) = value
            && !self.one_of.as_ref().is_some_and(|values| values.contains(value))
        {
            return !values.is_empty() && values.iter().all(|value| self.holds(value));
        }
        let text = |pattern: &Pattern, wanted: bool| {
            value.as_str().and_then(|text| pattern.matches(text)) == Some(wanted)
        };
        let number = |bound: &Number, is_kept: fn(&f64, &f64) -> bool| {
            let (value, bound) = (value.as_f64(), bound.as_f64());
            value.zip(bound).is_some_and(|(value, bound)| is_kept(&value, &bound))
        };
        self.matches.as_ref().is_none_or(|pattern| text(pattern, true))
            && self.not_matches.as_ref().is_none_or(|pattern| text(pattern, false))
            && self.min.as_ref().is_none_or(|min| number(min, f64::ge))
            && self.max.as_ref().is_none_or(|max| number(max, f64::le))
            && self.one_of.as_ref().is_none_or(|values| values.contains(value))
    }

    /// The demands in words.
    fn wanted(&self) -> String {
        let mut wanted = Vec::new();
        wanted.extend(self.matches.as_ref().map(|p| format!("matches `{}`", p.text)));
        wanted.extend(self.not_matches.as_ref().map(|p| format!("does not match `{}`", p.text)));
        match (&self.min, &self.max) {
            (Some(min), Some(max)) => wanted.push(format!("is a number from {min} to {max}")),
            (Some(min), None) => wanted.push(format!("is a number of at least {min}")),
            (None, Some(max)) => wanted.push(format!("is a number of at most {max}")),
            (None, None) => {}
        }
        if let Some(values) = &self.one_of {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            wanted.push(format!("is one of {}", values.join(", ")));
        }
        wanted.join(" and ")
    }
}

/// Returns `true` if a glob matches a folder; `x/**` matches `x` too.
fn is_within(glob: &str, folder: &Path) -> bool {
    let matcher = |glob: &str| -> Option<GlobMatcher> {
        Some(GlobBuilder::new(glob).literal_separator(true).build().ok()?.compile_matcher())
    };
    let of = |glob: &str| matcher(glob).is_some_and(|matcher| matcher.is_match(folder));
    of(glob) || glob.strip_suffix("/**").is_some_and(of)
}

#[cfg(test)]
mod tests;
