//! Toolboxes that are proposed for servers, by what their tools do.

use std::sync::Arc;

use crate::authoring::client_files::ClientProgram;
use crate::authoring::import::{Proposal, Server};
use crate::catalog::ToolDefinition;
use crate::catalog::rank::purposes::{Member, cluster, telling_tools};

/// The longest description, in characters.
const DESCRIPTION: usize = 200;
/// The most tools of a server that a description names.
const TOOLS: usize = 3;

/// One toolbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Proposed {
    pub(in crate::cli) name: String,
    pub(in crate::cli) description: String,
    /// Its servers by their places, and by their names.
    pub(in crate::cli) servers: Vec<(usize, String)>,
    /// How many tools they have, as far as that is known.
    pub(in crate::cli) tools: usize,
    /// The bytes of their definitions.
    pub(in crate::cli) bytes: usize,
}

impl Proposed {
    pub(in crate::cli) fn to_proposal(&self) -> Proposal {
        Proposal {
            name: self.name.clone(),
            description: self.description.clone(),
            servers: self.servers.iter().map(|(place, _)| *place).collect(),
        }
    }

    fn new(name: String, title: &str, places: &[usize], members: &[Member<'_>]) -> Self {
        let own: Vec<&Member<'_>> = places.iter().map(|place| &members[*place]).collect();
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

/// Several toolboxes, each of servers that belong together.
pub(in crate::cli) fn several(
    servers: &[Server],
    tools: &[Vec<Arc<ToolDefinition>>],
) -> Vec<Proposed> {
    let members = members(servers, tools);
    let clusters = cluster(&members).into_iter();
    clusters
        .map(|cluster| Proposed::new(cluster.name, &cluster.title, &cluster.members, &members))
        .collect()
}

/// One toolbox for all.
pub(super) fn one(servers: &[Server], tools: &[Vec<Arc<ToolDefinition>>]) -> Proposed {
    let members = members(servers, tools);
    let all: Vec<usize> = (0..members.len()).collect();
    let mut programs = servers.iter().map(|server| ClientProgram::of(&server.file));
    let first = programs.next().flatten();
    let only = first.filter(|first| programs.all(|other| other == Some(first)));
    let (name, title) = match only {
        Some(program) => (program.id.to_owned(), format!("What {} has", program.title)),
        None => ("tools".to_owned(), "Everything".to_owned()),
    };
    Proposed::new(name, &title, &all, &members)
}

fn members<'a>(servers: &'a [Server], tools: &'a [Vec<Arc<ToolDefinition>>]) -> Vec<Member<'a>> {
    let members = servers.iter().zip(tools).map(|(server, tools)| Member {
        name: &server.name,
        words: &server.words,
        about: server.description.as_deref().unwrap_or_default(),
        tools: tools.iter().map(Arc::as_ref).collect(),
    });
    members.collect()
}

/// A title with the servers and what they do, as far as there is room for it.
fn description(title: &str, servers: &[&Member<'_>]) -> String {
    let told: Vec<Vec<String>> =
        servers.iter().map(|member| telling_tools(member, TOOLS)).collect();
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
