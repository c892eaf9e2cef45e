//! News of a task while it is done: each step as it is taken.

use crate::catalog::rank::Fit;
use crate::name::ToolId;
use crate::navigator::ranker::{RANKER, best};
use crate::navigator::{Choice, Level};
use crate::raw::Raw;

/// Who hears of the steps.
pub type Hear<'a> = dyn Fn(&Step<'_>) + Sync + 'a;

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// There was but one option, so nobody was asked.
    Skipped {
        /// The kind of thing that would have been chosen.
        level: Level,
        /// The one.
        only: &'a str,
    },
    /// The agent has named the tool.
    Named {
        /// The tool.
        tool: &'a str,
    },
    /// The ranker's choice is not clearly ahead of the other tools.
    Unclear {
        /// The tool.
        tool: &'a str,
        /// How well the best tools fit, the best first.
        fits: &'a [Fit],
    },
    /// Somebody chose.
    Chosen {
        /// The kind of thing that was chosen.
        level: Level,
        /// The options that there were.
        options: &'a [Choice],
        /// The one; `None`: no one fits.
        chosen: Option<&'a str>,
        /// Who chose.
        by: &'static str,
    },
    /// Somebody was asked and has given no answer that could be used.
    Misled {
        /// The question: a level, or `parameters`.
        what: &'static str,
        /// The fault of the answer.
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
        /// The tool's identity outside the navigator.
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
            Self::Named { tool } => format!("tool: {tool} (by agent)"),
            Self::Unclear { tool, fits } => {
                let lead = fits.first().map(|first| lead(*first, fits.get(1).copied()));
                format!("tool: {tool} is not clear{}", lead.unwrap_or_default())
            }
            Self::Chosen { level, chosen, by, options } => {
                // How clear it was says something of tools alone: others are only the way to them.
                let best = best(options).filter(|_| *by == RANKER && *level == Level::Tool);
                let lead = best.map(|best| lead(best.fit, best.next)).unwrap_or_default();
                match chosen {
                    Some(chosen) => format!("{level}: {chosen} (by {by}{lead})"),
                    None if best.is_some_and(|best| best.fit.is_good()) => {
                        format!("{level}: none is clear (by {by}{lead})")
                    }
                    None => format!("{level}: none fits (by {by}{lead})"),
                }
            }
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

/// How well the best option fits, and how far it is ahead of the next one.
fn lead(best: Fit, next: Option<Fit>) -> String {
    let score = best.score;
    match next {
        Some(_) => format!("; score {score:.2}, ahead by {:.2}", best.lead(next)),
        None => format!("; score {score:.2}"),
    }
}
