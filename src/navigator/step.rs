//! What is told of a task while it is done: each step as it is taken.

use crate::name::ToolId;
use crate::navigator::{Choice, Level};
use crate::raw::Raw;

/// Who hears of the steps.
pub type Hear<'a> = dyn Fn(&Step<'_>) + Sync + 'a;

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// There was but one option, so nobody was asked.
    Skipped {
        /// What would have been chosen.
        level: Level,
        /// The one.
        only: &'a str,
    },
    /// Somebody chose.
    Chosen {
        /// What was chosen.
        level: Level,
        /// What there was to choose from.
        options: &'a [Choice],
        /// The one; `None`: no one fits.
        chosen: Option<&'a str>,
        /// Who chose.
        by: &'static str,
    },
    /// Somebody was asked and has given no answer that could be used.
    Misled {
        /// What was asked for: a level, or `parameters`.
        what: &'static str,
        /// What was wrong with it.
        why: &'a str,
        /// Who was asked.
        by: &'static str,
    },
    /// The tool's arguments were found.
    Arguments {
        /// The tool.
        tool: &'a str,
        /// The arguments; `None`: it has none.
        arguments: Option<&'a Raw>,
        /// Who found them; `agent` where the agent gave all of them.
        by: &'static str,
    },
    /// The tool is called.
    Execution {
        /// The tool.
        tool: &'a str,
        /// The same as everybody else calls it.
        id: &'a ToolId,
        /// With these arguments.
        arguments: Option<&'a Raw>,
    },
    /// A server could not be started, and is tried again.
    Again {
        /// The server.
        server: &'a str,
        /// Why it could not.
        why: &'a str,
    },
}

impl Step<'_> {
    /// The step in a few words.
    pub fn text(&self) -> String {
        match self {
            Self::Skipped { level, only } => format!("{level}: {only} (the only one)"),
            Self::Chosen { level, chosen: Some(chosen), by, .. } => {
                format!("{level}: {chosen} (by {by})")
            }
            Self::Chosen { level, chosen: None, by, .. } => format!("{level}: none fits (by {by})"),
            Self::Misled { what, why, by } => format!("{what}: {why} ({by} is asked again)"),
            Self::Arguments { arguments, by, .. } => {
                let arguments = arguments.map_or("none".into(), Raw::as_str);
                format!("parameters: {arguments} (by {by})")
            }
            Self::Execution { tool, .. } => format!("execution: {tool}"),
            Self::Again { server, why } => {
                let why = why.lines().next().unwrap_or_default();
                format!("server `{server}` is tried again: {why}")
            }
        }
    }
}
