//! Identities, and the names under which agents see them.
//!
//! The gateway routes by [`ToolId`]; a model sees an [`ExposedName`]. Exposed names are resolved
//! through a [`NameTable`], never by splitting them: a name may be truncated or end in a hash.

use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

mod ambiguity;
mod primitive_names;
pub mod untrusted_text;

pub use crate::ambiguity::{
    BUILTIN_TOOL_NAMES, UI_SCHEME, has_our_scheme, has_registered_shape, is_listable_name,
    is_portable_tool_name, is_portable_uri, is_unambiguous_prompt_name, is_unambiguous_tool_name,
    is_unambiguous_ui_uri, is_unambiguous_uri, qualified_ui_uri, qualified_uri, to_listable_name,
};
pub use crate::primitive_names::{PrimitiveId, PrimitiveNameTable, ServerRef, uri_prefix};

#[cfg(test)]
mod tests;

/// The name of the package, the executable, and the program's folders on disk.
pub const PROGRAM: &str = "mcp-workbench";

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates a name. Any string is accepted.
            pub fn new(name: impl AsRef<str>) -> Self {
                Self(name.as_ref().into())
            }

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
    /// An agent's name, from the command line or the agent's token.
    AgentName
}

impl AgentName {
    /// In bytes.
    const MAX_PROVEN: usize = 256;

    /// Returns the name in a token or certificate, exactly as it is. `None` if it is empty, too
    /// long, starts or ends with white space, or has control characters.
    pub fn from_credential(name: &str) -> Option<Self> {
        let is_name = !name.is_empty()
            && name.len() <= Self::MAX_PROVEN
            && name.trim() == name
            && !name.chars().any(char::is_control);
        is_name.then(|| Self::new(name))
    }
}

/// The identity of a tool: toolbox, server and tool name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolId {
    pub toolbox: ToolboxName,
    pub server: ServerName,
    /// The tool's name in its toolbox: the server's own name, or the configured replacement.
    pub tool: String,
}

impl ToolId {
    pub fn server_ref(&self) -> ServerRef {
        ServerRef { toolbox: self.toolbox.clone(), server: self.server.clone() }
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.toolbox, self.server, self.tool)
    }
}

/// A tool name as agents see it: `[A-Za-z0-9_-]`, at most as long as the limit it was made for.
///
/// Names from [`qualified`](Self::qualified) may break both rules. They are accepted in calls but
/// never listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExposedName(String);

impl ExposedName {
    /// Returns `<toolbox>__<server>__<tool>`, in at most `limit` bytes.
    ///
    /// The name depends only on the identity, so it doesn't change when servers are added or
    /// removed. It ends in a hash of the identity if the plain form is too long, has other
    /// characters, or could also be the name of another server's tool.
    pub fn registered(id: &ToolId, limit: usize) -> Self {
        let parts = [id.toolbox.as_str(), id.server.as_str(), &id.tool];
        let plain = parts.join(SEPARATOR);
        let is_legal = parts.iter().all(|part| is_legal(part));
        let is_as_hashed = ambiguity::has_hash(&plain)
            && (plain.len() == limit || id.tool.contains(SEPARATOR) || id.tool.starts_with('_'));
        if plain.len() <= limit && is_legal && is_unambiguous(id) && !is_as_hashed {
            return Self(plain);
        }
        Self::hashed(&format!("{}{SEPARATOR}{}", parts[0], parts[1]), SEPARATOR, &parts, limit)
    }

    /// Returns the untruncated `<toolbox>__<server>__<tool>`, if the tool is registered under a
    /// different name and the qualified name is unambiguous.
    pub fn qualified(id: &ToolId, registered: &Self) -> Option<Self> {
        let plain = [id.toolbox.as_str(), id.server.as_str(), &id.tool].join(SEPARATOR);
        let is_its_own = is_unambiguous(id) && !ambiguity::has_hash(&plain);
        (registered.0 != plain && is_its_own).then_some(Self(plain))
    }

    /// Returns `<namespace>_<tool>` ([`namespaced_name`]), in at most `limit` bytes. If that is too
    /// long or has other characters, the name ends in a hash of the identity.
    pub fn namespaced(namespace: &str, id: &ToolId, limit: usize) -> Self {
        let plain = namespaced_name(namespace, &id.tool);
        if plain.len() <= limit && is_legal(&plain) {
            return Self(plain);
        }
        let parts = [id.toolbox.as_str(), id.server.as_str(), &id.tool];
        let separator = if namespace.is_empty() { "" } else { "_" };
        Self::hashed(namespace, separator, &parts, limit)
    }

    /// Returns the name that earlier versions registered, which configurations may contain: a
    /// shortened one keeps toolbox and server, and loses the end of the tool's name.
    pub fn registered_before(id: &ToolId, limit: usize) -> Self {
        let registered = Self::registered(id, limit);
        let parts = [id.toolbox.as_str(), id.server.as_str(), &id.tool];
        let readable = sanitize(&parts.join(SEPARATOR));
        let keep = limit.saturating_sub(HASH_DIGITS + 1);
        if registered.0.len() < limit || readable.len() <= keep {
            return registered;
        }
        Self(format!("{}_{}", &readable[..keep], short_hash(&parts)))
    }

    /// Returns `<head><separator><tool>` and a hash of `parts`, the last of which is the tool. If
    /// that is too long, the head gives way to the tool's name, down to a third of the readable
    /// part.
    fn hashed(head: &str, separator: &str, parts: &[&str; 3], limit: usize) -> Self {
        let (head, tool) = (sanitize(head), sanitize(parts[2]));
        let hash = short_hash(parts);
        let keep = limit.saturating_sub(hash.len() + 1 + separator.len());
        let least = head.len().min(keep / MIN_HEAD_SHARE);
        let tool = &tool[..tool.len().min(keep - least)];
        let head = &head[..head.len().min(keep - tool.len())];
        Self(format!("{head}{separator}{tool}_{hash}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns `<namespace>_<name>`, or just the name if the namespace is empty.
pub fn namespaced_name(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}_{name}") }
}

/// Returns the URI scheme prefix for a namespace, such as `notes+`; empty for an empty namespace.
///
/// Strict clients reject schemes with a `_`, so the prefix uses only letters, digits, `-` and `.`.
/// It ends in a hash if the namespace has characters that the prefix can't express.
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

/// Returns `true` if `name` could be a registered name of one of this server's tools, so that it is
/// worth opening the toolbox to find out.
pub fn may_belong_to(name: &str, toolbox: &ToolboxName, server: &ServerName) -> bool {
    let full = format!("{toolbox}{SEPARATOR}{server}{SEPARATOR}");
    let prefix = sanitize(&full);
    // A shortened name may have only the beginning of the prefix, but it ends in a hash.
    let readable = name.rsplit_once('_').filter(|_| ambiguity::has_hash(name));
    let is_shortened = readable.is_some_and(|(readable, _)| {
        let head = readable.rsplit_once(SEPARATOR).map_or(readable, |(head, _)| head);
        !head.is_empty() && prefix.starts_with(head)
    });
    name.starts_with(&prefix) || name.starts_with(&full) || is_shortened
}

/// The names that an agent may call, and the tool that each refers to.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// Tools by registered name; `None` if tools of two servers share it.
    by_name: HashMap<ExposedName, Option<ToolId>>,
    /// Tools by qualified name, if they are registered under another one.
    by_full_name: HashMap<ExposedName, ToolId>,
}

impl NameTable {
    /// Adds a tool under its registered and its qualified name.
    ///
    /// If tools of one server share a name, the first tool keeps it. If tools of two servers share
    /// a name, it resolves to neither: a server could choose tool names until their hashes collide
    /// with another server's.
    pub fn insert(&mut self, name: ExposedName, id: ToolId) {
        if let Some(full) = ExposedName::qualified(&id, &name) {
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

    pub fn resolve(&self, name: &str) -> Option<&ToolId> {
        match self.by_name.get(name) {
            Some(meant) => meant.as_ref(),
            None => self.by_full_name.get(name),
        }
    }

    /// Returns every registered name, in arbitrary order.
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

/// Returns the prefix that clients put before the tool names of a server. Some configuration files
/// contain it too.
pub fn client_prefix(server: &str) -> String {
    format!("mcp{SEPARATOR}{server}{SEPARATOR}")
}

/// The smallest limit that leaves room for a hash and a readable part before it.
pub const MIN_NAME_LIMIT: usize = 16;

const SEPARATOR: &str = "__";
const HASH_DIGITS: usize = 8;
/// A shortened name keeps at least one part in this many for toolbox and server.
const MIN_HEAD_SHARE: usize = 3;

fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn sanitize(name: &str) -> String {
    name.chars().map(|c| if is_legal_char(c) { c } else { '_' }).collect()
}

fn is_legal(part: &str) -> bool {
    !part.is_empty() && part.chars().all(is_legal_char)
}

/// Returns `true` if no other identity has the same plain form.
///
/// If toolbox and server contain no `__` and neither begin nor end with `_`, the first two `__` are
/// the separators, regardless of the tool name.
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

/// Longer queries, in bytes, get no suggestions: comparing them is slow and useless.
const MAX_QUERY_BYTES: usize = 1000;

/// Returns the `known` names closest to `wanted`, best first and at most `limit`, for "did you
/// mean" hints.
///
/// A name matches if it is similar as a whole (Jaro-Winkler), or if one of the two contains the
/// other.
pub fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    if wanted.len() > MAX_QUERY_BYTES {
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
