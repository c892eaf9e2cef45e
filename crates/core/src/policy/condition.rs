//! Evaluates the `when` conditions of agent policies: working directory, time window and call
//! arguments.
//!
//! A condition that can't be evaluated, such as one with an invalid regular expression, does not
//! hold.

use std::cmp::Ordering;
use std::path::Path;

use crate::policy::rule::RulePath;
use crate::policy::time_window::{self, UnixTime};
use globset::{GlobBuilder, GlobMatcher};
use mcp_workbench_settings::{ArgumentTest, PolicyCondition, TimeWindow};
use mcp_workbench_wire::json::exact::{ExactJson, compare_numbers};
use mcp_workbench_wire::json::similar;
use regex::Regex;

/// A compiled entry of `when`.
#[derive(Debug)]
pub(crate) struct Condition {
    rule: RulePath,
    /// Evaluated once, because the working directory is fixed at startup.
    is_here: bool,
    window: Option<TimeWindow>,
    arguments: Vec<(ArgumentPath, ArgumentConstraint)>,
}

/// A JSON pointer to an argument, or with `*` to an argument in every element of an array.
#[derive(Debug)]
struct ArgumentPath {
    text: String,
    /// `None` if the text is not a valid pointer; it then selects nothing.
    steps: Option<Vec<PathSegment>>,
}

#[derive(Debug, PartialEq, Eq)]
enum PathSegment {
    /// A member name of an object, or an index of an array.
    Member(String),
    /// `*`: every element of an array.
    Every,
}

impl ArgumentPath {
    fn new(text: &str) -> Self {
        let steps = match text.strip_prefix('/') {
            Some(rest) => Some(rest.split('/').map(PathSegment::new).collect()),
            None => text.is_empty().then(Vec::new),
        };
        Self { text: text.to_owned(), steps }
    }

    /// Returns the selected values, at least one. `None` if any branch has a missing or ambiguous
    /// member, an empty array or a value of the wrong type.
    fn follow<'v>(&self, arguments: &'v ExactJson) -> Option<Vec<&'v ExactJson>> {
        let mut found = vec![arguments];
        for step in self.steps.as_ref()? {
            let mut next = Vec::with_capacity(found.len());
            for value in found {
                match (step, value) {
                    (PathSegment::Every, ExactJson::Array(elements)) if !elements.is_empty() => {
                        next.extend(elements);
                    }
                    (PathSegment::Member(key), ExactJson::Object(members)) => {
                        next.push(only_member(members, key)?);
                    }
                    (PathSegment::Member(key), ExactJson::Array(elements)) => {
                        next.push(element(elements, key)?);
                    }
                    _ => return None,
                }
            }
            found = next;
        }
        Some(found)
    }

    fn is_of_every(&self) -> bool {
        self.steps.iter().flatten().any(|step| *step == PathSegment::Every)
    }

    fn words(&self) -> String {
        let every = if self.is_of_every() { "every argument" } else { "argument" };
        format!("{every} `{}`", self.text)
    }
}

impl PathSegment {
    /// Parses one segment of a JSON pointer (RFC 6901), extended by `~2` for a literal `*`.
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
        Self::Member(name)
    }
}

/// Returns the member called `name`; `None` if it is missing, or if another name differs from it
/// only in case: some servers, such as those in Go, read either of them.
fn only_member<'v>(members: &'v [(String, ExactJson)], name: &str) -> Option<&'v ExactJson> {
    let mut similar = members.iter().filter(|(key, _)| similar::is_similar(key, name));
    let (key, value) = similar.next()?;
    (key == name && similar.next().is_none()).then_some(value)
}

/// Indexes with a sign or a leading zero are invalid (RFC 6901 §4).
fn element<'v>(elements: &'v [ExactJson], index: &str) -> Option<&'v ExactJson> {
    let is_plain = index == "0" || !index.starts_with(['0', '+']);
    elements.get(index.parse::<usize>().ok().filter(|_| is_plain)?)
}

/// A call that a condition refuses, although the agent can see the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The condition that does not hold.
    pub rule: RulePath,
    /// The reason, in words for the agent.
    pub reason: String,
    pub hint: String,
}

impl Condition {
    /// `folder` is the working directory of the workbench; `None` if it is unknown.
    pub(crate) fn new(rule: RulePath, when: &PolicyCondition, folder: Option<&Path>) -> Self {
        let globs = when.working_directory.as_ref();
        let arguments = when.arguments.iter();
        Self {
            rule,
            is_here: globs.is_none_or(|globs| {
                folder.is_some_and(|folder| globs.iter().any(|glob| is_within(glob, folder)))
            }),
            window: when.time,
            arguments: arguments
                .map(|(at, test)| (ArgumentPath::new(at), ArgumentConstraint::new(test)))
                .collect(),
        }
    }

    pub(crate) fn rule(&self) -> &RulePath {
        &self.rule
    }

    pub(crate) fn matches_directory(&self) -> bool {
        self.is_here
    }

    /// The time window; `None` if the condition holds at any time.
    pub(crate) fn window(&self) -> Option<&TimeWindow> {
        self.window.as_ref()
    }

    /// Returns `true` if the directory and the time window match. Arguments are checked by `check`.
    pub(crate) fn holds(&self, now: impl FnOnce() -> UnixTime) -> bool {
        self.is_here
            && self.window.as_ref().is_none_or(|window| time_window::is_open(window, now()))
    }

    pub(crate) fn asks_for_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    pub(crate) fn wanted(&self) -> impl Iterator<Item = String> {
        let arguments = self.arguments.iter();
        arguments.map(|(way, test)| format!("{} {}", way.words(), test.wanted()))
    }

    fn check(&self, arguments: &ExactJson) -> Result<(), Refusal> {
        for (way, test) in &self.arguments {
            let found = way.follow(arguments);
            if found.as_ref().is_some_and(|found| found.iter().all(|value| test.holds(value))) {
                continue;
            }
            let wanted = test.wanted();
            let missing = match found {
                Some(_) => "",
                None if way.is_of_every() => {
                    "; the list is missing or empty, or an element lacks it"
                }
                None => ", but it is missing or ambiguous",
            };
            return Err(Refusal {
                rule: self.rule.clone(),
                reason: format!("allowed only if {} {wanted}{missing}", way.words()),
                hint: "change the argument; the configuration sets this condition".to_owned(),
            });
        }
        Ok(())
    }
}

/// Checks the arguments of a call, which are JSON, against all conditions. Duplicate member names
/// and strings that aren't valid Unicode are refused. Missing arguments count as an empty object.
pub(crate) fn check<'a>(
    conditions: impl Iterator<Item = &'a Condition>,
    arguments: Option<&[u8]>,
) -> Result<(), Refusal> {
    let mut value = None;
    for condition in conditions {
        let value = match &mut value {
            Some(value) => value,
            none => none.insert(ExactJson::parse(arguments.unwrap_or(b"{}")).map_err(|why| {
                Refusal {
                    rule: condition.rule.clone(),
                    reason: format!("cannot check its arguments: {why}"),
                    hint: "use each name once, and only valid Unicode".to_owned(),
                }
            })?),
        };
        condition.check(value)?;
    }
    Ok(())
}

/// The constraints on one argument. All of them must hold.
#[derive(Debug)]
struct ArgumentConstraint {
    matches: Option<Pattern>,
    not_matches: Option<Pattern>,
    /// The bounds as decimal text, for an exact comparison.
    min: Option<String>,
    max: Option<String>,
    one_of: Option<Vec<ExactJson>>,
}

/// `regex` is `None` if the expression does not compile.
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

impl ArgumentConstraint {
    fn new(test: &ArgumentTest) -> Self {
        let ArgumentTest { matches, not_matches, min, max, one_of } = test;
        Self {
            matches: matches.as_deref().map(Pattern::new),
            not_matches: not_matches.as_deref().map(Pattern::new),
            min: min.as_ref().map(ToString::to_string),
            max: max.as_ref().map(ToString::to_string),
            one_of: one_of.as_ref().map(|values| values.iter().map(ExactJson::from).collect()),
        }
    }

    /// Returns `true` if the value meets every constraint. An array must not be empty and each of
    /// its elements must meet them, unless `one_of` lists the array itself.
    fn holds(&self, value: &ExactJson) -> bool {
        let is_listed = |values: &Vec<ExactJson>| values.iter().any(|one| one.equals(value));
        if let ExactJson::Array(values) = value
            && !self.one_of.as_ref().is_some_and(is_listed)
        {
            return !values.is_empty() && values.iter().all(|value| self.holds(value));
        }
        let text = |pattern: &Pattern, wanted: bool| match value {
            ExactJson::Text(text) => pattern.matches(text) == Some(wanted),
            _ => false,
        };
        let number = |bound: &String, is_kept: fn(Ordering) -> bool| match value {
            ExactJson::Number(number) => compare_numbers(number, bound).is_some_and(is_kept),
            _ => false,
        };
        self.matches.as_ref().is_none_or(|pattern| text(pattern, true))
            && self.not_matches.as_ref().is_none_or(|pattern| text(pattern, false))
            && self.min.as_ref().is_none_or(|min| number(min, Ordering::is_ge))
            && self.max.as_ref().is_none_or(|max| number(max, Ordering::is_le))
            && self.one_of.as_ref().is_none_or(is_listed)
    }

    fn wanted(&self) -> String {
        let mut wanted = Vec::new();
        wanted.extend(self.matches.as_ref().map(|p| format!("matches `{}`", p.text)));
        wanted.extend(self.not_matches.as_ref().map(|p| format!("does not match `{}`", p.text)));
        match (&self.min, &self.max) {
            (Some(min), Some(max)) => wanted.push(format!("is a number between {min} and {max}")),
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

/// Returns `true` if the glob matches the folder. `x/**` also matches `x`.
fn is_within(glob: &str, folder: &Path) -> bool {
    let matcher = |glob: &str| -> Option<GlobMatcher> {
        Some(GlobBuilder::new(glob).literal_separator(true).build().ok()?.compile_matcher())
    };
    let of = |glob: &str| matcher(glob).is_some_and(|matcher| matcher.is_match(folder));
    of(glob) || glob.strip_suffix("/**").is_some_and(of)
}

#[cfg(test)]
mod tests;
