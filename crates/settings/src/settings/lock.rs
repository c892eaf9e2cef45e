//! The lock: what servers may say of themselves, as somebody has read and accepted it.
//!
//! `config` reads it from `workbench.lock` beside the configuration; `catalog` compares it with what a
//! server lists, and `policy` decides what becomes of what differs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::settings::{Config, Ecosystem, Launch, ServerConfig, ToolboxConfig};

/// The fate of definitions that are not as the lock has them (`definitions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Definitions {
    /// Nobody looks.
    #[default]
    Off,
    /// They are served, and told of.
    Warn,
    /// They are as if they did not exist.
    Quarantine,
    /// Their server is not opened.
    Deny,
}

impl Definitions {
    /// All of them, by the words for them in the file.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("off", Self::Off),
        ("warn", Self::Warn),
        ("quarantine", Self::Quarantine),
        ("deny", Self::Deny),
    ];

    /// The word for it in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Quarantine => "quarantine",
            Self::Deny => "deny",
        }
    }

    /// Returns `true` if something is kept from agents where definitions differ.
    pub fn is_enforced(self) -> bool {
        matches!(self, Self::Quarantine | Self::Deny)
    }
}

/// The SHA-256 of a definition in its one spelling.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sum([u8; 32]);

impl Sum {
    /// The sum of a text.
    pub fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Reads a sum as it is written in a lock.
    pub fn read(word: &str) -> Option<Self> {
        let hex = word.strip_prefix("sha256:").filter(|hex| hex.len() == 64)?;
        let mut sum = [0; 32];
        for (byte, pair) in sum.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let digit = |c: u8| match c {
                b'0'..=b'9' => Some(c - b'0'),
                b'a'..=b'f' => Some(c - b'a' + 10),
                _ => None,
            };
            *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
        }
        Some(Self(sum))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place in a definition of which the lock does not say what stands there: a JSON pointer, and the
/// words of the text there that may be others; without words, all of it may.
pub type Hole = (String, Vec<usize>);

/// One spelling of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// Its sum, with what is ignored left out.
    pub sum: Sum,
    /// The definition as JSON, in its one spelling.
    pub text: Arc<str>,
}

/// A definition in the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Its spellings: the one for clients that can do least first.
    pub spellings: Vec<Spelling>,
    /// The places in it that differ from run to run (`ignore`).
    pub ignore: Vec<Hole>,
    /// `true` if only clients that can do more are shown it (`when`).
    pub is_conditional: bool,
}

/// Definitions by their names or addresses.
pub type LockedKind = BTreeMap<String, Locked>;

/// The package that a server was run from when it was recorded, as far as that was known there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedPackage {
    /// The registry that has it.
    pub ecosystem: Ecosystem,
    /// Its name there.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// The digest of its bytes, with the kind of digest before it.
    pub integrity: Option<String>,
}

/// Everything that one server may say of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedServer {
    /// How it is started or reached, as JSON without secrets.
    pub launch: Arc<str>,
    /// The package that was run, where that is known.
    pub package: Option<LockedPackage>,
    /// The name that it gives itself, as JSON.
    pub info: Option<Arc<str>>,
    /// How it wants to be used; a text in JSON.
    pub instructions: Option<Locked>,
    /// Its tools.
    pub tools: LockedKind,
    /// Its prompts.
    pub prompts: LockedKind,
    /// Its resource templates.
    pub templates: LockedKind,
}

impl LockedServer {
    /// Its definitions by kind, each with the word for it.
    pub fn kinds(&self) -> [(&'static str, &LockedKind); 3] {
        [("tool", &self.tools), ("prompt", &self.prompts), ("resource template", &self.templates)]
    }
}

/// A whole lock: what each server may say, by its name there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The servers.
    pub servers: BTreeMap<String, Arc<LockedServer>>,
}

impl Config {
    /// The name of a server in the lock: its own, unless there is another server of that name.
    pub fn name_in_lock(&self, toolbox: &str, server: &ServerConfig) -> String {
        let others = self.servers().filter(|(_, other)| other.name == server.name);
        let is_launched = |other: &ServerConfig| !matches!(other.launch, Launch::Macros(_));
        let mut others = others.filter(|(_, other)| is_launched(other));
        if others.all(|(_, other)| other.launch == server.launch) {
            server.name.to_string()
        } else {
            format!("{toolbox}/{}", server.name)
        }
    }

    /// Gives each server the mode that holds for all where it has none of its own.
    pub fn settle_definitions(&mut self) {
        for server in self.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
            server.definitions = server.definitions.or(self.definitions);
        }
    }

    /// Gives each server what the lock has of it; where nobody says otherwise, what differs is told of.
    pub fn attach_lock(&mut self, lock: &Lock) {
        self.settle_definitions();
        let name = |(toolbox, server): (&ToolboxConfig, &ServerConfig)| {
            self.name_in_lock(toolbox.name.as_str(), server)
        };
        let mut names: Vec<String> = self.servers().map(name).collect();
        names.reverse();
        for server in self.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
            let name = names.pop().unwrap_or_default();
            if matches!(server.launch, Launch::Macros(_)) {
                continue;
            }
            server.definitions = server.definitions.or(Some(Definitions::Warn));
            server.locked = lock.servers.get(&name).map(Arc::clone);
        }
    }
}

impl ServerConfig {
    /// The fate of its definitions that are not as the lock has them.
    pub fn definitions(&self) -> Definitions {
        match self.launch {
            Launch::Macros(_) => Definitions::Off,
            _ => self.definitions.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_read_as_it_is_written() {
        let sum = Sum::of(b"{}");
        assert_eq!(Sum::read(&sum.to_string()), Some(sum));
        for wrong in ["", "sha256:", "sha256:00", &sum.to_string().to_uppercase(), "md5:00"] {
            assert_eq!(Sum::read(wrong), None, "{wrong}");
        }
    }
}
