//! The interface of the model and the ranker.

use std::fmt;
use std::pin::Pin;

use mcp_workbench_core::catalog::rank::Relevance;
use mcp_workbench_core::llm;
use mcp_workbench_wire::json::RawJson;

pub type ChooserFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ChooserError>> + Send + 'a>>;

/// Chooses among options, and finds a tool's arguments in a task.
pub trait Chooser: Send + Sync {
    /// `llm`, `sampling` or `ranker`.
    fn name(&self) -> &'static str;

    /// Returns the index of the option that fits the task, `None` if none does.
    fn choose<'a>(&'a self, request: ChoiceRequest<'a>) -> ChooserFuture<'a, Option<usize>>;

    /// Returns `true` if a model answers: other options, or fewer per level, can change its choice.
    fn is_model_backed(&self) -> bool {
        true
    }

    /// Returns the arguments found in the task: a JSON object, not yet validated.
    fn derive_arguments<'a>(&'a self, request: ArgumentsRequest<'a>) -> ChooserFuture<'a, RawJson>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLevel {
    Category,
    Service,
    /// A tool, of one service or of several.
    Tool,
}

impl TreeLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Service => "service",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for TreeLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceOption {
    /// Unique among the options. The service's name is prepended to a tool's name if the options
    /// are from several services, and the category's if that is still ambiguous.
    pub name: String,
    pub about: String,
    /// Relevance according to the ranker, if it has scored the option.
    pub fit: Option<Relevance>,
}

#[derive(Clone, Copy, Debug)]
pub struct ChoiceRequest<'a> {
    pub task: &'a str,
    pub level: TreeLevel,
    /// Options chosen on the levels above, from the top.
    pub path: &'a [String],
    /// Never empty.
    pub options: &'a [ChoiceOption],
    /// The problem with the previous answer, on a retry.
    pub hint: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub struct ArgumentsRequest<'a> {
    pub task: &'a str,
    pub tool: &'a str,
    pub description: &'a str,
    pub schema: &'a RawJson,
    /// Arguments that the agent gave; the answer has to include them.
    pub given: Option<&'a RawJson>,
    /// The problem with the previous answer, on a retry.
    pub hint: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChooserError {
    /// Not one of the options, or not an object; can be retried.
    InvalidAnswer(String),
    /// The task is too long for the model.
    TooLong {
        bytes: usize,
        /// Maximum length, in bytes.
        most: usize,
    },
    /// The exhausted limit: time, requests or tokens.
    BudgetExhausted(&'static str),
    /// The endpoint failed or its response was unusable.
    Endpoint(llm::LlmError),
    SamplingUnavailable(String),
}
