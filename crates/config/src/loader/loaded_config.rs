//! The result of loading a configuration.

use std::collections::BTreeSet;

use crate::dialect::Dialect;
use crate::syntax::finding::{ConfigReport, Finding, Severity};
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{Config, Launch, SecretRef, ServerConfig};

/// A usable configuration, with its findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedConfig {
    pub config: Config,
    pub dialect: Dialect,
    /// The disabled servers, which `config` doesn't contain.
    pub disabled: Vec<(ToolboxName, ServerName)>,
    /// The findings in file order: warnings, and errors that disable single servers.
    pub findings: Vec<Finding>,
    /// The path as the user wrote it.
    pub file: String,
    /// The secret references that weren't resolved. The settings that need them can be inspected,
    /// but the server or endpoint can't be used.
    pub unresolved_secrets: BTreeSet<SecretRef>,
    /// The project file that was laid over it, if any.
    pub project: Option<ProjectStatus>,
}

/// A project file, and what it adds to the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectStatus {
    /// The absolute path.
    pub file: String,
    pub state: ProjectState,
    /// `true` if the file has enabled servers, even if they don't start.
    pub has_servers: bool,
    /// The toolboxes that it added.
    pub toolboxes: Vec<ToolboxName>,
    /// The keys of its rules.
    pub rules: Vec<&'static str>,
}

/// Whether the user trusts a project file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectState {
    Trusted,
    Untrusted,
    /// The user trusted another text.
    Changed,
    /// The user trusted the file, and it doesn't exist anymore.
    Gone,
}

impl ProjectState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Untrusted => "untrusted",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

impl LoadedConfig {
    /// Returns `true` if a server entry is invalid or a secret reference can't be resolved.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Returns the servers that are disabled by an error in their entry, as `toolbox/server`.
    pub fn broken_servers(&self) -> Vec<String> {
        let toolboxes = self.config.toolboxes.iter();
        let servers = toolboxes.flat_map(|toolbox| {
            let is_broken = |server: &&ServerConfig| matches!(server.launch, Launch::Broken { .. });
            let broken = toolbox.servers.iter().filter(is_broken);
            broken.map(move |server| format!("{}/{}", toolbox.name, server.name))
        });
        servers.collect()
    }

    /// Returns the findings as a report, or `None` without findings.
    pub fn report(&self) -> Option<ConfigReport> {
        (!self.findings.is_empty())
            .then(|| ConfigReport { file: self.file.clone(), findings: self.findings.clone() })
    }
}
