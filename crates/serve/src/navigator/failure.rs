//! Why a task was not done: one word for a program, a message and a suggestion for a model. Every
//! text is bounded.

use crate::catalog::rank::no_server_for;
use crate::catalog::schema::{Mismatch, Parameter};
use crate::catalog::{ToolDefinition, shorten};
use crate::llm;
use crate::raw::Raw;

/// The most characters of a message; what a tool says for longer comes beside it as a whole.
const MAX_MESSAGE: usize = 2000;
/// The most characters of a suggestion.
const MAX_SUGGESTION: usize = 800;
/// The most characters of what was called.
const MAX_CONTEXT: usize = 500;
/// The most parameters that are asked for at once, and how much is said of each.
const MAX_PARAMETERS: usize = 20;
const MAX_DESCRIPTION: usize = 300;
/// The most characters of names in a suggestion.
const MAX_NAMES: usize = 400;
/// The most characters of a candidate's name, and of its signature.
const MAX_NAME: usize = 200;
const MAX_SIGNATURE: usize = 400;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The task cannot be read.
    InvalidTask,
    /// The task is longer than the model that reads it takes.
    TaskTooLong,
    /// Several tools fit the task, and none so clearly that it was called.
    AmbiguousTask,
    /// No tool fits the task.
    NoMatchingTool,
    /// Who chooses has named no option, however often.
    InvalidChoice,
    /// The tool needs more than the task says.
    MissingParameters,
    /// The arguments are not what the tool takes.
    InvalidArguments,
    /// The tool's server cannot be started or reached. Nothing was sent to it.
    ServerUnavailable,
    /// The tool's server was called and has not answered, so that it may have done something.
    NoAnswer,
    /// The tool was called and failed.
    ToolExecutionError,
    /// The tool was not called, because this call is not allowed.
    Refused,
    /// Choosing would have cost more than it may.
    BudgetExhausted,
    /// The model that chooses cannot be had.
    LlmError,
    /// The file of a tool cannot be read.
    CatalogError,
}

impl Kind {
    /// Every one.
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

    /// The word for it, which stays.
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

/// Why a task was not done.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its kind.
    pub kind: Kind,
    /// A sentence on what happened.
    pub message: String,
    /// Advice on what to do about it, in the words of `execute_task`; see [`Self::with_others`].
    pub suggestion: String,
    /// Other tools that may do.
    pub others: Vec<String>,
    /// The tools that are likeliest meant, where none was called.
    pub candidates: Vec<Candidate>,
    /// The parameters that the tool lacks.
    pub parameters: Vec<Parameter>,
    /// The call that was made, or would have been.
    pub context: Option<String>,
    /// The tool's answer, as its server wrote it.
    pub result: Option<Box<Raw>>,
}

/// A tool that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name by which the agent can choose it.
    pub tool: String,
    /// The tool as `name(required: type, optional?: type)`.
    pub signature: String,
    /// The first sentence of its description.
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

/// Why no tool is clear enough to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt<'a> {
    /// None fits well.
    NothingFits,
    /// Several do, and none is far ahead.
    SeveralFit,
    /// The task names services that nothing here has to do with.
    Absent(&'a [String]),
    /// The likeliest deletes something, and the task does not speak of that.
    Deletes,
    /// The agent has named a tool that there is not.
    NoSuchTool(&'a str),
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: &str, suggestion: &str) -> Self {
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

    /// The task cannot be read.
    pub fn invalid_task(why: &str) -> Self {
        let suggestion = "call execute_task with {\"task\": \"<what is to be done>\"}, and where \
                          wanted \"arguments\": {…}";
        Self::new(Kind::InvalidTask, why, suggestion)
    }

    /// No option of this kind fits, of which there are these.
    pub(crate) fn no_match(what: &str, there_are: &[&str]) -> Self {
        let message = format!("no {what} fits the task");
        let suggestion = if there_are.is_empty() {
            "do it without a tool: there is none".to_owned()
        } else {
            format!(
                "say it again with the words of a service, what is to be done and to what, one \
                 thing at a time. There are: {}",
                shorten(&there_are.join(", "), MAX_NAMES)
            )
        };
        Self::new(Kind::NoMatchingTool, &message, &suggestion)
    }

    /// No tool is so clearly meant that it was called; these are the likeliest.
    pub(crate) fn unsure(doubt: Doubt<'_>, candidates: Vec<Candidate>) -> Self {
        let kind = match doubt {
            Doubt::SeveralFit | Doubt::Deletes => Kind::AmbiguousTask,
            Doubt::NothingFits | Doubt::Absent(_) | Doubt::NoSuchTool(_) => Kind::NoMatchingTool,
        };
        let message = match doubt {
            Doubt::NothingFits => "no tool fits the task well, so none was called".to_owned(),
            Doubt::SeveralFit => {
                "no tool is clearly the one that is meant, so none was called".to_owned()
            }
            Doubt::Absent(services) => {
                format!("{}, so no tool was called", no_server_for(services))
            }
            Doubt::Deletes => "the likeliest tool deletes something, which the task does not \
                               speak of, so it was not called"
                .to_owned(),
            Doubt::NoSuchTool(name) => {
                format!("there is no tool `{}`, so none was called", shorten(name, MAX_NAME))
            }
        };
        let otherwise = "say the task in other words (service, verb, object), one thing at a time";
        let suggestion = if candidates.is_empty() {
            otherwise.to_owned()
        } else {
            format!(
                "if one of `candidates` is meant, call execute_task again with the same task, its \
                 name as \"tool\" and what it needs in \"arguments\"; else {otherwise}"
            )
        };
        Self { candidates, ..Self::new(kind, &message, &suggestion) }
    }

    /// The task is too long for the model that reads a tool's arguments out of it.
    pub(crate) fn too_long(bytes: usize, most: usize) -> Self {
        let message = format!(
            "the task has {bytes} bytes, and the model that reads the tool's arguments out of it \
             takes {most} at most, so nothing was called"
        );
        let suggestion = "say in a sentence or two what is to be done, and give long texts as they \
                          are: call execute_task with `tool_used` as \"tool\" and with the tool's \
                          \"arguments\"";
        Self::new(Kind::TaskTooLong, &message, suggestion)
    }

    /// The tool takes arguments that may be left out, and nobody has looked for them in the task.
    pub(crate) fn unasked(tool: &str, optional: Vec<Parameter>) -> Self {
        let message = format!(
            "`{tool}` may change something and takes arguments, none of which were given, so it \
             was not called"
        );
        let suggestion = format!(
            "call execute_task again with the same task, \"tool\": \"{tool}\" and those of \
             `parameters` that the task has in \"arguments\", which may be {{}}"
        );
        let failure = Self::new(Kind::MissingParameters, &message, &suggestion);
        Self { parameters: bounded(optional), ..failure }
    }

    /// Who chooses has named no option.
    pub(crate) fn invalid_choice(what: &str, by: &str, why: &str) -> Self {
        let message =
            format!("{by} was asked for a {what} and has named none of the options: {why}");
        let suggestion = "say the task in other words, one thing at a time";
        Self::new(Kind::InvalidChoice, &message, suggestion)
    }

    /// The tool lacks these; `known` is what there is.
    pub(crate) fn missing(tool: &str, lacking: Vec<Parameter>, known: Option<&Raw>) -> Self {
        let names: Vec<_> = lacking.iter().map(|p| format!("`{}`", p.name)).collect();
        let message = format!("`{tool}` needs {}", shorten(&names.join(", "), MAX_NAMES));
        let suggestion = "call execute_task again with the same task and with these in \
                          `arguments`, beside those that are known";
        let failure = Self::new(Kind::MissingParameters, &message, suggestion);
        let context = known.map(|known| format!("known so far: {}", known.as_str()));
        Self { parameters: bounded(lacking), ..failure }.within(context)
    }

    /// The arguments are not what the tool takes.
    pub(crate) fn invalid_arguments(
        tool: &str,
        mismatches: &[Mismatch],
        with: Option<&Raw>,
    ) -> Self {
        let what: Vec<_> = mismatches.iter().map(|mismatch| format!("- {mismatch}")).collect();
        let message = format!("the arguments do not fit `{tool}`:\n{}", what.join("\n"));
        let suggestion = "call execute_task again with the right ones in `arguments`";
        let context = with.map(|with| format!("not called with {}", with.as_str()));
        Self::new(Kind::InvalidArguments, &message, suggestion).within(context)
    }

    /// A server cannot be started.
    pub(crate) fn unavailable(server: &str, why: &str, hint: &str) -> Self {
        let message = format!("server `{server}` could not be started: {why}");
        let suggestion = format!("nothing was sent to it, so it can be tried again later. {hint}");
        Self::new(Kind::ServerUnavailable, &message, &suggestion)
    }

    /// So much of the budget is spent.
    pub(crate) fn spent(what: &str) -> Self {
        let message = format!("the budget for choosing a tool is spent: {what}");
        let suggestion = "say the task in fewer words, one thing at a time; `navigator.budget` \
                          says how much choosing may cost";
        Self::new(Kind::BudgetExhausted, &message, suggestion)
    }

    /// The model that chooses cannot be had.
    pub(crate) fn no_model(failure: &llm::Failure) -> Self {
        let message = format!("the model that chooses tools has not answered: {failure}");
        let suggestion = "try again later; `navigator.llm` says where it is, and with \"chooser\": \
                          \"ranker\" none is needed";
        Self::new(Kind::LlmError, &message, suggestion)
    }

    /// Adds the call that was made.
    pub(crate) fn within(self, context: Option<String>) -> Self {
        Self { context: context.map(|text| shorten(&text, MAX_CONTEXT)), ..self }
    }

    /// Adds other tools that may do.
    pub(crate) fn or_else(self, others: Vec<String>) -> Self {
        Self { others, ..self }
    }

    /// Adds other tools that may do to a suggestion.
    pub fn with_others(&self, suggestion: &str) -> String {
        if self.others.is_empty() {
            return suggestion.to_owned();
        }
        let others: Vec<_> = self.others.iter().map(|other| format!("`{other}`")).collect();
        let suggestion = format!("{suggestion}. Other tools that may do: {}", others.join(", "));
        shorten(&suggestion, MAX_SUGGESTION)
    }
}

/// The first of some parameters, each with as much as is said of it.
fn bounded(parameters: Vec<Parameter>) -> Vec<Parameter> {
    let parameters = parameters.into_iter().take(MAX_PARAMETERS).map(|parameter| Parameter {
        description: parameter.description.map(|text| shorten(&text, MAX_DESCRIPTION)),
        kind: shorten(&parameter.kind, MAX_DESCRIPTION),
        ..parameter
    });
    parameters.collect()
}
