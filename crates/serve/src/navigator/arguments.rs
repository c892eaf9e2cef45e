//! Resolves the arguments of the tool: those that the agent gave, completed by the chooser.
//!
//! Arguments that violate the schema are requested once more. Missing required parameters without a
//! default are requested from the agent, because a chooser tends to make them up. Any other
//! mismatch is left to the server.

use crate::navigator::chooser::ArgumentsRequest;
use crate::navigator::error::TaskError;
use crate::navigator::retrying_chooser::RetryingChooser;
use crate::navigator::step::{NavigationStep, StepListener};
use crate::navigator::tree::ToolNode;
use mcp_workbench_core::catalog::rank::is_read_operation;
use mcp_workbench_core::catalog::schema::{MISSING, Parameter, SchemaViolation};
use mcp_workbench_wire::json::{self, EditError, RawJson};

/// Maximum number of requests to the chooser.
const TIMES: u32 = 2;

/// Returns `true` if a tool that can change something would be called without any argument,
/// although it accepts optional ones: the ranker has derived none from the task.
pub(crate) fn omits_all_optional_arguments(tool: &ToolNode, given: Option<&RawJson>) -> bool {
    let parameters = tool.definition.parameters();
    are_none(given)
        && !parameters.is_empty()
        && parameters.iter().all(|parameter| !parameter.is_required)
        && !only_reads(tool)
}

pub(crate) fn only_reads(tool: &ToolNode) -> bool {
    tool.definition.is_read_only() || is_read_operation(&tool.name)
}

pub(crate) fn are_none(given: Option<&RawJson>) -> bool {
    given.and_then(RawJson::members).is_none_or(|given| given.is_empty())
}

/// Returns `true` if the tool can be called with the given arguments: it has all of these
/// parameters and requires no others.
pub(crate) fn are_complete(tool: &ToolNode, given: Option<&RawJson>) -> bool {
    let parameters = tool.definition.parameters();
    let is_known = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    let given_members = given.and_then(RawJson::members).unwrap_or_default();
    given_members.iter().all(|(name, _)| is_known(name)) && lacking(tool, given).is_empty()
}

#[derive(Debug)]
pub(crate) struct ArgumentResolver<'a> {
    given: Option<&'a RawJson>,
    asked: u32,
    /// The previous arguments and their schema violations.
    last: Option<RawJson>,
    mismatches: Vec<SchemaViolation>,
    /// `true` if the tool rejected them.
    was_refused: bool,
}

impl<'a> ArgumentResolver<'a> {
    pub(crate) fn new(given: Option<&'a RawJson>) -> Self {
        Self { given, asked: 0, last: None, mismatches: Vec::new(), was_refused: false }
    }

    /// Records that a macro rejected the previous arguments.
    pub(crate) fn reject(&mut self, mismatches: &[SchemaViolation]) {
        self.mismatches = mismatches.to_vec();
        self.was_refused = true;
    }

    /// Returns the arguments for the call, or an error that lists what is missing or wrong.
    pub(crate) async fn resolve(
        &mut self,
        tool: &ToolNode,
        asker: &RetryingChooser<'_>,
        heard: &StepListener<'_>,
    ) -> Result<Option<RawJson>, TaskError> {
        let word = tool.qualified_name();
        if self.mismatches.is_empty() && self.is_enough(tool) {
            heard(&NavigationStep::Arguments { tool: &word, arguments: self.given, by: "agent" });
            self.last = self.given.cloned();
            return Ok(self.last.clone());
        }
        let mut found_by = "agent";
        while self.asked < TIMES {
            self.asked += 1;
            let wrong = self.mismatches.iter().filter(|mismatch| !is_missing(mismatch));
            let hint: Vec<_> = wrong.map(ToString::to_string).collect();
            let hint = (!hint.is_empty()).then(|| hint.join("\n"));
            let request = ArgumentsRequest {
                task: asker.task(),
                tool: &tool.name,
                description: tool.definition.description.as_deref().unwrap_or_default(),
                schema: tool.schema(),
                given: self.given,
                hint: hint.as_deref(),
            };
            let (said, by) = asker.arguments(request).await?;
            found_by = by;
            let Ok(found) = self.with_given(said) else { break };
            if !self.mismatches.is_empty() && self.last.as_ref() == Some(&found) {
                break;
            }
            let (found, checked) = checked(tool, found, self.given);
            self.last = Some(found.clone());
            match checked {
                Ok(()) => {
                    heard(&NavigationStep::Arguments { tool: &word, arguments: Some(&found), by });
                    return Ok(Some(found));
                }
                Err(mismatches) => self.mismatches = mismatches,
            }
            // Don't retry for omitted arguments: the chooser would make them up.
            if self.mismatches.iter().all(is_missing) {
                break;
            }
        }
        let last = self.last.clone().or_else(|| self.given.cloned());
        let lacking = lacking(tool, last.as_ref());
        if lacking.is_empty() && !self.was_refused {
            heard(&NavigationStep::Arguments {
                tool: &word,
                arguments: last.as_ref(),
                by: found_by,
            });
            return Ok(last);
        }
        Err(self.failure(tool, lacking))
    }

    /// Returns `true` if the chooser isn't needed: all required arguments are given, or the tool
    /// takes none. An empty object counts as none given, because agents fill in optional
    /// parameters.
    fn is_enough(&self, tool: &ToolNode) -> bool {
        let is_given = self.given.and_then(RawJson::members).is_some_and(|given| !given.is_empty());
        (is_given || tool.definition.parameters().is_empty())
            && lacking(tool, self.given).is_empty()
    }

    /// Merges `found` with the arguments of the agent, which have priority.
    fn with_given(&self, found: RawJson) -> Result<RawJson, EditError> {
        let given = self.given.and_then(RawJson::members).unwrap_or_default();
        given.into_iter().try_fold(found, |found, (name, value)| found.with_member(&name, &value))
    }

    fn failure(&self, tool: &ToolNode, lacking: Vec<Parameter>) -> TaskError {
        let last = self.last.clone().or_else(|| self.given.cloned());
        let last = last.unwrap_or_else(|| json::object([]));
        let known = last.members().is_some_and(|members| !members.is_empty()).then_some(&last);
        if lacking.is_empty() {
            TaskError::invalid_arguments(&tool.qualified_name(), &self.mismatches, known)
        } else {
            TaskError::missing(&tool.qualified_name(), lacking, known)
        }
    }
}

/// Returns the required parameters without a default that are not given.
fn lacking(tool: &ToolNode, arguments: Option<&RawJson>) -> Vec<Parameter> {
    let is_given = |name: &str| arguments.is_some_and(|given| given.member(name).is_some());
    let parameters = tool.definition.parameters().into_iter();
    parameters.filter(|p| p.is_required && !is_given(&p.name)).collect()
}

fn is_missing(mismatch: &SchemaViolation) -> bool {
    mismatch.problem == MISSING
}

/// Checks the arguments; if they don't match, drops `null` members that the agent didn't give.
/// Models write `null` for unknown values, which few tools accept.
fn checked(
    tool: &ToolNode,
    found: RawJson,
    given: Option<&RawJson>,
) -> (RawJson, Result<(), Vec<SchemaViolation>>) {
    let definition = &tool.definition;
    let Err(mismatches) = definition.validate_arguments(Some(&found)) else {
        return (found, Ok(()));
    };
    let members = found.members().unwrap_or_default().into_iter();
    let is_unknown = |name: &str, value: &RawJson| {
        value.as_bytes() == b"null" && given.is_none_or(|given| given.member(name).is_none())
    };
    let unknown: Vec<_> = members.filter(|(name, value)| is_unknown(name, value)).collect();
    if unknown.is_empty() {
        return (found, Err(mismatches));
    }
    let names: Vec<&str> = unknown.iter().map(|(name, _)| &**name).collect();
    let Ok(known) = found.without_members(&names) else { return (found, Err(mismatches)) };
    let checked = definition.validate_arguments(Some(&known));
    (known, checked)
}
