//! Proposed toolboxes and findings of an import, for the reports of `import` and `setup`.

use crate::authoring::import::ImportFinding;
use crate::cli::onboarding::toolbox_proposal::ToolboxProposal;
use crate::cli::output::{Align, ContextSize, Table, escape_to_line, number};

pub(crate) fn proposal_table(proposed: &[ToolboxProposal]) -> Table {
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

/// Formats a finding with control characters escaped.
pub(crate) fn finding_text(finding: &ImportFinding) -> String {
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
