//! Proposes toolboxes for servers by their tools.

use std::sync::Arc;

use crate::authoring::client_files::ClientApp;
use crate::authoring::import::{CandidateServer, ProposedToolbox};
use crate::catalog::ToolDefinition;
use crate::catalog::rank::clustering::{ServerProfile, cluster_servers, representative_tools};

/// In characters.
const DESCRIPTION: usize = 200;
/// Tools per server named in a description.
const TOOLS: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ToolboxProposal {
    pub(in crate::cli) name: String,
    pub(in crate::cli) description: String,
    /// Indexes into the imported servers, with their names.
    pub(in crate::cli) servers: Vec<(usize, String)>,
    pub(in crate::cli) tools: usize,
    /// Total size of the definitions, in bytes.
    pub(in crate::cli) bytes: usize,
}

impl ToolboxProposal {
    pub(in crate::cli) fn to_proposal(&self) -> ProposedToolbox {
        ProposedToolbox {
            name: self.name.clone(),
            description: self.description.clone(),
            servers: self.servers.iter().map(|(place, _)| *place).collect(),
        }
    }

    fn new(name: String, title: &str, places: &[usize], members: &[ServerProfile<'_>]) -> Self {
        let own: Vec<&ServerProfile<'_>> = places.iter().map(|place| &members[*place]).collect();
        let tools = || own.iter().flat_map(|member| &member.tools);
        Self {
            name,
            description: description(title, &own),
            servers: places.iter().map(|place| (*place, members[*place].name.to_owned())).collect(),
            tools: tools().count(),
            bytes: tools().map(|tool| tool.raw.len()).sum(),
        }
    }
}

pub(in crate::cli) fn propose_by_purpose(
    servers: &[CandidateServer],
    tools: &[Vec<Arc<ToolDefinition>>],
) -> Vec<ToolboxProposal> {
    let members = members(servers, tools);
    let clusters = cluster_servers(&members).into_iter();
    clusters
        .map(|cluster| {
            ToolboxProposal::new(cluster.name, &cluster.title, &cluster.members, &members)
        })
        .collect()
}

pub(super) fn propose_single(
    servers: &[CandidateServer],
    tools: &[Vec<Arc<ToolDefinition>>],
) -> ToolboxProposal {
    let members = members(servers, tools);
    let all: Vec<usize> = (0..members.len()).collect();
    let mut programs = servers.iter().map(|server| ClientApp::from_path(&server.file));
    let first = programs.next().flatten();
    let only = first.filter(|first| programs.all(|other| other == Some(first)));
    let (name, title) = match only {
        Some(program) => (program.id.to_owned(), format!("Servers of {}", program.title)),
        None => ("tools".to_owned(), "All servers".to_owned()),
    };
    ToolboxProposal::new(name, &title, &all, &members)
}

/// Describes a toolbox with one server.
pub(in crate::cli) fn describe(server: &ServerProfile<'_>) -> String {
    let clusters = cluster_servers(std::slice::from_ref(server));
    let title = clusters.into_iter().next().map(|cluster| cluster.title).unwrap_or_default();
    description(&title, &[server])
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

/// Builds a description from the title, the servers and as many tools as fit.
fn description(title: &str, servers: &[&ServerProfile<'_>]) -> String {
    let told: Vec<Vec<String>> =
        servers.iter().map(|member| representative_tools(member, TOOLS)).collect();
    let text = |most: usize| {
        let servers = servers.iter().zip(&told).map(|(member, told)| {
            let told = &told[..told.len().min(most)];
            match told.join(", ") {
                tools if tools.is_empty() => member.name.to_owned(),
                tools => format!("{} ({tools})", member.name),
            }
        });
        format!("{title}: {}", servers.collect::<Vec<_>>().join(", "))
    };
    let texts = (0..=TOOLS).rev().map(text);
    let text = texts.into_iter().find(|text| text.chars().count() <= DESCRIPTION);
    text.unwrap_or_else(|| title.to_owned())
}
