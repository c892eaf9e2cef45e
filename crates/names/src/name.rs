//! Names: what things are called, and how a tool's identity becomes a name that every client accepts.
//!
//! What we route by (`ToolId`) and what a model sees (`ExposedName`) are different types. An
//! exposed name is resolved through a [`NameTable`], never by splitting it.

use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

mod free;
pub mod seen;
mod unique;

pub use crate::name::free::{
    OWN_TOOLS, fitted, full_address, has_our_scheme, is_fit, is_free_address, is_free_prompt,
    is_free_tool, is_like_registered,
};
pub use crate::name::unique::{Primitive, ServerRef, UniqueNames, uri_prefix};

#[cfg(test)]
mod tests;

/// The name of the program: its package, its executable, and its folders on disk.
pub const PROGRAM: &str = "mcp-workbench";

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the name as it is written; every non-empty string is a name.
            pub fn new(name: impl AsRef<str>) -> Self {
                Self(name.as_ref().into())
            }

            /// The name as it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type! {
    /// The key of an entry under `mcpServers`; unique within its toolbox.
    ServerName
}
name_type! {
    /// The key of an entry under `toolboxes`.
    ToolboxName
}
name_type! {
    /// An agent's name, as the command line or the agent's token gives it.
    AgentName
}

/// Which tool is meant: its name, its server, and the toolbox they stand in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId {
    /// The toolbox the tool is reached through.
    pub toolbox: ToolboxName,
    /// The server that has the tool.
    pub server: ServerName,
    /// The tool's name as its toolbox shows it: its server's own, or the one that the
    /// configuration gives it instead.
    pub tool: String,
}

impl ToolId {
    /// Returns a reference to the server that has it.
    pub fn server_ref(&self) -> ServerRef {
        ServerRef { toolbox: self.toolbox.clone(), server: self.server.clone() }
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.toolbox, self.server, self.tool)
    }
}

/// A tool name as agents see it: `[A-Za-z0-9_-]`, never longer than the limit it was made for, but
/// for a name in [`full`](Self::full), which is understood and never shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExposedName(String);

impl ExposedName {
    /// Names a tool `<toolbox>__<server>__<tool>`, in at most `limit` bytes.
    ///
    /// The name depends on the identity alone, so it does not move when other servers come and
    /// go. Where the plain form would be too long, would need other characters, or could be read
    /// as a name that somebody else's tool may have, it ends in a hash of the identity instead.
    pub fn registered(id: &ToolId, limit: usize) -> Self {
        let parts = [id.toolbox.as_str(), id.server.as_str(), &id.tool];
        let plain = parts.join(SEPARATOR);
        let is_legal = parts.iter().all(|part| is_legal(part));
        let is_as_hashed = free::has_hash(&plain)
            && (plain.len() == limit || id.tool.contains(SEPARATOR) || id.tool.starts_with('_'));
        if plain.len() <= limit && is_legal && is_unambiguous(id) && !is_as_hashed {
            return Self(plain);
        }
        Self::hashed(&plain, &parts, limit)
    }

    /// Returns `<toolbox>__<server>__<tool>` in full, if the tool is `registered` under another
    /// name and no other tool can be meant by it.
    pub fn full(id: &ToolId, registered: &Self) -> Option<Self> {
        let plain = [id.toolbox.as_str(), id.server.as_str(), &id.tool].join(SEPARATOR);
        let is_its_own = is_unambiguous(id) && !free::has_hash(&plain);
        (registered.0 != plain && is_its_own).then_some(Self(plain))
    }

    /// Names a tool `<namespace>_<tool>` ([`in_namespace`]), in at most `limit` bytes; where that
    /// would be too long or need other characters, the name ends in a hash of the identity.
    pub fn in_namespace(namespace: &str, id: &ToolId, limit: usize) -> Self {
        let plain = in_namespace(namespace, &id.tool);
        if plain.len() <= limit && is_legal(&plain) {
            return Self(plain);
        }
        Self::hashed(&plain, &[id.toolbox.as_str(), id.server.as_str(), &id.tool], limit)
    }

    fn hashed(plain: &str, parts: &[&str], limit: usize) -> Self {
        let readable = sanitize(plain);
        let hash = short_hash(parts);
        let keep = limit.saturating_sub(hash.len() + 1).min(readable.len());
        Self(format!("{}_{hash}", &readable[..keep]))
    }

    /// The name as the agent sees it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name with a namespace in front: `<namespace>_<name>`, or the name itself where that is empty.
pub fn in_namespace(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}_{name}") }
}

/// Returns the beginning of every address that has this namespace: a scheme of its own, as in
/// `notes+`, or nothing where the namespace is empty.
///
/// Strict clients refuse a scheme with a `_` in it, so the namespace is written with letters,
/// digits, `-` and `.` alone, and ends in a hash where that would hide what it says.
pub fn scheme_of_namespace(namespace: &str) -> String {
    if namespace.is_empty() {
        return String::new();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let written = namespace.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') => c.to_ascii_lowercase(),
        _ => '-',
    });
    let mut scheme = String::new();
    if !namespace.starts_with(|c: char| c.is_ascii_alphabetic()) {
        scheme.push_str("x-");
    }
    scheme.extend(written);
    if !namespace.chars().all(is_plain) {
        scheme.push('-');
        scheme.push_str(&short_hash(&[namespace]));
    }
    scheme.push('+');
    scheme
}

/// Returns `true` if `name` is shaped like a registered name of some tool of this server, so that
/// it is worth opening the toolbox to find out.
pub fn may_belong_to(name: &str, toolbox: &ToolboxName, server: &ServerName) -> bool {
    let full = format!("{toolbox}{SEPARATOR}{server}{SEPARATOR}");
    let prefix = sanitize(&full);
    // A name that was cut may hold less than the whole prefix, but ends in its hash.
    let readable = name.rsplit_once('_').filter(|_| free::has_hash(name));
    name.starts_with(&prefix)
        || name.starts_with(&full)
        || readable.is_some_and(|(readable, _)| prefix.starts_with(readable))
}

/// Every name an agent may call, and which tool each one means.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// Tools by registered names; none where those of two servers would have the same.
    by_name: HashMap<ExposedName, Option<ToolId>>,
    /// Tools by full names that they are not registered under.
    by_full_name: HashMap<ExposedName, ToolId>,
}

impl NameTable {
    /// Adds a tool under its name, and its full one. A name that a tool of the same server has keeps
    /// its first meaning; one that another server's has means nothing, for a server can choose what
    /// its tools are called until their hashes are alike.
    pub fn insert(&mut self, name: ExposedName, id: ToolId) {
        if let Some(full) = ExposedName::full(&id, &name) {
            self.by_full_name.insert(full, id.clone());
        }
        match self.by_name.entry(name) {
            Entry::Vacant(free) => _ = free.insert(Some(id)),
            Entry::Occupied(mut taken) => {
                let first = taken.get().as_ref();
                if first.is_some_and(|first| first.server_ref() != id.server_ref()) {
                    taken.insert(None);
                }
            }
        }
    }

    /// The tool that `name` means.
    pub fn resolve(&self, name: &str) -> Option<&ToolId> {
        match self.by_name.get(name) {
            Some(meant) => meant.as_ref(),
            None => self.by_full_name.get(name),
        }
    }

    /// Every registered name in the table, in no order.
    pub fn names(&self) -> impl Iterator<Item = &ExposedName> {
        self.by_name.keys()
    }
}

impl std::borrow::Borrow<str> for ExposedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The prefix that clients put before the names of a server's tools. Some files have it too.
pub fn client_prefix(server: &str) -> String {
    format!("mcp{SEPARATOR}{server}{SEPARATOR}")
}

/// The shortest limit that leaves room for a hash and something readable before it.
pub const MIN_NAME_LIMIT: usize = 16;

const SEPARATOR: &str = "__";
const HASH_DIGITS: usize = 8;

fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn sanitize(name: &str) -> String {
    name.chars().map(|c| if is_legal_char(c) { c } else { '_' }).collect()
}

fn is_legal(part: &str) -> bool {
    !part.is_empty() && part.chars().all(is_legal_char)
}

/// Returns `true` if the plain form can stand for this identity alone. If there is no `__` inside
/// toolbox and server and no `_` where they meet others, the first two `__` are the separators,
/// whatever the tool is called.
fn is_unambiguous(id: &ToolId) -> bool {
    let seams = |part: &str| !part.contains("__") && !part.ends_with('_') && !part.starts_with('_');
    seams(id.toolbox.as_str()) && seams(id.server.as_str())
}

fn short_hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let digest = hasher.finalize();
    let short =
        digest.iter().take(HASH_DIGITS / 2).fold(0_u32, |n, byte| n << 8 | u32::from(*byte));
    format!("{short:0HASH_DIGITS$x}")
}

/// The longest name, in bytes, that others are compared with: it takes long, and nobody means them.
const MAX_WANTED: usize = 1000;

/// Names nearest to `wanted` among `known`, best first, for a "did you mean"; at most `limit`.
///
/// A name counts as near when it is alike as a whole, or when one contains the other.
pub fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    if wanted.len() > MAX_WANTED {
        return Vec::new();
    }
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let folded = name.to_lowercase();
            let alike = strsim::jaro_winkler(&wanted, &folded);
            let contains =
                wanted.len() >= 3 && (folded.contains(&wanted) || wanted.contains(&folded));
            (alike >= 0.8 || contains)
                .then_some((if contains { alike.max(0.9) } else { alike }, name))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(limit).map(|(_, name)| name).collect()
}
