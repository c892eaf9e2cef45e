//! Primitives of many servers under names of their own: changed only where two servers have the same,
//! or where a name could mean something else.

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt};
use serde::{Deserialize, Serialize};

use crate::name::{ServerName, ToolboxName};

/// The scheme of the addresses that we make.
pub(crate) const SCHEME: &str = "mcp-workbench";

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
///
/// Full names and servers' own ones never share a map: no server can choose another's full name.
#[derive(Debug, Default)]
pub struct UniqueNames {
    /// By their full names; none where two servers would have the same.
    full: HashMap<String, Option<Primitive>>,
    /// By their servers' own names; none where that is not to be shown.
    own: HashMap<String, Option<Primitive>>,
}

impl UniqueNames {
    /// Names primitives in their order. `source` tells servers apart that are one and the same in
    /// several toolboxes; `full` makes a name that no other primitive has; `is_free` tells which of
    /// the servers' own names can be shown.
    ///
    /// Every full name leads to its primitive, and every free one of one server to the first of it.
    pub fn new<S: Copy + Eq + Hash>(
        primitives: impl IntoIterator<Item = (S, Primitive)>,
        full: impl Fn(&Primitive) -> String,
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

    /// The primitive that is called so.
    pub fn resolve(&self, name: &str) -> Option<&Primitive> {
        self.full.get(name).or_else(|| self.own.get(name))?.as_ref()
    }

    /// Returns `true` if what servers call so is shown under its full name: more than one has it, or it
    /// could mean something else.
    pub fn is_changed(&self, own: &str) -> bool {
        self.own.get(own).is_some_and(Option::is_none)
    }

    /// Returns `true` if everything is shown under its server's own name.
    pub fn is_plain(&self) -> bool {
        self.own.values().all(Option::is_some)
    }
}

/// The beginning of every address of a server's resources that had to be made unique.
pub fn uri_prefix(ServerRef { toolbox, server }: &ServerRef) -> String {
    format!("{SCHEME}://{}/{}/", encoded(toolbox.as_str()), encoded(server.as_str()))
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

    fn names<const N: usize>(primitives: [(u8, Primitive); N]) -> UniqueNames {
        named(primitives.into())
    }

    fn named(primitives: Vec<(u8, Primitive)>) -> UniqueNames {
        let full = |primitive: &Primitive| {
            format!("{}{}", uri_prefix(&primitive.server_ref), primitive.name)
        };
        UniqueNames::new(primitives, full, |name| !name.starts_with(SCHEME))
    }

    #[test]
    fn a_name_is_changed_only_where_two_servers_give_it() {
        let names =
            names([(1, primitive("a", "x")), (1, primitive("a", "y")), (2, primitive("b c", "y"))]);
        assert!(!names.is_changed("x"));
        assert!(names.is_changed("y") && !names.is_plain());
        assert_eq!(names.resolve("y"), None, "neither is taken for the other");
        let second = names.resolve("mcp-workbench://box/b%20c/y").unwrap();
        assert_eq!((second.server_ref.server.as_str(), second.name.as_str()), ("b c", "y"));
    }

    #[test]
    fn one_server_in_two_toolboxes_gives_a_name_once() {
        assert!(names([(1, primitive("a", "x")), (1, primitive("again", "x"))]).is_plain());
    }

    #[test]
    fn a_servers_own_name_is_never_another_servers_full_one() {
        let claimed = "mcp-workbench://box/bank/x";
        for with_bank in [false, true] {
            let mut all = vec![(1, primitive("evil", claimed))];
            all.extend(with_bank.then(|| (2, primitive("bank", "x"))));
            let names = named(all);
            let meant = names.resolve(claimed).map(|found| found.server_ref.server.as_str());
            assert_eq!(meant, with_bank.then_some("bank"));
            assert!(names.is_changed(claimed));
            let own = names.resolve("mcp-workbench://box/evil/mcp-workbench://box/bank/x").unwrap();
            assert_eq!(own.server_ref.server.as_str(), "evil");
        }
    }
}
