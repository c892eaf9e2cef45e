//! Importing: servers that other clients have, put into a configuration, new or extended.
//!
//! Pure: files come in as text, and the new configuration goes out as text beside what is to be
//! said about it. `places` finds the servers in a file, `source` reads them, `spelling` takes one in the
//! words of any client and `block` puts it into ours, `category` and `rules` are what is said beside them. What
//! was `gathered` can be started before it is decided which toolboxes there are to be. `merge` finds
//! room for it all, `emit` writes it.

use std::fmt;

use crate::config::syntax::finding::Report;

pub use gathered::{Carried, Gathered, Server, gather, gather_own, has_servers};
pub use launches::Launches;

mod allowed;
mod block;
mod category;
mod cells;
mod commands;
mod emit;
mod gathered;
mod grading;
mod launches;
mod merge;
mod nodes;
mod places;
mod rules;
mod source;
mod spelling;

/// A file to import from, or to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file as the user named it; its name also tells which client wrote it.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// The kind of toolboxes that are made, where nobody has proposed toolboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// The servers of one file together.
    #[default]
    File,
    /// Every server by itself, under the top-level `mcpServers`.
    Server,
}

/// How to import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The kind of toolboxes that are made.
    pub grouping: Grouping,
    /// One toolbox for all servers, whatever file they are from; goes before `grouping`.
    pub toolbox: Option<String>,
    /// Toolboxes for the servers that were gathered; those of a file that has toolboxes of its own
    /// keep them. Goes before the rest.
    pub proposal: Vec<Proposal>,
    /// The outcomes of starting the servers that were gathered, in their order. Of those that are
    /// missing at the end nothing is known.
    pub outcomes: Vec<Outcome>,
}

/// A toolbox that somebody proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its name.
    pub name: String,
    /// A description of its purpose.
    pub description: String,
    /// Its servers, by their place among those that were gathered.
    pub servers: Vec<usize>,
}

/// The outcome of starting a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody has started it.
    NotStarted,
    /// It has listed its tools.
    Started,
    /// It wants its user to sign in.
    WantsSignIn,
    /// It could not be started.
    Failed {
        /// Why.
        reason: String,
        /// Advice on what to do about it.
        hint: String,
    },
}

/// Puts variables in place of secrets.
pub trait HideSecrets {
    /// Takes the secrets out of the arguments of a server, and returns the names of the variables
    /// that stand there now.
    fn in_arguments(&mut self, server: &str, args: &mut Vec<String>) -> Vec<String>;

    /// Takes the secrets out of the address of a server, and returns the names of the variables that
    /// stand there now.
    fn in_address(&mut self, server: &str, address: &mut String) -> Vec<String>;

    /// Takes the secret out of the value of a variable or a header called `name`, if it is one;
    /// `wanted` is a name for the variable that stands there then.
    fn in_named(&mut self, _wanted: &str, _name: &str, _value: &mut String) {}

    /// Returns `true` if the values are kept where the configuration finds them, so that nothing is
    /// left to the user.
    fn keeps_values(&self) -> bool {
        false
    }
}

/// Leaves everything as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepSecrets;

impl HideSecrets for KeepSecrets {
    fn in_arguments(&mut self, _: &str, _: &mut Vec<String>) -> Vec<String> {
        Vec::new()
    }

    fn in_address(&mut self, _: &str, _: &mut String) -> Vec<String> {
        Vec::new()
    }
}

/// The result of an import; nothing is written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportPlan {
    /// The whole text of the configuration with the servers in it.
    pub text: String,
    /// The servers that were added, in the order they were found.
    pub added: Vec<Added>,
    /// Remarks on it, in the order of the sources.
    pub findings: Vec<ImportFinding>,
    /// `true` if a file was left out because its rules cannot be carried over.
    pub has_refused_rules: bool,
}

/// One server that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The toolbox it was added to.
    pub toolbox: String,
    /// Its name there.
    pub server: String,
    /// The file it is from.
    pub file: String,
    /// How well it was carried over.
    pub grade: Grade,
}

/// How well something was carried over, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// It means here what it meant there.
    Exact,
    /// It means nearly the same; worth a look.
    Approximate,
    /// Something is left for the user to do.
    Manual,
    /// It was not carried over.
    Unsupported,
}

impl Grade {
    /// The word for it.
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

/// One thing to say about an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportFinding {
    /// How well what it is about was carried over.
    pub grade: Grade,
    /// The file it is about, as the user named it.
    pub file: String,
    /// The setting it is about; empty for the file as a whole.
    pub path: String,
    /// Line and column in the file, both from 1.
    pub position: Option<(usize, usize)>,
    /// A message: what was found, and what came of it.
    pub message: String,
    /// Advice on what to do about it.
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

/// Works out what importing `sources` comes to: a new configuration, or `existing` with the
/// servers added, its comments and formatting kept.
///
/// A source that cannot be read is reported and left out; only an `existing` configuration that
/// cannot be extended is an error.
pub fn plan(
    existing: Option<&Source>,
    sources: &[Source],
    options: &Options,
) -> Result<ImportPlan, Report> {
    gather(existing, sources, &mut KeepSecrets)?.plan(options)
}
