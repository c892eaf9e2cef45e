//! The JSON report of an import.

use std::path::Path;

use serde::Serialize;

use crate::authoring::import::{self, ImportFinding, ImportPlan};
use crate::cli::onboarding::toolbox_proposal::{ToolboxProposal, ToolboxRow};
use mcp_workbench_config::ConfigLocation;

#[derive(Serialize)]
pub(super) struct ImportReport<'a> {
    file: &'a Path,
    written: bool,
    /// The proposed toolboxes; empty if the command line determined them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    toolboxes: Vec<ToolboxRow<'a>>,
    added: Vec<Added<'a>>,
    findings: Vec<ImportFindingRow<'a>>,
    /// The resulting configuration, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct Added<'a> {
    toolbox: &'a str,
    server: &'a str,
    from: &'a str,
    carried_over: &'static str,
}

#[derive(Serialize)]
struct ImportFindingRow<'a> {
    carried_over: &'static str,
    file: &'a str,
    path: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> ImportReport<'a> {
    pub(super) fn new(
        planned: &'a ImportPlan,
        proposed: &'a [ToolboxProposal],
        target: &'a ConfigLocation,
        text: Option<&'a str>,
    ) -> Self {
        Self {
            file: &target.display_path,
            written: text.is_none() && !planned.added.is_empty(),
            toolboxes: proposed.iter().map(ToolboxProposal::row).collect(),
            added: planned.added.iter().map(added).collect(),
            findings: planned.findings.iter().map(finding).collect(),
            text,
        }
    }
}

fn added(added: &import::AddedServer) -> Added<'_> {
    Added {
        toolbox: &added.toolbox,
        server: &added.server,
        from: &added.file,
        carried_over: added.grade.as_str(),
    }
}

fn finding(finding: &ImportFinding) -> ImportFindingRow<'_> {
    ImportFindingRow {
        carried_over: finding.grade.as_str(),
        file: &finding.file,
        path: &finding.path,
        line: finding.position.map(|(line, _)| line),
        column: finding.position.map(|(_, column)| column),
        message: &finding.message,
        hint: finding.hint.as_deref(),
    }
}
