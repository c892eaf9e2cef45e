//! A configuration that can be used.

use std::collections::BTreeSet;

use crate::config::dialect::Dialect;
use crate::config::syntax::finding::{Finding, Report, Severity};
use crate::name::{ServerName, ToolboxName};
use crate::settings::{Config, Launch, Reference, ServerConfig};

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The program that the file is written for.
    pub dialect: Dialect,
    /// The servers that are switched off, which the configuration does not hold.
    pub disabled: Vec<(ToolboxName, ServerName)>,
    /// Findings in the order of the file: remarks, and errors in the entries of single servers, which
    /// are not used then.
    pub warnings: Vec<Finding>,
    /// The file as the user named it.
    pub file: String,
    /// The values that the file refers to and that were not asked for: what needs them can be looked
    /// at, but not be used.
    pub unasked: BTreeSet<Reference>,
}

impl Loaded {
    /// Returns whether something is wrong with single servers, or a value cannot be had.
    pub fn has_errors(&self) -> bool {
        self.warnings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// The servers that are not used because something is wrong with their entries, each as
    /// `toolbox/server`.
    pub fn broken(&self) -> Vec<String> {
        let toolboxes = self.config.toolboxes.iter();
        let servers = toolboxes.flat_map(|toolbox| {
            let is_broken = |server: &&ServerConfig| matches!(server.launch, Launch::Broken { .. });
            let broken = toolbox.servers.iter().filter(is_broken);
            broken.map(move |server| format!("{}/{}", toolbox.name, server.name))
        });
        servers.collect()
    }

    /// The warnings as a text to be read; none if there are none.
    pub fn report(&self) -> Option<Report> {
        (!self.warnings.is_empty())
            .then(|| Report { file: self.file.clone(), findings: self.warnings.clone() })
    }
}
