//! The JSON report of `check`, whose rows also fill the tables.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::diagnostics::definition_remarks;
use crate::cli::output::ContextSize;
use mcp_workbench_config::ProjectStatus;
use mcp_workbench_names::{ServerName, ToolboxName};

#[derive(Serialize)]
pub(super) struct CheckReport<'a> {
    pub(super) file: &'a str,
    #[serde(rename = "valid")]
    pub(super) is_valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dialect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<ProjectRow<'a>>,
    /// The problems of the configuration.
    pub(super) errors: Vec<ProblemRow<'a>>,
    pub(super) warnings: Vec<ProblemRow<'a>>,
    pub(super) servers: Vec<ServerRow>,
    /// Warnings about hidden tools and definition drift.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hidden: Vec<String>,
    /// Suspicious tool definitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) findings: Vec<definition_remarks::RemarkRow<'a>>,
    /// The number of findings beyond the limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) more_findings: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl<'a> CheckReport<'a> {
    pub(super) fn invalid(report: &'a mcp_workbench_config::ConfigReport) -> Self {
        Self {
            file: &report.file,
            is_valid: false,
            dialect: None,
            mode: None,
            project: None,
            errors: ProblemRow::of(&report.findings, mcp_workbench_config::Severity::Error),
            warnings: ProblemRow::of(&report.findings, mcp_workbench_config::Severity::Warning),
            servers: Vec::new(),
            hidden: Vec::new(),
            findings: Vec::new(),
            more_findings: 0,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ProjectRow<'a> {
    file: &'a str,
    state: &'static str,
    /// The toolboxes that the file adds.
    toolboxes: Vec<&'a str>,
    /// The keys of its rules.
    rules: &'a [&'static str],
}

impl<'a> ProjectRow<'a> {
    pub(super) fn new(project: &'a ProjectStatus) -> Self {
        Self {
            file: &project.file,
            state: project.state.as_str(),
            toolboxes: project.toolboxes.iter().map(ToolboxName::as_str).collect(),
            rules: &project.rules,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ProblemRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    path: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> ProblemRow<'a> {
    pub(super) fn of(
        findings: &'a [mcp_workbench_config::Finding],
        severity: mcp_workbench_config::Severity,
    ) -> Vec<Self> {
        let own = findings.iter().filter(|finding| finding.severity == severity);
        own.map(Self::new).collect()
    }

    fn new(finding: &'a mcp_workbench_config::Finding) -> Self {
        Self {
            file: finding.file.as_deref(),
            path: &finding.path,
            line: finding.position.map(|(line, _)| line),
            column: finding.position.map(|(_, column)| column),
            message: &finding.message,
            hint: finding.hint.as_deref(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct ServerRow {
    pub(super) toolbox: String,
    pub(super) server: String,
    pub(super) status: CheckStatus,
    #[serde(skip)]
    pub(super) command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<usize>,
    #[serde(flatten)]
    pub(super) size: Option<ContextSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reach: Option<ProcessReach>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

impl ServerRow {
    /// Creates a row with the status `disabled`.
    pub(super) fn new(toolbox: &ToolboxName, server: &ServerName) -> Self {
        Self {
            toolbox: toolbox.to_string(),
            server: server.to_string(),
            status: CheckStatus::Disabled,
            command: None,
            tools: None,
            size: None,
            start_ms: None,
            reach: None,
            reason: None,
            hint: None,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ProcessReach {
    /// No sandbox: everything that the user can access.
    Everything,
    /// Access beyond the system's programs and libraries.
    #[serde(untagged, rename_all = "camelCase")]
    Sandbox { read: Vec<PathBuf>, write: Vec<PathBuf>, network: bool, unix_sockets: bool },
    /// Paths on the host that are mounted into the container.
    #[serde(untagged)]
    Container { image: String, read: Vec<PathBuf>, write: Vec<PathBuf>, network: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckStatus {
    Disabled,
    /// Not started.
    Configured,
    /// Not started; the program does not exist.
    Missing,
    /// The transport is not supported.
    Unsupported,
    Started,
    SignInRequired,
    /// The start failed, or the entry is invalid.
    Failed,
}

impl std::fmt::Display for CheckStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Configured => "not started",
            Self::Missing => "not found",
            Self::Unsupported => "unsupported",
            Self::Started => "ok",
            Self::SignInRequired => "sign-in required",
            Self::Failed => "failed",
        })
    }
}
