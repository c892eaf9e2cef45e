//! Scans the definitions that agents see for text that could mislead a model, and lists their
//! violations of the specification.

use crate::cli::diagnostics::definition_remarks::DefinitionRemarks;
use crate::lint::{DefinitionKind, ScanInput, scan};
use mcp_workbench_config::Finding;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_settings::Config;

/// Compares tool names within each toolbox and across all.
pub(super) fn look(config: &Config, snapshot: &Snapshot) -> Vec<DefinitionRemarks> {
    let views: Vec<_> =
        config.toolboxes.iter().map(|t| (&t.name, snapshot.view(&t.name))).collect();
    let mut toolboxes = Vec::new();
    let mut servers = Vec::new();
    for (toolbox, view) in &views {
        for part in view.parts() {
            let tools = view.tools_of(part.server()).iter();
            let tools = tools.map(|tool| {
                (DefinitionKind::Tool, tool.definition.name.as_str(), &tool.definition.raw)
            });
            let prompts =
                part.prompts().iter().map(|p| (DefinitionKind::Prompt, p.name.as_str(), &p.raw));
            let templates =
                part.templates().iter().map(|t| (DefinitionKind::Template, t.uri.as_str(), &t.raw));
            let resources =
                part.resources().iter().map(|r| (DefinitionKind::Resource, r.uri.as_str(), &r.raw));
            toolboxes.push(toolbox.to_string());
            servers.push(ScanInput {
                server: part.server().as_str(),
                instructions: part.instructions().into_iter().collect(),
                entries: tools.chain(prompts).chain(templates).chain(resources).collect(),
                others: Vec::new(),
            });
        }
    }
    let all = toolboxes.into_iter().map(Some).zip(scan(&servers));
    all.map(|(toolbox, server)| DefinitionRemarks { toolbox, is_reviewed: None, server }).collect()
}

/// Returns a warning for each entry that was repaired or left out because it is malformed.
pub(super) fn violations(config: &Config, snapshot: &Snapshot) -> Vec<Finding> {
    const ADVICE: &str = "report it to the server's authors: strict clients reject the whole list";
    let mut findings = Vec::new();
    for toolbox in &config.toolboxes {
        let view = snapshot.view(&toolbox.name);
        // Policy may hide the server.
        for part in view.parts().iter().filter(|part| part.abilities().is_some()) {
            let path = format!("toolboxes.{}.mcpServers.{}", toolbox.name, part.server());
            let violations = part.listing().violations.values().flatten();
            findings.extend(violations.enumerate().map(|(index, violation)| {
                let advice = (index == 0).then(|| ADVICE.to_owned());
                Finding::warning(path.clone(), violation.clone(), advice)
            }));
        }
    }
    findings
}
