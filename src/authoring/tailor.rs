//! Tailoring: the configuration for one task, out of a full one.
//!
//! Pure: the full configuration comes in as text, and the new one goes out as text, with every
//! choice and its reason. It works on what is written, before variables are expanded, so that what
//! is secret stays where it is. `rules` are which tools which task wants, `words` finds their
//! keywords in a task, `full` is what the configuration has and lets through (in our own `keys`),
//! `narrow` makes the new one of that, and `text` writes it.
//!
//! The same input gives the same bytes: everything keeps the order in which it is written.

use std::fmt;
use std::path::PathBuf;

use crate::authoring::import::Source;
use crate::authoring::tailor::full::{Full, Holder};
use crate::authoring::tailor::rules::{Rules, Wanted};
use crate::config::syntax::finding::Report;
use crate::config::syntax::reader::listed;

mod full;
pub(super) mod keys;
mod narrow;
pub(super) mod rules;
#[cfg(test)]
mod tests;
mod text;
mod words;

/// A request to tailor a configuration for a task.
#[derive(Clone, Debug)]
pub struct Request {
    /// The full configuration.
    pub full: Source,
    /// The folder that its relative paths start at, if the new one will stand in another.
    pub folder: Option<PathBuf>,
    /// The rules; else those in the full configuration, else those that the executable carries.
    pub rules: Option<Source>,
    /// The task, in anybody's words.
    pub task: String,
    /// The kind of the service that it is done on, or its name.
    pub service: Option<String>,
}

/// A configuration for one task; nothing is written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tailored {
    /// The whole text; none if the full configuration has nothing of what the task wants.
    pub text: Option<String>,
    /// The tools that were chosen, in the order of the rules.
    pub choices: Vec<Choice>,
    /// The servers that are needed, in the order of the full configuration.
    pub servers: Vec<String>,
    /// Warnings: what the rules want and there is not, and what else is doubtful.
    pub warnings: Vec<String>,
}

/// A tool that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its server.
    pub server: String,
    /// The tool, or a glob over tools.
    pub tool: String,
    /// The only agents that may have it, where the full configuration does not give it to all.
    pub agents: Vec<String>,
    /// The agents that may not have it, where it is for all others.
    pub all_but: Vec<String>,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// Why a task gets a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Every task does.
    EveryTask,
    /// Tasks on services of this kind do.
    Service {
        /// The kind.
        kind: String,
        /// The word in the name.
        word: String,
        /// The name.
        service: String,
    },
    /// Tasks in whose description there is this word do.
    Keyword {
        /// The rule.
        pattern: String,
        /// Its word.
        keyword: String,
        /// The words of the task.
        found: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryTask => f.write_str("every task"),
            Self::Service { kind, service, .. } if kind == service => {
                write!(f, "service type {kind}")
            }
            Self::Service { kind, word, service } => {
                write!(f, "service type {kind}: \"{word}\" is in \"{service}\"")
            }
            Self::Keyword { pattern, found, .. } => {
                write!(f, "{pattern}: \"{found}\" is in the task")
            }
        }
    }
}

/// Works out what a task gets of a full configuration.
///
/// # Errors
///
/// What is wrong with the full configuration, or with the rules.
pub fn tailor(request: &Request) -> Result<Tailored, Report> {
    let Request { full: source, folder, rules, task, service } = request;
    let full = Full::read(source)?;
    let rules = Rules::parse(rules.as_ref(), source)?;
    let mut warnings = full.warnings.clone();
    if let Some(service) = service.as_ref().filter(|service| !rules.knows(service)) {
        let kinds = listed(&rules.kinds(), "and");
        warnings.push(format!("no rule for the service type `{service}`; there are {kinds}"));
    }
    let mut choices = Vec::new();
    let mut missing = Missing::default();
    for wanted in rules.wanted(task, service.as_deref()) {
        let Wanted { server, tool, reasons } = wanted;
        let found = full.tools(&server, &tool);
        if found.is_empty() {
            missing.note(&full, &server, &tool);
        }
        for (tool, holder) in found {
            let (agents, all_but) = match holder {
                Holder::AllBut(agents) => (Vec::new(), agents),
                Holder::Agents(agents) => (agents, Vec::new()),
            };
            let (server, reasons) = (server.clone(), reasons.clone());
            choose(&mut choices, Choice { server, tool, agents, all_but, reasons });
        }
    }
    warnings.extend(missing.said());
    let (servers, tree) = narrow::narrow(&full, &choices, folder.as_deref(), &mut warnings);
    let head = text::Head { file: &source.file, task, service: service.as_deref() };
    let text = (!choices.is_empty()).then(|| text::written(&tree, &head));
    Ok(Tailored { text, choices, servers, warnings })
}

/// Adds a choice, or its reasons to one that is there.
fn choose(choices: &mut Vec<Choice>, choice: Choice) {
    let same = |other: &&mut Choice| other.server == choice.server && other.tool == choice.tool;
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

/// The servers and tools that the rules want and the full configuration has not.
#[derive(Default)]
struct Missing(Vec<(String, Why, Vec<String>)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    NoServer,
    SwitchedOff,
    NotExposed,
}

impl Missing {
    fn note(&mut self, full: &Full, server: &str, tool: &str) {
        let why = match full.is_on(server) {
            None => Why::NoServer,
            Some(false) => Why::SwitchedOff,
            Some(true) => Why::NotExposed,
        };
        let same = |(other, because, _): &&mut (String, Why, Vec<String>)| {
            other == server && *because == why
        };
        match self.0.iter_mut().find(same) {
            Some((.., tools)) => tools.push(tool.to_owned()),
            None => self.0.push((server.to_owned(), why, vec![tool.to_owned()])),
        }
    }

    fn said(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(server, why, tools)| {
            let tools = listed(&tools, "and");
            match why {
                Why::NoServer => {
                    format!("left out: {tools} of `{server}`, which is no server here")
                }
                Why::SwitchedOff => {
                    format!("left out: {tools} of `{server}`, which is switched off")
                }
                Why::NotExposed => {
                    format!("left out: {tools} of `{server}`, which nobody may have")
                }
            }
        })
    }
}
