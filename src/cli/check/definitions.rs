//! Remarks on what servers say of their tools, prompts and templates, as agents would read it.

use crate::catalog::remarks::{Definitions, Kind, remarks};
use crate::cli::misleading::Remarks;
use crate::gateway::Snapshot;
use crate::settings::Config;

/// Looks through all definitions that agents are shown: those of servers, with the changes that the
/// configuration makes. The names of tools are compared within each toolbox and across all.
pub(super) fn look(config: &Config, snapshot: &Snapshot) -> Vec<Remarks> {
    let views: Vec<_> =
        config.toolboxes.iter().map(|t| (&t.name, snapshot.view(&t.name))).collect();
    let mut toolboxes = Vec::new();
    let mut servers = Vec::new();
    for (toolbox, view) in &views {
        for part in view.parts() {
            let tools = view.tools_of(part.server()).iter();
            let tools =
                tools.map(|tool| (Kind::Tool, tool.definition.name.as_str(), &tool.definition.raw));
            let prompts = part.prompts().iter().map(|p| (Kind::Prompt, p.name.as_str(), &p.raw));
            let templates =
                part.templates().iter().map(|t| (Kind::Template, t.uri.as_str(), &t.raw));
            let resources =
                part.resources().iter().map(|r| (Kind::Resource, r.uri.as_str(), &r.raw));
            toolboxes.push(toolbox.to_string());
            servers.push(Definitions {
                server: part.server().as_str(),
                instructions: part.instructions().into_iter().collect(),
                entries: tools.chain(prompts).chain(templates).chain(resources).collect(),
                others: Vec::new(),
            });
        }
    }
    let all = toolboxes.into_iter().map(Some).zip(remarks(&servers));
    all.map(|(toolbox, server)| Remarks { toolbox, is_reviewed: None, server }).collect()
}
