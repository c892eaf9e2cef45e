//! Imports the servers of other clients into a new or existing configuration.
//!
//! No I/O: files come in as text, and the result is text with a list of findings. `server_groups`
//! finds the servers in a file and `source` reads them. `client_entry` understands each client's
//! keys, and `entry` converts a server to a native entry. `top_level` and `imported_policy` convert
//! the other settings. The resulting `candidates` can be started for a trial before they are
//! assigned to toolboxes. Finally `merge` picks free names and `writer` edits the text.

use std::fmt;

use mcp_workbench_config::syntax::finding::ConfigReport;

pub use candidates::{
    CandidateServer, CoveredServer, ImportCandidates, LeftOutServer, collect_candidates,
    collect_user_candidates, has_servers,
};
pub use native_entries::NativeEntries;

mod allowlist;
mod candidates;
mod client_entry;
pub mod client_rules;
mod commands;
mod confinement;
mod entry;
mod grading;
mod imported_policy;
mod merge;
mod native_entries;
mod nodes;
mod server_groups;
mod source;
mod top_level;
mod writer;

/// A file to import from, or to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The file, as the user named it. Its path also identifies the client.
    pub file: String,
    pub text: String,
}

/// How servers are grouped into toolboxes if none are proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// One toolbox for all servers of a file.
    #[default]
    File,
    /// A standalone entry in the top-level `mcpServers` for each server.
    Server,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    pub grouping: Grouping,
    /// One toolbox for all servers of all files. Overrides `grouping`.
    pub toolbox: Option<String>,
    /// Toolboxes for the candidate servers. Servers of a file that has its own toolboxes stay in
    /// those. Overrides `grouping`.
    pub proposal: Vec<ProposedToolbox>,
    /// Tools to confirm before each call: the candidate, and a name or glob of its tools.
    pub confirmations: Vec<(usize, String)>,
    /// The outcomes of trial starts, in the order of the candidates. Missing entries count as not
    /// started.
    pub outcomes: Vec<TrialOutcome>,
    /// Descriptions of the candidates, in their order, for `Grouping::Server`. An empty one is
    /// left out, and entries that have a description keep it.
    pub descriptions: Vec<String>,
    /// Descriptions of the toolboxes that hold the servers of a file, by the file. One of a
    /// toolbox that the file itself has, or of a project in it, is not replaced.
    pub toolbox_descriptions: Vec<(String, String)>,
}

/// A toolbox proposed for the imported servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedToolbox {
    pub name: String,
    pub description: String,
    pub servers: Vec<usize>,
}

/// The outcome of starting a candidate server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    NotStarted,
    /// The server started and listed its tools.
    Started,
    /// The server requires the user to sign in.
    WantsSignIn,
    Failed {
        reason: String,
        hint: String,
    },
}

/// Moves secrets out of server entries and replaces them with variables.
pub trait SecretExtractor {
    /// Replaces secrets in a server's arguments, and returns the names of the new variables.
    fn extract_from_args(&mut self, server: &str, args: &mut Vec<String>) -> Vec<String>;

    /// Replaces secrets in a server's URL, and returns the names of the new variables.
    fn extract_from_url(&mut self, server: &str, address: &mut String) -> Vec<String>;

    /// Replaces the value of the environment variable or header `name` if it is a secret. `wanted`
    /// is the preferred name of the new variable.
    fn extract_named(&mut self, _wanted: &str, _name: &str, _value: &mut String) {}

    /// Returns the variable to propose for a secret that stays in its place: the first of `wanted`,
    /// unless it was proposed for another value.
    fn propose_variable(&mut self, wanted: [String; 2], _value: &str) -> String {
        let [first, _] = wanted;
        first
    }

    /// Returns `true` if the extracted values are stored where the configuration finds them. The
    /// user then has nothing left to do.
    fn stores_values(&self) -> bool {
        false
    }
}

/// Leaves all values in place.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExtraction;

impl SecretExtractor for NoExtraction {
    fn extract_from_args(&mut self, _: &str, _: &mut Vec<String>) -> Vec<String> {
        Vec::new()
    }

    fn extract_from_url(&mut self, _: &str, _: &mut String) -> Vec<String> {
        Vec::new()
    }
}

/// The result of an import. Nothing has been written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportPlan {
    /// The new text of the whole configuration.
    pub text: String,
    pub added: Vec<AddedServer>,
    /// Findings, in the order of the sources.
    pub findings: Vec<ImportFinding>,
    /// `true` if a file was skipped because its policy cannot be imported.
    pub has_rejected_policy: bool,
}

/// A server that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedServer {
    pub toolbox: String,
    /// The server's name in the configuration.
    pub server: String,
    /// The file it was imported from.
    pub file: String,
    pub grade: Grade,
}

/// How faithfully something was imported, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Same meaning as in the source.
    Exact,
    /// Nearly the same meaning; worth a review.
    Approximate,
    /// The user has to complete it.
    Manual,
    Unsupported,
}

impl Grade {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Approximate => "approximate",
            Self::Manual => "manual",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A finding about an imported file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportFinding {
    pub grade: Grade,
    pub file: String,
    /// The path of the setting. Empty for the file as a whole.
    pub path: String,
    /// Line and column, both 1-based.
    pub position: Option<(usize, usize)>,
    /// The problem, and how the setting was imported.
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for ImportFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}:", self.grade, self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, "{line}:{column}:")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", hint.replace('\n', "\n        "))?;
        }
        Ok(())
    }
}

/// Plans the import of `sources` into a new configuration or into `existing`, whose comments and
/// formatting are preserved.
///
/// A source that cannot be read is reported and skipped. Only an `existing` configuration that
/// cannot be extended is an error.
pub fn plan_import(
    existing: Option<&SourceFile>,
    sources: &[SourceFile],
    options: &ImportOptions,
) -> Result<ImportPlan, ConfigReport> {
    collect_candidates(existing, sources, &mut NoExtraction)?.plan(options)
}
