//! Who chooses: one small interface.

use std::fmt;
use std::pin::Pin;

use crate::catalog::rank::Fit;
use crate::llm;
use crate::raw::Raw;

/// The future choice of a chooser.
pub type Choosing<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unable>> + Send + 'a>>;

/// Who chooses among options, and finds a tool's arguments in a task.
pub trait Chooser: Send + Sync {
    /// A word for it: `llm`, `sampling` or `ranker`.
    fn name(&self) -> &'static str;

    /// Which of the options the task wants, by its place among them; none if no one fits.
    fn choose<'a>(&'a self, question: Question<'a>) -> Choosing<'a, Option<usize>>;

    /// Returns `true` if more options may help where none fits, or fewer on a step.
    fn is_helped_by_others(&self) -> bool {
        true
    }

    /// The arguments of a tool as the task has them: a JSON object, which nobody has checked.
    fn arguments<'a>(&'a self, wanted: Wanted<'a>) -> Choosing<'a, Raw>;
}

/// The kind of thing that is chosen on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A category of services.
    Category,
    /// A service of a category.
    Service,
    /// A tool, of one service or of several.
    Tool,
}

impl Level {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Service => "service",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its name. A tool has its service's name for it; where there are several services, the name
    /// of its own stands before that.
    pub name: String,
    /// A description of it, as a sentence or a signature.
    pub about: String,
    /// How well the ranker thinks that it fits, where it was asked.
    pub fit: Option<Fit>,
}

/// A question to a chooser.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The task, in the agent's words.
    pub task: &'a str,
    /// The kind of thing to choose.
    pub level: Level,
    /// The choices made before it, from the top.
    pub path: &'a [String],
    /// The options to choose from; never empty.
    pub options: &'a [Choice],
    /// The fault of the last answer, if this is asked again.
    pub hint: Option<&'a str>,
}

/// Arguments that are wanted of a chooser.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The task, in the agent's words.
    pub task: &'a str,
    /// The tool's name.
    pub tool: &'a str,
    /// The tool's description.
    pub description: &'a str,
    /// The JSON Schema of its arguments.
    pub schema: &'a Raw,
    /// The arguments that the agent has given already: an object that the answer is to contain.
    pub given: Option<&'a Raw>,
    /// The fault of the last answer, if this is asked again.
    pub hint: Option<&'a str>,
}

/// Why a chooser has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unable {
    /// Its answer is not one of the options, or no object; it may be asked again.
    Nonsense(String),
    /// The task has so many bytes, and it reads at most so many.
    TooLong {
        /// The bytes of the task.
        bytes: usize,
        /// The most that it reads.
        most: usize,
    },
    /// So much of the budget is spent: time, requests or tokens.
    Spent(&'static str),
    /// The endpoint does not answer, or not so that it could be used.
    Endpoint(llm::Failure),
    /// The agent's client does not let its model answer.
    Client(String),
}
