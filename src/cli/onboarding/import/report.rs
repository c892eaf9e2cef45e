//! The import report for people: toolboxes, servers and remaining work.

use crate::authoring::import::{AddedServer, ImportFinding, ImportPlan};
use crate::cli::onboarding::toolbox_proposal::ToolboxProposal;
use crate::cli::output::print::escape_to_line;
use crate::cli::output::table::{Align, Table};
use crate::cli::output::units::{ContextSize, format_count, number};
use crate::config::ConfigLocation;

pub(in crate::cli) fn proposal(proposed: &[ToolboxProposal]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Servers", Align::Left),
        ("Tools", Align::Right),
        ("Tokens (est.)", Align::Right),
        ("Description", Align::Left),
    ]);
    for ToolboxProposal { name, description, servers, tools, bytes } in proposed {
        let servers: Vec<&str> = servers.iter().map(|(_, name)| name.as_str()).collect();
        let is_known = *tools > 0;
        let known = |count: usize| if is_known { number(count) } else { "?".to_owned() };
        table.row([
            escape_to_line(name),
            escape_to_line(&servers.join(", ")),
            known(*tools),
            known(ContextSize::of(*bytes).tokens()),
            escape_to_line(description),
        ]);
    }
    table
}

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
            sections.push(proposal(proposed).to_string());
        }
        sections.push(added(&planned.added).to_string());
    }
    if !planned.findings.is_empty() {
        let findings: Vec<_> = planned.findings.iter().map(shown).collect();
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

/// Formats a finding with control characters escaped.
pub(in crate::cli) fn shown(finding: &ImportFinding) -> String {
    let lines = |text: &str| text.lines().map(escape_to_line).collect::<Vec<_>>().join("\n    ");
    let safe = ImportFinding {
        file: escape_to_line(&finding.file),
        path: escape_to_line(&finding.path),
        message: lines(&finding.message),
        hint: finding
            .hint
            .as_deref()
            .map(|hint| hint.lines().map(escape_to_line).collect::<Vec<_>>().join("\n")),
        ..finding.clone()
    };
    safe.to_string()
}

fn added(added: &[AddedServer]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("From", Align::Left),
        ("Result", Align::Left),
    ]);
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
