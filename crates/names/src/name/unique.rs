//! Primitives of many servers under names of their own: changed only where two servers have the same.

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt, HashSet};
use serde::{Deserialize, Serialize};

use crate::name::{ServerName, ToolboxName};

/// A server reference: a server by its name and the toolbox that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerRef {
    /// The toolbox.
    pub toolbox: ToolboxName,
    /// The server.
    pub server: ServerName,
}

/// A primitive of one server, by the server's own name for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Primitive {
    /// The server that has it.
    pub server_ref: ServerRef,
    /// The server's own name for it.
    pub name: String,
}

/// The names of one kind of primitives, from every server that has been listed.
#[derive(Debug, Default)]
pub struct UniqueNames {
    primitives: HashMap<String, Primitive>,
    /// Names that more than one server gives.
    ambiguous: HashSet<String>,
}

impl UniqueNames {
    /// Names primitives in their order. `source` tells servers apart that are one and the same in
    /// several toolboxes; `full` makes a name that no other primitive has.
    ///
    /// Every full name leads to its primitive, and every plain one to the first that has it.
    pub fn new<S: Copy + Eq + Hash>(
        primitives: impl IntoIterator<Item = (S, Primitive)>,
        full: impl Fn(&Primitive) -> String,
    ) -> Self {
        let mut names = Self::default();
        let mut sources: HashMap<String, S> = HashMap::new();
        for (source, primitive) in primitives {
            if *sources.entry(primitive.name.clone()).or_insert(source) != source {
                names.ambiguous.insert(primitive.name.clone());
            }
            names.primitives.entry(full(&primitive)).or_insert_with(|| primitive.clone());
            names.primitives.entry(primitive.name.clone()).or_insert(primitive);
        }
        names
    }

    /// The primitive that is called so.
    pub fn resolve(&self, name: &str) -> Option<&Primitive> {
        self.primitives.get(name)
    }

    /// Returns `true` if more than one server gives this name.
    pub fn is_ambiguous(&self, name: &str) -> bool {
        self.ambiguous.contains(name)
    }

    /// Returns `true` if no two servers give the same name.
    pub fn is_plain(&self) -> bool {
        self.ambiguous.is_empty()
    }
}

/// The scheme of addresses that were made unique.
const SCHEME: &str = "mcp-workbench://";

/// The beginning of every address of a server's resources that had to be made unique.
pub fn uri_prefix(ServerRef { toolbox, server }: &ServerRef) -> String {
    format!("{SCHEME}{}/{}/", encoded(toolbox.as_str()), encoded(server.as_str()))
}

/// Percent-encodes what has a meaning in an address, or in a template of one (RFC 3986, 6570).
fn encoded(name: &str) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn primitive(server: &str, name: &str) -> Primitive {
        let server_ref =
            ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new(server) };
        Primitive { server_ref, name: name.to_owned() }
    }

    fn full(primitive: &Primitive) -> String {
        format!("{}{}", uri_prefix(&primitive.server_ref), primitive.name)
    }

    #[test]
    fn a_name_is_changed_only_where_two_servers_give_it() {
        let primitives =
            [(1, primitive("a", "x")), (1, primitive("a", "y")), (2, primitive("b c", "y"))];
        let names = UniqueNames::new(primitives, full);
        assert!(!names.is_ambiguous("x"));
        assert!(names.is_ambiguous("y"));
        assert_eq!(names.resolve("y").unwrap().server_ref.server.as_str(), "a");
        let second = names.resolve("mcp-workbench://box/b%20c/y").unwrap();
        assert_eq!((second.server_ref.server.as_str(), second.name.as_str()), ("b c", "y"));
    }

    #[test]
    fn one_server_in_two_toolboxes_gives_a_name_once() {
        let names =
            UniqueNames::new([(1, primitive("a", "x")), (1, primitive("again", "x"))], full);
        assert!(names.is_plain());
    }
}
