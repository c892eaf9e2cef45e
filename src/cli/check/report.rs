//! The findings of a check, for those who read JSON; the tables are made of them too.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::misleading;
use crate::cli::size::Size;
use crate::config;
use crate::name::{ServerName, ToolboxName};

/// The whole check.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    pub(super) file: &'a str,
    #[serde(rename = "valid")]
    pub(super) is_valid: bool,
    /// The program whose file it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dialect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<&'a str>,
    pub(super) findings: Vec<Finding<'a>>,
    pub(super) servers: Vec<Row>,
    /// The primitives whose names others have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_shown: Vec<String>,
    /// The remarks on the definitions of servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<misleading::Row<'a>>,
    /// The number of remarks that are left out.
    #[serde(rename = "moreRemarks", skip_serializing_if = "is_zero")]
    pub(super) more_remarks: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl<'a> Report<'a> {
    /// A configuration that cannot be used.
    pub(super) fn invalid(report: &'a config::Report) -> Self {
        Self {
            file: &report.file,
            is_valid: false,
            dialect: None,
            mode: None,
            findings: report.findings.iter().map(Finding::new).collect(),
            servers: Vec::new(),
            not_shown: Vec::new(),
            remarks: Vec::new(),
            more_remarks: 0,
        }
    }
}

/// One thing that is wrong or odd in the file.
#[derive(Serialize)]
pub(super) struct Finding<'a> {
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    path: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> Finding<'a> {
    pub(super) fn new(finding: &'a config::Finding) -> Self {
        Self {
            severity: match finding.severity {
                config::Severity::Error => "error",
                config::Severity::Warning => "warning",
            },
            file: finding.file.as_deref(),
            path: &finding.path,
            line: finding.position.map(|(line, _)| line),
            column: finding.position.map(|(_, column)| column),
            message: &finding.message,
            hint: finding.hint.as_deref(),
        }
    }
}

/// One server, which is a row of the table.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) toolbox: String,
    pub(super) server: String,
    pub(super) status: Status,
    #[serde(skip)]
    pub(super) command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<usize>,
    #[serde(flatten)]
    pub(super) size: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reach: Option<Reach>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

impl Row {
    /// A server of which nothing else is known: one that is switched off.
    pub(super) fn new(toolbox: &ToolboxName, server: &ServerName) -> Self {
        Self {
            toolbox: toolbox.to_string(),
            server: server.to_string(),
            status: Status::Disabled,
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

/// The reach of a process.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reach {
    /// Whatever the user can.
    Everything,
    /// The things that its sandbox has beside the system's own programs and libraries.
    #[serde(untagged, rename_all = "camelCase")]
    Cell { read: Vec<PathBuf>, write: Vec<PathBuf>, network: bool, unix_sockets: bool },
    /// The things that are put into its container, by their places outside.
    #[serde(untagged)]
    Container { image: String, read: Vec<PathBuf>, write: Vec<PathBuf>, network: bool },
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// It is switched off.
    Disabled,
    /// It was not asked to start.
    Configured,
    /// It was not asked to start, and could not: its program is not there.
    Missing,
    /// It is of a kind that cannot be reached.
    Unsupported,
    /// It was started, and listed its tools.
    Started,
    /// It wants its user to sign in.
    #[serde(rename = "wants_sign_in")]
    WantsSignIn,
    /// It could not be started, or its entry is wrong.
    Failed,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Configured => "configured",
            Self::Missing => "missing",
            Self::Unsupported => "unsupported",
            Self::Started => "started",
            Self::WantsSignIn => "wants sign-in",
            Self::Failed => "failed",
        })
    }
}
