//! Conditions (`when`), made ready: where, when, and with which arguments tools may be used.
//!
//! What cannot be evaluated does not hold.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;
use serde_json::{Number, Value};

use crate::config::{ArgumentTest, TimeWindow, When};
use crate::policy::hours::{self, Moment};
use crate::policy::rule::Rule;
use crate::policy::strict;

/// One entry of `when`.
#[derive(Debug)]
pub(crate) struct Condition {
    rule: Rule,
    /// Whether the working directory is as it must be.
    is_here: bool,
    window: Option<TimeWindow>,
    arguments: Vec<(String, Test)>,
}

/// A call is not let through for what it is, though the tool is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The condition that does not hold.
    pub rule: Rule,
    /// Why not, in words for the agent.
    pub reason: String,
    /// What to do about it.
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
            arguments: arguments.map(|(at, test)| (at.clone(), Test::new(test))).collect(),
        }
    }

    /// The key that it stands under.
    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Whether the working directory is as it must be.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    /// When it holds, if that is not always.
    pub(crate) fn window(&self) -> Option<&TimeWindow> {
        self.window.as_ref()
    }

    /// Whether it holds now, as far as that does not depend on arguments.
    pub(crate) fn holds(&self, now: impl FnOnce() -> Moment) -> bool {
        self.is_here && self.window.as_ref().is_none_or(|window| hours::is_open(window, now()))
    }

    /// Whether it asks for arguments.
    pub(crate) fn asks_for_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// What it wants of arguments, each in words.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = String> {
        let arguments = self.arguments.iter();
        arguments.map(|(pointer, test)| format!("argument `{pointer}` {}", test.wanted()))
    }

    /// Whether arguments, which are a JSON object, are as they must be.
    fn check(&self, arguments: &Value) -> Result<(), Refusal> {
        for (pointer, test) in &self.arguments {
            let found = arguments.pointer(pointer);
            if found.is_some_and(|found| test.holds(found)) {
                continue;
            }
            let wanted = test.wanted();
            let missing = if found.is_none() { ", and it is not there" } else { "" };
            return Err(Refusal {
                rule: self.rule.clone(),
                reason: format!(
                    "it may only be called when argument `{pointer}` {wanted}{missing}"
                ),
                hint: "call it with such an argument, or do without; the configuration decides"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

/// Whether the arguments of a call, which are JSON, are as all conditions want them.
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

/// What one argument must be like.
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

    /// Whether a value is as it must be; of a list, all that is in it, and something.
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

    /// The same in words.
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

/// Whether a folder is one of those that a glob means; `x/**` means `x` too.
fn is_within(glob: &str, folder: &Path) -> bool {
    let matcher = |glob: &str| -> Option<GlobMatcher> {
        Some(GlobBuilder::new(glob).literal_separator(true).build().ok()?.compile_matcher())
    };
    let of = |glob: &str| matcher(glob).is_some_and(|matcher| matcher.is_match(folder));
    of(glob) || glob.strip_suffix("/**").is_some_and(of)
}

#[cfg(test)]
mod tests;
