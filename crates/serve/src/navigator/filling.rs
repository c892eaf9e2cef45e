//! The arguments of the tool that was found: what the agent has given, and what is found in the task
//! besides. What is found and does not fit the tool's schema is asked for once more. What is required,
//! has no default and is lacking is a question to the agent, and to no chooser, which might make it up;
//! about all else the server decides.

use crate::catalog::rank::only_reads;
use crate::catalog::schema::{MISSING, Mismatch, Parameter};
use crate::navigator::asking::Asker;
use crate::navigator::tree::Tool;
use crate::navigator::{Failure, Hear, Step, Wanted};
use crate::raw::{self, Raw};

/// How often arguments are asked for.
const TIMES: u32 = 2;

/// Tells whether a tool that may change something would be called without any argument, though it
/// takes some that are not required: the ranker has read none out of the task.
pub(crate) fn leaves_out_what_may_matter(tool: &Tool, given: Option<&Raw>) -> bool {
    let parameters = tool.definition.parameters();
    given.and_then(Raw::members).is_none_or(|given| given.is_empty())
        && !parameters.is_empty()
        && parameters.iter().all(|parameter| !parameter.is_required)
        && !tool.definition.is_read_only()
        && !only_reads(&tool.name)
}

/// The search for a tool's arguments.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    given: Option<&'a Raw>,
    asked: u32,
    /// The arguments that were found last, and the ways in which they do not fit.
    last: Option<Raw>,
    mismatches: Vec<Mismatch>,
    /// `true` if the tool was not called with them.
    was_refused: bool,
}

impl<'a> Filling<'a> {
    /// With what the agent has given, an object.
    pub(crate) fn new(given: Option<&'a Raw>) -> Self {
        Self { given, asked: 0, last: None, mismatches: Vec::new(), was_refused: false }
    }

    /// A macro takes other arguments than those that were found last.
    pub(crate) fn did_not_fit(&mut self, mismatches: &[Mismatch]) {
        self.mismatches = mismatches.to_vec();
        self.was_refused = true;
    }

    /// Arguments to call the tool with; a question, when something is lacking and enough was asked.
    pub(crate) async fn next(
        &mut self,
        tool: &Tool,
        asker: &Asker<'_>,
        heard: &Hear<'_>,
    ) -> Result<Option<Raw>, Failure> {
        let word = tool.word();
        if self.mismatches.is_empty() && self.is_enough(tool) {
            heard(&Step::Arguments { tool: &word, arguments: self.given, by: "agent" });
            self.last = self.given.cloned();
            return Ok(self.last.clone());
        }
        let mut found_by = "agent";
        while self.asked < TIMES {
            self.asked += 1;
            let wrong = self.mismatches.iter().filter(|mismatch| !is_missing(mismatch));
            let hint: Vec<_> = wrong.map(ToString::to_string).collect();
            let hint = (!hint.is_empty()).then(|| hint.join("\n"));
            let wanted = Wanted {
                task: asker.task(),
                tool: &tool.name,
                description: tool.definition.description.as_deref().unwrap_or_default(),
                schema: tool.schema(),
                given: self.given,
                hint: hint.as_deref(),
            };
            let (said, by) = asker.arguments(wanted).await?;
            found_by = by;
            let found = self.with_given(said);
            if !self.mismatches.is_empty() && self.last.as_ref() == Some(&found) {
                break;
            }
            let (found, checked) = checked(tool, found, self.given);
            self.last = Some(found.clone());
            match checked {
                Ok(()) => {
                    heard(&Step::Arguments { tool: &word, arguments: Some(&found), by });
                    return Ok(Some(found));
                }
                Err(mismatches) => self.mismatches = mismatches,
            }
            // A chooser that is asked again for what it left out makes something up.
            if self.mismatches.iter().all(is_missing) {
                break;
            }
        }
        let last = self.last.clone().or_else(|| self.given.cloned());
        let lacking = lacking(tool, last.as_ref());
        if lacking.is_empty() && !self.was_refused {
            heard(&Step::Arguments { tool: &word, arguments: last.as_ref(), by: found_by });
            return Ok(last);
        }
        Err(self.failure(tool, lacking))
    }

    /// Tells whether there is nothing to ask: the agent has given what the tool wants, or it wants
    /// nothing. An empty object says no more than none: agents fill in what is optional.
    fn is_enough(&self, tool: &Tool) -> bool {
        let is_given = self.given.and_then(Raw::members).is_some_and(|given| !given.is_empty());
        (is_given || tool.definition.parameters().is_empty())
            && lacking(tool, self.given).is_empty()
    }

    /// The arguments that were found. Where the agent has given an argument of the same name, its
    /// own is taken.
    fn with_given(&self, found: Raw) -> Raw {
        let given = self.given.and_then(Raw::members).unwrap_or_default();
        given
            .into_iter()
            .fold(found, |found, (name, value)| found.with_member(&name, &value).unwrap_or(found))
    }

    /// A failure that tells what is lacking, or else what is wrong.
    fn failure(&self, tool: &Tool, lacking: Vec<Parameter>) -> Failure {
        let last = self.last.clone().or_else(|| self.given.cloned());
        let last = last.unwrap_or_else(|| raw::object([]));
        let known = last.members().is_some_and(|members| !members.is_empty()).then_some(&last);
        if lacking.is_empty() {
            Failure::invalid_arguments(&tool.word(), &self.mismatches, known)
        } else {
            Failure::missing(&tool.word(), lacking, known)
        }
    }
}

/// Returns the parameters that a tool requires, has no default for, and is not given.
fn lacking(tool: &Tool, arguments: Option<&Raw>) -> Vec<Parameter> {
    let is_given = |name: &str| arguments.is_some_and(|given| given.member(name).is_some());
    let parameters = tool.definition.parameters().into_iter();
    parameters.filter(|p| p.is_required && !is_given(&p.name)).collect()
}

/// Tells whether a mismatch is that something is not there, rather than wrong.
fn is_missing(mismatch: &Mismatch) -> bool {
    mismatch.problem == MISSING
}

/// Arguments as they fit best, and whether they do. A model says `null` of what it does not know,
/// which few tools take.
fn checked(tool: &Tool, found: Raw, given: Option<&Raw>) -> (Raw, Result<(), Vec<Mismatch>>) {
    let definition = &tool.definition;
    let Err(mismatches) = definition.check_arguments(Some(&found)) else { return (found, Ok(())) };
    let members = found.members().unwrap_or_default().into_iter();
    let is_unknown = |name: &str, value: &Raw| {
        value.as_bytes() == b"null" && given.is_none_or(|given| given.member(name).is_none())
    };
    let unknown: Vec<_> = members.filter(|(name, value)| is_unknown(name, value)).collect();
    if unknown.is_empty() {
        return (found, Err(mismatches));
    }
    let known =
        unknown.iter().fold(found, |found, (name, _)| found.without_member(name).unwrap_or(found));
    let checked = definition.check_arguments(Some(&known));
    (known, checked)
}
