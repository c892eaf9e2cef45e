//! Errors of a task: an error kind for programs, and a message and a suggestion for models. The
//! length of every text is bounded.

use mcp_workbench_core::catalog::rank::absent_services_message;
use mcp_workbench_core::catalog::schema::{Parameter, SchemaViolation};
use mcp_workbench_core::catalog::{ToolDefinition, shorten};
use mcp_workbench_core::llm;
use mcp_workbench_wire::json::RawJson;

/// Maximum length in characters; a longer text of a tool is returned in full next to the error.
const MAX_MESSAGE: usize = 2000;
const MAX_SUGGESTION: usize = 800;
const MAX_CONTEXT: usize = 500;
/// Maximum number of parameters requested, and of characters per description.
const MAX_PARAMETERS: usize = 20;
const MAX_DESCRIPTION: usize = 300;
const MAX_NAMES: usize = 400;
const REPHRASE: &str = "rephrase the task with a service, a verb and an object, one step at a time";
const MAX_NAME: usize = 200;
const MAX_SIGNATURE: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskErrorKind {
    InvalidTask,
    /// The task exceeds the limit of the model that reads it.
    TaskTooLong,
    /// Several tools fit, none clearly enough to call it.
    AmbiguousTask,
    NoMatchingTool,
    /// The chooser gave no valid answer after all retries.
    InvalidChoice,
    MissingParameters,
    InvalidArguments,
    /// The server could not be started or reached. Nothing was sent to it.
    ServerUnavailable,
    /// The server received the call and didn't respond; it can have had effects.
    NoAnswer,
    ToolExecutionError,
    /// Policy or the user rejected the call.
    Refused,
    /// Choosing exceeded its limits.
    BudgetExhausted,
    /// The model that chooses is unavailable.
    LlmError,
    /// A tool's catalog file is unreadable.
    CatalogError,
}

impl TaskErrorKind {
    pub const ALL: [Self; 14] = [
        Self::InvalidTask,
        Self::TaskTooLong,
        Self::AmbiguousTask,
        Self::NoMatchingTool,
        Self::InvalidChoice,
        Self::MissingParameters,
        Self::InvalidArguments,
        Self::ServerUnavailable,
        Self::NoAnswer,
        Self::ToolExecutionError,
        Self::Refused,
        Self::BudgetExhausted,
        Self::LlmError,
        Self::CatalogError,
    ];

    /// The stable word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidTask => "invalid_task",
            Self::TaskTooLong => "task_too_long",
            Self::AmbiguousTask => "ambiguous_task",
            Self::NoMatchingTool => "no_matching_tool",
            Self::InvalidChoice => "invalid_choice",
            Self::MissingParameters => "missing_parameters",
            Self::InvalidArguments => "invalid_arguments",
            Self::ServerUnavailable => "server_unavailable",
            Self::NoAnswer => "no_answer",
            Self::ToolExecutionError => "tool_execution_error",
            Self::Refused => "refused",
            Self::BudgetExhausted => "budget_exhausted",
            Self::LlmError => "llm_error",
            Self::CatalogError => "catalog_error",
        }
    }
}

#[derive(Clone, Debug)]
pub struct TaskError {
    pub kind: TaskErrorKind,
    pub message: String,
    /// Advice in terms of `execute_task`; see [`Self::with_others`].
    pub suggestion: String,
    /// Alternative tools.
    pub others: Vec<String>,
    /// The most likely tools, if none was called.
    pub candidates: Vec<Candidate>,
    /// The missing parameters.
    pub parameters: Vec<Parameter>,
    /// The call that was made or would have been.
    pub context: Option<String>,
    /// The server's result, unchanged.
    pub result: Option<Box<RawJson>>,
}

/// A tool that the agent can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The value for `tool` that selects it.
    pub tool: String,
    /// `name(required: type, optional?: type)`.
    pub signature: String,
    /// First sentence.
    pub description: String,
}

impl Candidate {
    pub(crate) fn new(tool: &str, definition: &ToolDefinition) -> Self {
        Self {
            tool: shorten(tool, MAX_NAME),
            signature: shorten(&definition.signature(), MAX_SIGNATURE),
            description: definition.summary().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCallReason<'a> {
    NothingFits,
    /// Several fit and none is far ahead.
    SeveralFit,
    /// The task names well-known services that no server here provides.
    Absent(&'a [String]),
    /// The best match deletes something, which the task doesn't mention.
    Deletes,
    NoSuchTool(&'a str),
}

impl TaskError {
    pub(crate) fn new(kind: TaskErrorKind, message: &str, suggestion: &str) -> Self {
        Self {
            kind,
            message: shorten(message.trim(), MAX_MESSAGE),
            suggestion: shorten(suggestion, MAX_SUGGESTION),
            others: Vec::new(),
            candidates: Vec::new(),
            parameters: Vec::new(),
            context: None,
            result: None,
        }
    }

    pub fn invalid_task(why: &str) -> Self {
        let suggestion = "call execute_task with {\"task\": \"<what to do>\"}, optionally with \
                          \"arguments\": {…}";
        Self::new(TaskErrorKind::InvalidTask, why, suggestion)
    }

    /// No option fits; `available` lists the toolboxes with their tools, or similar tools.
    pub(crate) fn no_match(what: &str, available: &[&str]) -> Self {
        let (message, suggestion) = if available.is_empty() {
            let suggestion = "do it without a tool. To add a server, the user can run \
                              `mcp-workbench setup` or `mcp-workbench add NAME -- COMMAND`";
            ("no tool is available".to_owned(), suggestion.to_owned())
        } else {
            (
                format!("no {what} fits the task"),
                format!("{REPHRASE}. {}", are_available(available)),
            )
        };
        Self::new(TaskErrorKind::NoMatchingTool, &message, &suggestion)
    }

    /// No tool is clear enough to call; `candidates` are the most likely ones. If none matches,
    /// `available` lists the toolboxes with their tools.
    pub(crate) fn no_clear_tool(
        doubt: NoCallReason<'_>,
        candidates: Vec<Candidate>,
        available: &[&str],
    ) -> Self {
        let kind = match doubt {
            NoCallReason::SeveralFit | NoCallReason::Deletes => TaskErrorKind::AmbiguousTask,
            NoCallReason::NothingFits | NoCallReason::Absent(_) | NoCallReason::NoSuchTool(_) => {
                TaskErrorKind::NoMatchingTool
            }
        };
        let message = match doubt {
            NoCallReason::NothingFits => {
                "no tool fits the task well, so none was called".to_owned()
            }
            NoCallReason::SeveralFit => {
                "several tools fit and none stands out, so none was called".to_owned()
            }
            NoCallReason::Absent(services) => {
                format!("{}, so no tool was called", absent_services_message(services))
            }
            NoCallReason::Deletes => {
                "the best match deletes something, which the task does not mention, so it was not \
                 called"
                    .to_owned()
            }
            NoCallReason::NoSuchTool(name) => {
                format!("unknown tool `{}`, so none was called", shorten(name, MAX_NAME))
            }
        };
        let otherwise = "rephrase the task (service, verb, object), one step at a time";
        let suggestion = if candidates.is_empty() && available.is_empty() {
            otherwise.to_owned()
        } else if candidates.is_empty() {
            format!("{otherwise}. {}", are_available(available))
        } else {
            let suggestion = format!(
                "if one of `candidates` is right, call execute_task again with the same task, its \
                 name as \"tool\" and its parameters in \"arguments\"; else {otherwise}"
            );
            // Candidates that don't match don't tell what else there is.
            if kind == TaskErrorKind::NoMatchingTool && !available.is_empty() {
                format!("{suggestion}. {}", are_available(available))
            } else {
                suggestion
            }
        };
        Self { candidates, ..Self::new(kind, &message, &suggestion) }
    }

    pub(crate) fn too_long(bytes: usize, most: usize) -> Self {
        let message = format!(
            "the task has {bytes} bytes, but arguments can be extracted from at most {most}, so \
             nothing was called"
        );
        let suggestion = "shorten the task to a sentence or two and pass long texts as arguments: \
                          call execute_task with `tool_used` as \"tool\" and the tool's \
                          \"arguments\"";
        Self::new(TaskErrorKind::TaskTooLong, &message, suggestion)
    }

    /// The tool has only optional arguments, and the ranker derives none from the task.
    pub(crate) fn arguments_not_derived(tool: &str, optional: Vec<Parameter>) -> Self {
        let message = format!(
            "`{tool}` may change something and takes arguments, but none were given, so it was not \
             called"
        );
        let suggestion = format!(
            "call execute_task again with the same task, \"tool\": \"{tool}\" and the `parameters` \
             that the task gives in \"arguments\", or {{}} if none"
        );
        let failure = Self::new(TaskErrorKind::MissingParameters, &message, &suggestion);
        Self { parameters: bounded(optional), ..failure }
    }

    pub(crate) fn invalid_choice(what: &str, by: &str, why: &str) -> Self {
        let message = format!("{by} gave no valid answer when asked for a {what}: {why}");
        let suggestion = "rephrase the task, one step at a time";
        Self::new(TaskErrorKind::InvalidChoice, &message, suggestion)
    }

    /// Required parameters are missing; `known` has the others.
    pub(crate) fn missing(tool: &str, lacking: Vec<Parameter>, known: Option<&RawJson>) -> Self {
        let names: Vec<_> = lacking.iter().map(|p| format!("`{}`", p.name)).collect();
        let message = format!("`{tool}` needs {}", shorten(&names.join(", "), MAX_NAMES));
        let suggestion = "call execute_task again with the same task and with these in \
                          `arguments`, plus the known ones";
        let failure = Self::new(TaskErrorKind::MissingParameters, &message, suggestion);
        let context = known.map(|known| format!("known so far: {}", known.as_str()));
        Self { parameters: bounded(lacking), ..failure }.with_context(context)
    }

    pub(crate) fn invalid_arguments(
        tool: &str,
        mismatches: &[SchemaViolation],
        with: Option<&RawJson>,
    ) -> Self {
        let what: Vec<_> = mismatches.iter().map(|mismatch| format!("- {mismatch}")).collect();
        let message = format!("invalid arguments for `{tool}`:\n{}", what.join("\n"));
        let suggestion = "call execute_task again with corrected `arguments`";
        let context = with.map(|with| format!("not called with {}", with.as_str()));
        Self::new(TaskErrorKind::InvalidArguments, &message, suggestion).with_context(context)
    }

    pub(crate) fn unavailable(server: &str, why: &str, hint: &str) -> Self {
        let message = format!("server `{server}` could not be started: {why}");
        let suggestion = format!("nothing was sent to it, so you can retry later. {hint}");
        Self::new(TaskErrorKind::ServerUnavailable, &message, &suggestion)
    }

    /// The limit `what` is exhausted.
    pub(crate) fn spent(what: &str) -> Self {
        let message = format!("the budget for choosing a tool ran out: {what}");
        let suggestion = "give a shorter task, one step at a time; `navigator.budget` sets the \
                          limits";
        Self::new(TaskErrorKind::BudgetExhausted, &message, suggestion)
    }

    pub(crate) fn no_model(failure: &llm::LlmError) -> Self {
        let message = format!("the model that chooses tools failed: {failure}");
        let suggestion = "retry later; check `navigator.llm`, or set \"chooser\": \"ranker\" to \
                          use no model";
        Self::new(TaskErrorKind::LlmError, &message, suggestion)
    }

    pub(crate) fn with_context(self, context: Option<String>) -> Self {
        Self { context: context.map(|text| shorten(&text, MAX_CONTEXT)), ..self }
    }

    pub(crate) fn with_alternatives(self, others: Vec<String>) -> Self {
        Self { others, ..self }
    }

    /// Appends the alternative tools to a suggestion.
    pub fn with_others(&self, suggestion: &str) -> String {
        if self.others.is_empty() {
            return suggestion.to_owned();
        }
        let others: Vec<_> = self.others.iter().map(|other| format!("`{other}`")).collect();
        let suggestion = format!("{suggestion}. Alternatives: {}", others.join(", "));
        shorten(&suggestion, MAX_SUGGESTION)
    }
}

fn are_available(names: &[&str]) -> String {
    format!("Available: {}", shorten(&names.join(", "), MAX_NAMES))
}

/// Limits the number of parameters and the length of their texts.
fn bounded(parameters: Vec<Parameter>) -> Vec<Parameter> {
    let parameters = parameters.into_iter().take(MAX_PARAMETERS).map(|parameter| Parameter {
        description: parameter.description.map(|text| shorten(&text, MAX_DESCRIPTION)),
        kind: shorten(&parameter.kind, MAX_DESCRIPTION),
        ..parameter
    });
    parameters.collect()
}
