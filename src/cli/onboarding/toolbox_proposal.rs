//! Proposes toolboxes for servers by their tools.

use std::sync::Arc;

use serde::Serialize;

use crate::authoring::client_files::ClientApp;
use crate::authoring::import::{CandidateServer, ProposedToolbox};
use crate::cli::output::ContextSize;
use crate::cli::servers::server_phrase::{self, ServerFacts, ServerTexts};
use crate::cli::servers::trial_run::TrialRun;
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::catalog::rank::clustering::{ServerProfile, cluster_servers};

/// In characters.
const DESCRIPTION: usize = 300;
/// A single server's phrase with fewer words follows the title.
const MIN_WORDS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolboxProposal {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Indexes into the imported servers, with their names.
    pub(crate) servers: Vec<(usize, String)>,
    pub(crate) tools: usize,
    /// Total size of the definitions, in bytes.
    pub(crate) bytes: usize,
}

/// A proposed toolbox in a JSON report.
#[derive(Serialize)]
pub(crate) struct ToolboxRow<'a> {
    name: &'a str,
    description: &'a str,
    servers: Vec<&'a str>,
    tools: usize,
    #[serde(flatten)]
    size: ContextSize,
}

impl ToolboxProposal {
    pub(crate) fn row(&self) -> ToolboxRow<'_> {
        ToolboxRow {
            name: &self.name,
            description: &self.description,
            servers: self.servers.iter().map(|(_, name)| name.as_str()).collect(),
            tools: self.tools,
            size: ContextSize::of(self.bytes),
        }
    }

    pub(crate) fn to_proposal(&self) -> ProposedToolbox {
        ProposedToolbox {
            name: self.name.clone(),
            description: self.description.clone(),
            servers: self.servers.iter().map(|(place, _)| *place).collect(),
        }
    }

    fn new(
        name: String,
        title: &str,
        places: &[usize],
        members: &[ServerProfile<'_>],
        trial: &TrialRun,
    ) -> Self {
        let tools = || places.iter().flat_map(|place| &members[*place].tools);
        let phrases = places.iter().map(|place| {
            let member = &members[*place];
            (member.name, server_phrase::describe(&facts(member, trial.texts.get(*place))))
        });
        Self {
            name,
            description: description(title, &phrases.collect::<Vec<_>>()),
            servers: places.iter().map(|place| (*place, members[*place].name.to_owned())).collect(),
            tools: tools().count(),
            bytes: tools().map(|tool| tool.raw.len()).sum(),
        }
    }
}

pub(crate) fn propose_by_purpose(
    servers: &[CandidateServer],
    trial: &TrialRun,
) -> Vec<ToolboxProposal> {
    let members = members(servers, &trial.tools);
    let clusters = cluster_servers(&members).into_iter();
    clusters
        .map(|cluster| {
            ToolboxProposal::new(cluster.name, &cluster.title, &cluster.members, &members, trial)
        })
        .collect()
}

pub(crate) fn propose_single(servers: &[CandidateServer], trial: &TrialRun) -> ToolboxProposal {
    let members = members(servers, &trial.tools);
    let all: Vec<usize> = (0..members.len()).collect();
    let mut programs = servers.iter().map(|server| ClientApp::from_path(&server.file));
    let first = programs.next().flatten();
    let only = first.filter(|first| programs.all(|other| other == Some(first)));
    let (name, title) = match only {
        Some(program) => (program.id.to_owned(), format!("Servers of {}", program.title)),
        None => ("tools".to_owned(), "All servers".to_owned()),
    };
    ToolboxProposal::new(name, &title, &all, &members, trial)
}

/// Describes a toolbox for the servers of each file, or with `is_one` for those of all files.
pub(crate) fn describe_files(
    servers: &[CandidateServer],
    trial: &TrialRun,
    is_one: bool,
) -> Vec<(String, String)> {
    let members = members(servers, &trial.tools);
    let places = |file: &str| -> Vec<usize> {
        let own = servers.iter().take(members.len()).enumerate();
        own.filter(|(_, own)| is_one || own.file == file).map(|(place, _)| place).collect()
    };
    let mut files: Vec<&String> = servers.iter().map(|server| &server.file).collect();
    files.sort();
    files.dedup();
    let described = files.into_iter().map(|file| {
        let client = ClientApp::from_path(file).filter(|_| !is_one);
        let title = client.map_or("Servers".to_owned(), |app| format!("Servers of {}", app.title));
        let places = places(file);
        let new = ToolboxProposal::new(String::new(), &title, &places, &members, trial);
        (file.clone(), new.description)
    });
    described.collect()
}

/// Describes a toolbox for each of the servers. Empty if nothing but its name is known.
pub(crate) fn describe_each(servers: &[CandidateServer], trial: &TrialRun) -> Vec<String> {
    let members = members(servers, &trial.tools);
    let all = members.iter().enumerate();
    let described = all.map(|(index, member)| {
        let texts = trial.texts.get(index);
        let phrase = server_phrase::describe(&facts(member, texts));
        let is_known = phrase.is_some() || !member.tools.is_empty();
        if is_known { describe(member, texts) } else { String::new() }
    });
    described.collect()
}

/// Describes a toolbox with one server.
pub(crate) fn describe(server: &ServerProfile<'_>, texts: Option<&ServerTexts>) -> String {
    let clusters = cluster_servers(std::slice::from_ref(server));
    let title = clusters.into_iter().next().map(|cluster| cluster.title).unwrap_or_default();
    let phrase = server_phrase::describe(&facts(server, texts));
    description(&title, &[(server.name, phrase)])
}

fn facts<'a>(server: &ServerProfile<'a>, itself: Option<&'a ServerTexts>) -> ServerFacts<'a> {
    ServerFacts {
        name: server.name,
        command_line: server.words,
        written: server.about,
        itself,
        tools: server.tools.clone(),
    }
}

fn members<'a>(
    servers: &'a [CandidateServer],
    tools: &'a [Vec<Arc<ToolDefinition>>],
) -> Vec<ServerProfile<'a>> {
    let members = servers.iter().zip(tools).map(|(server, tools)| ServerProfile {
        name: &server.name,
        words: &server.command_line,
        about: server.description.as_deref().unwrap_or_default(),
        tools: tools.iter().map(Arc::as_ref).collect(),
    });
    members.collect()
}

/// Describes a toolbox by its servers and their phrases. If not all phrases fit, or none is known,
/// it starts with the title, and the longest phrases are left out.
fn description(title: &str, servers: &[(&str, Option<String>)]) -> String {
    let fits = |text: &String| text.chars().count() <= DESCRIPTION;
    if let [(_, Some(phrase))] = servers {
        let is_brief = phrase.split(' ').count() < MIN_WORDS;
        return if is_brief { format!("{title}: {phrase}") } else { capitalized(phrase) };
    }
    let text = |longest: usize| {
        let servers = servers.iter().map(|(name, phrase)| match phrase {
            Some(phrase) if phrase.len() <= longest => format!("{name} ({phrase})"),
            _ => (*name).to_owned(),
        });
        servers.collect::<Vec<_>>().join(", ")
    };
    let mut lengths: Vec<usize> =
        servers.iter().flat_map(|(_, phrase)| phrase).map(String::len).collect();
    lengths.sort_unstable();
    let whole = text(usize::MAX);
    if lengths.len() == servers.len() && fits(&whole) {
        return whole;
    }
    let shorter = lengths.into_iter().rev().chain([0]);
    let mut texts = shorter.map(|longest| format!("{title}: {}", text(longest)));
    texts.find(fits).unwrap_or_else(|| title.to_owned())
}

fn capitalized(phrase: &str) -> String {
    let mut chars = phrase.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests;
