//! The lockfile: the reviewed definitions of each server.
//!
//! `config` reads it from `workbench.lock` next to the configuration, `catalog` compares it with
//! the listings of the servers, and `policy` applies the `DriftPolicy` to the differences.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::{Config, Ecosystem, Launch, ServerConfig, ToolboxConfig};

/// How to treat definitions that differ from the lockfile (`onDefinitionChange`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DriftPolicy {
    /// Don't compare.
    #[default]
    Off,
    /// Serve them and report the drift.
    Warn,
    /// Hide them from agents.
    Quarantine,
    /// Don't connect to the server.
    Deny,
}

impl DriftPolicy {
    /// All variants with their spelling in the configuration.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("off", Self::Off),
        ("warn", Self::Warn),
        ("quarantine", Self::Quarantine),
        ("deny", Self::Deny),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Quarantine => "quarantine",
            Self::Deny => "deny",
        }
    }

    /// Returns `true` if drift withholds definitions or the whole server from agents.
    pub fn is_enforced(self) -> bool {
        matches!(self, Self::Quarantine | Self::Deny)
    }
}

/// SHA-256 of a definition in canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DefinitionDigest([u8; 32]);

impl DefinitionDigest {
    pub fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Parses `sha256:` followed by 64 lowercase hex digits.
    pub fn read(word: &str) -> Option<Self> {
        let hex = word.strip_prefix("sha256:")?;
        if hex.contains(|c: char| c.is_ascii_uppercase()) {
            return None;
        }
        let mut sum = [0; 32];
        hex::decode_to_slice(hex, &mut sum).ok()?;
        Some(Self(sum))
    }
}

impl fmt::Display for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place in a definition that the digest leaves out: a JSON pointer, and the indexes of the words
/// to ignore in the text there. Without indexes the whole value is ignored.
pub type IgnoreRule = (String, Vec<usize>);

/// One accepted form of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DefinitionVariant {
    /// Computed without the ignored parts.
    pub digest: DefinitionDigest,
    /// The whole definition as canonical JSON.
    pub text: Arc<str>,
}

/// A recorded definition in all its accepted forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockedDefinition {
    /// All accepted forms. The one for clients with the fewest capabilities comes first.
    pub spellings: Vec<DefinitionVariant>,
    /// Parts that vary from run to run (`ignore`).
    pub ignore: Vec<IgnoreRule>,
    /// `true` if the definition is shown only to clients with more capabilities (`when`).
    pub is_conditional: bool,
}

/// Definitions by name or URI template.
pub type LockedDefinitions = BTreeMap<String, LockedDefinition>;

/// The package that a server ran from when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockedPackage {
    pub ecosystem: Ecosystem,
    pub name: String,
    pub version: Option<String>,
    /// Digest of the package contents, prefixed with the algorithm.
    pub integrity: Option<String>,
    /// Digest of the installed files, if `integrity` is one of the downloaded archive.
    pub contents: Option<String>,
}

/// The recorded definitions of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockedServer {
    /// The launch or connection settings as JSON, without secrets.
    pub launch: Arc<str>,
    /// `None` if the package is unknown.
    pub package: Option<LockedPackage>,
    /// The `serverInfo` of the server, as JSON.
    pub info: Option<Arc<str>>,
    /// The `instructions` of the server. The definition is a JSON string.
    pub instructions: Option<LockedDefinition>,
    pub tools: LockedDefinitions,
    pub prompts: LockedDefinitions,
    pub templates: LockedDefinitions,
    /// `None` in entries written before resources were recorded. Their resources aren't compared.
    pub resources: Option<LockedDefinitions>,
}

impl LockedServer {
    /// Returns an entry without reviewed definitions.
    pub fn unreviewed() -> Self {
        Self { resources: Some(LockedDefinitions::new()), ..Self::default() }
    }

    /// Returns the definitions by kind, each with the display name of the kind.
    pub fn kinds(&self) -> [(&'static str, &LockedDefinitions); 4] {
        static NONE: LockedDefinitions = LockedDefinitions::new();
        [
            ("tool", &self.tools),
            ("prompt", &self.prompts),
            ("resource template", &self.templates),
            ("resource", self.resources.as_ref().unwrap_or(&NONE)),
        ]
    }
}

/// The servers of the lockfile by lockfile key (`Config::lock_key`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lockfile {
    pub servers: BTreeMap<String, Arc<LockedServer>>,
}

impl Config {
    /// Returns the lockfile key of a server: its name, or `toolbox/name` if another server has the
    /// same name but a different launch.
    pub fn lock_key(&self, toolbox: &str, server: &ServerConfig) -> String {
        let others = self.servers().filter(|(_, other)| other.name == server.name);
        let is_launched = |other: &ServerConfig| !matches!(other.launch, Launch::Macros(_));
        let mut others = others.filter(|(_, other)| is_launched(other));
        if others.all(|(_, other)| other.launch == server.launch) {
            server.name.to_string()
        } else {
            format!("{toolbox}/{}", server.name)
        }
    }

    /// Applies the top-level `onDefinitionChange` to servers without their own policy.
    pub fn apply_drift_policy(&mut self) {
        for server in self.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
            server.drift_policy = server.drift_policy.or(self.drift_policy);
        }
    }

    /// Attaches the locked definitions to the servers. Servers without a drift policy default to
    /// `DriftPolicy::Warn`.
    pub fn attach_lock(&mut self, lock: &Lockfile) {
        self.apply_drift_policy();
        let name = |(toolbox, server): (&ToolboxConfig, &ServerConfig)| {
            self.lock_key(toolbox.name.as_str(), server)
        };
        let mut names: Vec<String> = self.servers().map(name).collect();
        names.reverse();
        for server in self.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
            let name = names.pop().unwrap_or_default();
            if matches!(server.launch, Launch::Macros(_)) {
                continue;
            }
            server.drift_policy = server.drift_policy.or(Some(DriftPolicy::Warn));
            server.lock_entry = lock.servers.get(&name).map(Arc::clone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_text_round_trips() {
        let digest = DefinitionDigest::of(b"{}");
        assert_eq!(DefinitionDigest::read(&digest.to_string()), Some(digest));
        for wrong in ["", "sha256:", "sha256:00", &digest.to_string().to_uppercase(), "md5:00"] {
            assert_eq!(DefinitionDigest::read(wrong), None, "{wrong}");
        }
    }
}
