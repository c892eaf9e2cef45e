//! The report of an import to people: the toolboxes, the servers, and what there is to do.

use crate::authoring::import::{Added, ImportFinding, ImportPlan};
use crate::cli::import::proposal::Proposed;
use crate::cli::print::printable;
use crate::cli::size::{Size, count, number};
use crate::cli::table::{Align, Table};
use crate::config::Location;

/// The toolboxes that are proposed.
pub(in crate::cli) fn proposal(proposed: &[Proposed]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Servers", Align::Left),
        ("Tools", Align::Right),
        ("≈ Tokens", Align::Right),
        ("Description", Align::Left),
    ]);
    for Proposed { name, description, servers, tools, bytes } in proposed {
        let servers: Vec<&str> = servers.iter().map(|(_, name)| name.as_str()).collect();
        let is_known = *tools > 0;
        let known = |count: usize| if is_known { number(count) } else { "?".to_owned() };
        table.row([
            printable(name),
            printable(&servers.join(", ")),
            known(*tools),
            known(Size::of(*bytes).tokens()),
            printable(description),
        ]);
    }
    table
}

/// The whole report on an import.
pub(super) fn of(
    planned: &ImportPlan,
    proposed: &[Proposed],
    target: &Location,
    (is_extended, is_dry): (bool, bool),
    is_locked: bool,
) -> String {
    let file = target.shown.display();
    let mut sections = Vec::new();
    if planned.added.is_empty() {
        sections.push(format!("nothing to add to `{file}`"));
    } else {
        let verb = match (is_extended, is_dry) {
            (true, false) => "extended",
            (false, false) => "wrote",
            (true, true) => "would extend",
            (false, true) => "would write",
        };
        let servers = count(planned.added.len(), "server");
        sections.push(format!("{verb} `{file}`: {servers} added"));
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
        let mut hints = vec!["hint: `mcp-workbench check --connect` tries them all"];
        if !proposed.is_empty() {
            let hint =
                "hint: agents choose a toolbox by its description, so read it over in the file";
            hints.insert(0, hint);
            if !is_locked {
                hints.push(
                    "hint: `mcp-workbench lock` keeps what they say of their tools in a file to review",
                );
            }
        }
        sections.push(hints.join("\n"));
    }
    sections.join("\n\n")
}

/// A finding without what a terminal would obey.
pub(in crate::cli) fn shown(finding: &ImportFinding) -> String {
    let lines = |text: &str| text.lines().map(printable).collect::<Vec<_>>().join("\n    ");
    let safe = ImportFinding {
        file: printable(&finding.file),
        path: printable(&finding.path),
        message: lines(&finding.message),
        hint: finding
            .hint
            .as_deref()
            .map(|hint| hint.lines().map(printable).collect::<Vec<_>>().join("\n")),
        ..finding.clone()
    };
    safe.to_string()
}

fn added(added: &[Added]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("From", Align::Left),
        ("Carried over", Align::Left),
    ]);
    for server in added {
        table.row([
            printable(&server.toolbox),
            printable(&server.server),
            printable(&server.file),
            server.grade.to_string(),
        ]);
    }
    table
}
