//! The import report for people: toolboxes, servers and remaining work.

use crate::authoring::import::{AddedServer, ImportPlan};
use crate::cli::onboarding::proposal_report::{finding_text, proposal_table};
use crate::cli::onboarding::toolbox_proposal::ToolboxProposal;
use crate::cli::output::{Table, escape_to_line, format_count};
use mcp_workbench_config::ConfigLocation;

pub(super) fn import_report(
    planned: &ImportPlan,
    proposed: &[ToolboxProposal],
    target: &ConfigLocation,
    (is_extended, is_dry): (bool, bool),
    is_locked: bool,
) -> String {
    let file = target.display_path.display();
    let mut sections = Vec::new();
    if planned.added.is_empty() {
        sections.push(format!("nothing to add to `{file}`"));
    } else {
        let servers = format_count(planned.added.len(), "server");
        sections.push(match (is_extended, is_dry) {
            (true, false) => format!("added {servers} to `{file}`"),
            (false, false) => format!("created `{file}` with {servers}"),
            (true, true) => format!("would add {servers} to `{file}`"),
            (false, true) => format!("would create `{file}` with {servers}"),
        });
        if !proposed.is_empty() {
            sections.push(proposal_table(proposed).to_string());
        }
        sections.push(added(&planned.added).to_string());
    }
    if !planned.findings.is_empty() {
        let findings: Vec<_> = planned.findings.iter().map(finding_text).collect();
        sections.push(findings.join("\n"));
    }
    if !planned.added.is_empty() && !is_dry {
        let mut hints = vec!["hint: run `mcp-workbench check --connect` to test them"];
        if !proposed.is_empty() {
            let hint = "hint: agents choose toolboxes by description: review them in the file";
            hints.insert(0, hint);
            if !is_locked {
                hints.push(
                    "hint: run `mcp-workbench lock` to record their tool definitions for review",
                );
            }
        }
        sections.push(hints.join("\n"));
    }
    sections.join("\n\n")
}

fn added(added: &[AddedServer]) -> Table {
    let mut table = Table::left(["Toolbox", "Server", "From", "Result"]);
    for server in added {
        table.row([
            escape_to_line(&server.toolbox),
            escape_to_line(&server.server),
            escape_to_line(&server.file),
            server.grade.to_string(),
        ]);
    }
    table
}
