//! Progress of a task, step by step.

use crate::navigator::chooser::{ChoiceOption, TreeLevel};
use crate::navigator::ranker::{RANKER, top_option};
use mcp_workbench_core::catalog::rank::Relevance;
use mcp_workbench_names::ToolId;
use mcp_workbench_wire::json::RawJson;

pub type StepListener<'a> = dyn Fn(&NavigationStep<'_>) + Sync + 'a;

#[derive(Clone, Copy, Debug)]
pub enum NavigationStep<'a> {
    /// Only one option, so the chooser was not used.
    Skipped {
        level: TreeLevel,
        only: &'a str,
    },
    Named {
        tool: &'a str,
    },
    /// The ranker's choice doesn't lead clearly.
    Unclear {
        tool: &'a str,
        /// Scores of the best tools, best first.
        fits: &'a [Relevance],
    },
    Chosen {
        level: TreeLevel,
        options: &'a [ChoiceOption],
        /// `None` if no option fits.
        chosen: Option<&'a str>,
        /// The chooser's name.
        by: &'static str,
    },
    /// The chooser's answer was unusable; retrying.
    InvalidAnswer {
        /// A level, or `parameters`.
        what: &'static str,
        why: &'a str,
        by: &'static str,
    },
    /// The arguments are resolved.
    Arguments {
        tool: &'a str,
        arguments: Option<&'a RawJson>,
        /// The chooser's name, or `agent` if the agent gave all of them.
        by: &'static str,
    },
    Execution {
        tool: &'a str,
        id: &'a ToolId,
        arguments: Option<&'a RawJson>,
    },
    /// A server failed to start and is started again.
    StartRetry {
        server: &'a str,
        why: &'a str,
    },
}

impl NavigationStep<'_> {
    pub fn text(&self) -> String {
        match self {
            Self::Skipped { level, only } => format!("{level}: {only} (only option)"),
            Self::Named { tool } => format!("tool: {tool} (by agent)"),
            Self::Unclear { tool, fits } => {
                let lead = fits.first().map(|first| lead(*first, fits.get(1).copied()));
                format!("tool: {tool} is unclear{}", lead.unwrap_or_default())
            }
            Self::Chosen { level, chosen, by, options } => {
                // The lead only matters for tools; categories and services just narrow the search.
                let best =
                    top_option(options).filter(|_| *by == RANKER && *level == TreeLevel::Tool);
                let lead = best.map(|best| lead(best.fit, best.next)).unwrap_or_default();
                match chosen {
                    Some(chosen) => format!("{level}: {chosen} (by {by}{lead})"),
                    None if best.is_some_and(|best| best.fit.is_strong()) => {
                        format!("{level}: no clear lead (by {by}{lead})")
                    }
                    None => format!("{level}: none fits (by {by}{lead})"),
                }
            }
            Self::InvalidAnswer { what, why, by } => format!("{what}: {why} (retrying {by})"),
            Self::Arguments { arguments, by, .. } => {
                let arguments = arguments.map_or("none".into(), RawJson::as_str);
                format!("parameters: {arguments} (by {by})")
            }
            Self::Execution { tool, .. } => format!("execution: {tool}"),
            Self::StartRetry { server, why } => {
                let why = why.lines().next().unwrap_or_default();
                format!("retrying server `{server}`: {why}")
            }
        }
    }
}

/// The score of the best option and its lead.
fn lead(best: Relevance, next: Option<Relevance>) -> String {
    let score = best.score;
    match next {
        Some(_) => format!("; score {score:.2}, ahead by {:.2}", best.margin_over(next)),
        None => format!("; score {score:.2}"),
    }
}
