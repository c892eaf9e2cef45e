//! Tailoring: derives the configuration for one task from a full one.
//!
//! No I/O: the full configuration comes in as text, and the result is text with every selected tool
//! and its reasons. Variables aren't expanded, so secrets stay where they are. `task_rules` maps
//! tasks to tools, and `task_words` matches their keywords. `full_config` knows the servers and who
//! can use which tool, translated by `native_keys`. `narrowed` builds the new configuration, and
//! `renderer` writes it.
//!
//! The output is deterministic: everything keeps its order from the input.

use std::fmt;
use std::path::PathBuf;

use crate::authoring::import::SourceFile;
use crate::authoring::tailor::full_config::{FullConfig, ToolAccess};
use crate::authoring::tailor::task_rules::{RequestedTool, TaskRules};
use mcp_workbench_config::syntax::finding::ConfigReport;
use mcp_workbench_config::syntax::reader::quoted_list;

mod full_config;
mod narrowed;
pub(super) mod native_keys;
mod renderer;
pub(super) mod task_rules;
mod task_words;
#[cfg(test)]
mod tests;

/// A request to tailor a configuration for a task.
#[derive(Clone, Debug)]
pub struct TailorRequest {
    pub full: SourceFile,
    /// The directory of the full configuration, if the new one is written to another directory.
    pub folder: Option<PathBuf>,
    /// The task rules. `None` uses the rules in the full configuration, or else the built-in ones.
    pub rules: Option<SourceFile>,
    /// The task, in free text.
    pub task: String,
    /// The type or the name of the service that the task is about.
    pub service: Option<String>,
}

/// A configuration for one task. Nothing has been written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailorPlan {
    /// The new configuration. `None` if no tool was selected.
    pub text: Option<String>,
    /// The selected tools, in the order of the rules.
    pub choices: Vec<ToolSelection>,
    /// The selected servers, in the order of the full configuration.
    pub servers: Vec<String>,
    /// Tools that the rules request but the configuration lacks, and other doubts.
    pub warnings: Vec<String>,
}

/// A tool that was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSelection {
    pub server: String,
    /// A tool name or a glob.
    pub tool: String,
    /// The only agents that can use it. Empty if it is available by default.
    pub agents: Vec<String>,
    /// The agents that cannot use it although it is available by default.
    pub except_agents: Vec<String>,
    pub reasons: Vec<SelectionReason>,
}

/// Why a tool was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionReason {
    EveryTask,
    /// The task is about a service of a type that gets it.
    Service {
        kind: String,
        /// The word of the rule that matched.
        word: String,
        service: String,
    },
    /// A keyword of a rule matched the task.
    Keyword {
        pattern: String,
        keyword: String,
        /// The matching words of the task.
        found: String,
    },
}

impl fmt::Display for SelectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryTask => f.write_str("every task"),
            Self::Service { kind, service, .. } if kind == service => {
                write!(f, "project type {kind}")
            }
            Self::Service { kind, word, service } => {
                write!(f, "project type {kind}: \"{service}\" contains \"{word}\"")
            }
            Self::Keyword { pattern, found, .. } => {
                write!(f, "{pattern}: task contains \"{found}\"")
            }
        }
    }
}

/// Selects the tools for a task and builds the new configuration.
///
/// # Errors
///
/// Returns an error if the full configuration or the rules are invalid.
pub fn tailor(request: &TailorRequest) -> Result<TailorPlan, ConfigReport> {
    let TailorRequest { full: source, folder, rules, task, service } = request;
    let full = FullConfig::read(source)?;
    let is_builtin = TaskRules::are_builtin(rules.as_ref(), source);
    let rules = TaskRules::parse(rules.as_ref(), source)?;
    let mut warnings = full.warnings.clone();
    if let Some(service) = service.as_ref().filter(|service| !rules.knows(service)) {
        let kinds = quoted_list(&rules.kinds(), "and");
        warnings.push(format!("no rule for project type `{service}`; known types: {kinds}"));
    }
    let mut choices = Vec::new();
    let mut missing = MissingTools::default();
    for wanted in rules.wanted(task, service.as_deref()) {
        let RequestedTool { server, tool, reasons } = wanted;
        let found = full.tools(&server, &tool);
        // The built-in rules name servers that most users don't have.
        let is_expected = !is_builtin || full.server_enabled(&server).is_some();
        if found.is_empty() && is_expected {
            missing.note(&full, &server, &tool);
        }
        for (tool, holder) in found {
            let (agents, all_but) = match holder {
                ToolAccess::AllExcept(agents) => (Vec::new(), agents),
                ToolAccess::Only(agents) => (agents, Vec::new()),
            };
            let (server, reasons) = (server.clone(), reasons.clone());
            choose(
                &mut choices,
                ToolSelection { server, tool, agents, except_agents: all_but, reasons },
            );
        }
    }
    warnings.extend(missing.into_warnings());
    let (servers, tree) = narrowed::narrow(&full, &choices, folder.as_deref(), &mut warnings);
    let head = renderer::FileHeader { file: &source.file, task, service: service.as_deref() };
    let text = (!choices.is_empty()).then(|| renderer::render(&tree, &head));
    Ok(TailorPlan { text, choices, servers, warnings })
}

/// Adds a selection, or merges its reasons into an existing one.
fn choose(choices: &mut Vec<ToolSelection>, choice: ToolSelection) {
    let same =
        |other: &&mut ToolSelection| other.server == choice.server && other.tool == choice.tool;
    match choices.iter_mut().find(same) {
        Some(there) => {
            for reason in choice.reasons {
                if !there.reasons.contains(&reason) {
                    there.reasons.push(reason);
                }
            }
        }
        None => choices.push(choice),
    }
}

/// Requested tools that the full configuration doesn't have.
#[derive(Default)]
struct MissingTools(Vec<(String, MissingReason, Vec<String>)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingReason {
    NoServer,
    SwitchedOff,
    NotExposed,
}

impl MissingTools {
    fn note(&mut self, full: &FullConfig, server: &str, tool: &str) {
        let why = match full.server_enabled(server) {
            None => MissingReason::NoServer,
            Some(false) => MissingReason::SwitchedOff,
            Some(true) => MissingReason::NotExposed,
        };
        let same = |(other, because, _): &&mut (String, MissingReason, Vec<String>)| {
            other == server && *because == why
        };
        match self.0.iter_mut().find(same) {
            Some((.., tools)) => tools.push(tool.to_owned()),
            None => self.0.push((server.to_owned(), why, vec![tool.to_owned()])),
        }
    }

    fn into_warnings(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(server, why, tools)| {
            let tools = quoted_list(&tools, "and");
            match why {
                MissingReason::NoServer => {
                    format!("skipped {tools}: no server `{server}`")
                }
                MissingReason::SwitchedOff => {
                    format!("skipped {tools}: server `{server}` is disabled")
                }
                MissingReason::NotExposed => {
                    format!("skipped {tools} of `{server}`: no agent may use it")
                }
            }
        })
    }
}
