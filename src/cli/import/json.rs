//! The outcome of an import, for those who read JSON.

use std::path::Path;

use serde::Serialize;

use crate::authoring::import::{self, ImportFinding, ImportPlan};
use crate::cli::import::proposal::Proposed;
use crate::cli::size::Size;
use crate::config::Location;

/// The whole import.
#[derive(Serialize)]
pub(super) struct Import<'a> {
    file: &'a Path,
    /// `true` if the file was written.
    written: bool,
    /// The toolboxes that were made, where it was not said which to make.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    toolboxes: Vec<Toolbox<'a>>,
    added: Vec<Added<'a>>,
    findings: Vec<Finding<'a>>,
    /// The text that would have been written, where nothing was to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct Toolbox<'a> {
    name: &'a str,
    description: &'a str,
    servers: Vec<&'a str>,
    tools: usize,
    #[serde(flatten)]
    size: Size,
}

#[derive(Serialize)]
struct Added<'a> {
    toolbox: &'a str,
    server: &'a str,
    from: &'a str,
    carried_over: &'static str,
}

#[derive(Serialize)]
struct Finding<'a> {
    carried_over: &'static str,
    file: &'a str,
    path: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> Import<'a> {
    pub(super) fn new(
        planned: &'a ImportPlan,
        proposed: &'a [Proposed],
        target: &'a Location,
        is_dry: bool,
    ) -> Self {
        Self {
            file: &target.shown,
            written: !is_dry && !planned.added.is_empty(),
            toolboxes: proposed.iter().map(toolbox).collect(),
            added: planned.added.iter().map(added).collect(),
            findings: planned.findings.iter().map(finding).collect(),
            text: is_dry.then_some(&planned.text),
        }
    }
}

fn toolbox(proposed: &Proposed) -> Toolbox<'_> {
    Toolbox {
        name: &proposed.name,
        description: &proposed.description,
        servers: proposed.servers.iter().map(|(_, name)| name.as_str()).collect(),
        tools: proposed.tools,
        size: Size::of(proposed.bytes),
    }
}

fn added(added: &import::Added) -> Added<'_> {
    Added {
        toolbox: &added.toolbox,
        server: &added.server,
        from: &added.file,
        carried_over: added.grade.as_str(),
    }
}

fn finding(finding: &ImportFinding) -> Finding<'_> {
    Finding {
        carried_over: finding.grade.as_str(),
        file: &finding.file,
        path: &finding.path,
        line: finding.position.map(|(line, _)| line),
        column: finding.position.map(|(_, column)| column),
        message: &finding.message,
        hint: finding.hint.as_deref(),
    }
}
