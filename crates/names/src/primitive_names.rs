//! Names for prompts and resources of many servers. A server's own name is qualified only if
//! another server has it too, or if it is ambiguous.

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt};
use serde::{Deserialize, Serialize};

use crate::{ServerName, ToolboxName};

/// The scheme of qualified URIs.
pub(crate) const SCHEME: &str = "mcp-workbench";

/// A server in a toolbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerRef {
    pub toolbox: ToolboxName,
    pub server: ServerName,
}

/// A primitive (MCP: a prompt, resource or resource template) of one server, by the server's own
/// name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrimitiveId {
    pub server_ref: ServerRef,
    /// The server's own name or URI.
    pub name: String,
}

/// The names of all listed servers' primitives of one kind.
///
/// Qualified names and servers' own names are in separate maps, so a server can't claim another's
/// qualified name.
#[derive(Debug, Default)]
pub struct PrimitiveNameTable {
    /// By qualified name; `None` if two servers share it.
    full: HashMap<String, Option<PrimitiveId>>,
    /// By the server's own name; `None` if that name isn't shown.
    own: HashMap<String, Option<PrimitiveId>>,
}

impl PrimitiveNameTable {
    /// Names the primitives in order. `source` identifies a server that is in several toolboxes,
    /// `full` returns a primitive's qualified name, and `is_free` returns `true` if a server's own
    /// name is unambiguous.
    ///
    /// Every qualified name resolves to its primitive. An unambiguous name of only one server
    /// resolves to that server's first primitive with it.
    pub fn new<S: Copy + Eq + Hash>(
        primitives: impl IntoIterator<Item = (S, PrimitiveId)>,
        full: impl Fn(&PrimitiveId) -> String,
        is_free: impl Fn(&str) -> bool,
    ) -> Self {
        let mut names = Self::default();
        let mut sources: HashMap<String, S> = HashMap::new();
        for (source, primitive) in primitives {
            let own = &primitive.name;
            if *sources.entry(own.clone()).or_insert(source) != source {
                names.own.insert(own.clone(), None);
            } else if !names.own.contains_key(own) {
                let shown = is_free(own).then(|| primitive.clone());
                names.own.insert(own.clone(), shown);
            }
            let meant =
                names.full.entry(full(&primitive)).or_insert_with(|| Some(primitive.clone()));
            if meant.as_ref().is_some_and(|first| first.server_ref != primitive.server_ref) {
                *meant = None;
            }
        }
        names
    }

    /// Returns the primitive with this qualified or own name.
    pub fn resolve(&self, name: &str) -> Option<&PrimitiveId> {
        self.full.get(name).or_else(|| self.own.get(name))?.as_ref()
    }

    /// Returns `true` if this name of a server is shown in qualified form, because it is ambiguous
    /// or several servers have it.
    pub fn is_qualified(&self, own: &str) -> bool {
        self.own.get(own).is_some_and(Option::is_none)
    }

    /// Returns `true` if every primitive is shown under its server's own name.
    pub fn is_plain(&self) -> bool {
        self.own.values().all(Option::is_some)
    }
}

/// Returns the beginning of qualified URIs of a server's resources.
pub fn uri_prefix(ServerRef { toolbox, server }: &ServerRef) -> String {
    format!("{SCHEME}://{}/{}/", encoded(toolbox.as_str()), encoded(server.as_str()))
}

/// Percent-encodes everything but unreserved characters, for URIs and URI templates (RFC 3986, RFC
/// 6570).
fn encoded(name: &str) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn primitive(server: &str, name: &str) -> PrimitiveId {
        let server_ref =
            ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new(server) };
        PrimitiveId { server_ref, name: name.to_owned() }
    }

    fn names<const N: usize>(primitives: [(u8, PrimitiveId); N]) -> PrimitiveNameTable {
        named(primitives.into())
    }

    fn named(primitives: Vec<(u8, PrimitiveId)>) -> PrimitiveNameTable {
        let full = |primitive: &PrimitiveId| {
            format!("{}{}", uri_prefix(&primitive.server_ref), primitive.name)
        };
        PrimitiveNameTable::new(primitives, full, |name| !name.starts_with(SCHEME))
    }

    #[test]
    fn only_names_of_several_servers_are_qualified() {
        let names =
            names([(1, primitive("a", "x")), (1, primitive("a", "y")), (2, primitive("b c", "y"))]);
        assert!(!names.is_qualified("x"));
        assert!(names.is_qualified("y") && !names.is_plain());
        assert_eq!(names.resolve("y"), None, "an ambiguous name resolves to neither");
        let second = names.resolve("mcp-workbench://box/b%20c/y").unwrap();
        assert_eq!((second.server_ref.server.as_str(), second.name.as_str()), ("b c", "y"));
    }

    #[test]
    fn one_server_in_two_toolboxes_is_no_conflict() {
        assert!(names([(1, primitive("a", "x")), (1, primitive("again", "x"))]).is_plain());
    }

    #[test]
    fn servers_cannot_claim_qualified_names() {
        let claimed = "mcp-workbench://box/bank/x";
        for with_bank in [false, true] {
            let mut all = vec![(1, primitive("evil", claimed))];
            all.extend(with_bank.then(|| (2, primitive("bank", "x"))));
            let names = named(all);
            let meant = names.resolve(claimed).map(|found| found.server_ref.server.as_str());
            assert_eq!(meant, with_bank.then_some("bank"));
            assert!(names.is_qualified(claimed));
            let own = names.resolve("mcp-workbench://box/evil/mcp-workbench://box/bank/x").unwrap();
            assert_eq!(own.server_ref.server.as_str(), "evil");
        }
    }
}
