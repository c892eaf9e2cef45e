//! Remarks on what servers say of their tools, prompts and templates, as agents would read it.

use serde::Serialize;

use crate::catalog::remarks::{Definitions, Kind, Remark, ServerRemarks, remarks};
use crate::config;
use crate::gateway::Snapshot;
use crate::settings::Config;

/// The remarks on the servers of a toolbox, of which no more are shown than a person would read.
pub(super) struct Remarks {
    toolbox: String,
    server: ServerRemarks,
}

/// One remark, for those who read JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row<'a> {
    toolbox: &'a str,
    server: &'a str,
    rule: &'a str,
    severity: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    pointer: &'a str,
    offset: usize,
    found: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'a str>,
    advice: &'a str,
}

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
                instructions: part.instructions(),
                entries: tools.chain(prompts).chain(templates).chain(resources).collect(),
            });
        }
    }
    let all = toolboxes.into_iter().zip(remarks(&servers));
    all.map(|(toolbox, server)| Remarks { toolbox, server }).collect()
}

impl Remarks {
    /// Returns the remarks for a person.
    pub(super) fn findings(&self) -> Vec<config::Finding> {
        let path = format!("toolboxes.{}.mcpServers.{}", self.toolbox, self.server.server);
        let finding = |remark: &Remark| {
            let Remark { rule, place, found, means } = remark;
            let means = means.as_ref().map(|means| format!(", which {means}"));
            let message = format!(
                "{place}: {} ({}): `{found}`{}",
                rule.id,
                rule.severity.as_str(),
                means.unwrap_or_default()
            );
            config::Finding::remark(path.clone(), message, Some(rule.advice.to_owned()))
        };
        let mut findings: Vec<_> = self.server.shown.iter().map(finding).collect();
        if self.server.more > 0 {
            let message = format!("and {} more remarks on its definitions", self.server.more);
            findings.push(config::Finding::remark(path, message, None));
        }
        findings
    }

    /// Returns the remarks for those who read JSON.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.server.shown.iter().map(|remark| Row {
            toolbox: &self.toolbox,
            server: &self.server.server,
            rule: remark.rule.id,
            severity: remark.rule.severity.as_str(),
            kind: remark.place.kind.as_str(),
            name: &remark.place.name,
            pointer: &remark.place.pointer,
            offset: remark.place.offset,
            found: &remark.found,
            means: remark.means.as_deref(),
            advice: remark.rule.advice,
        })
    }

    /// Returns the number of remarks that are not shown.
    pub(super) fn more(&self) -> usize {
        self.server.more
    }
}
