//! The confinement of a server (`sandbox`): a word, or what it may reach besides.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::syntax::document::Node;
use crate::config::syntax::places::{Places, located_path};
use crate::config::syntax::reader::{Located, Reader, did_you_mean};
use crate::config::syntax::section::{FromNode, Section, section};
use crate::settings::{Confinement, Sandbox};

/// The words for a sandbox.
const WORDS: [&str; 2] = ["off", WORKSPACE];
/// The word for a sandbox with nothing besides.
const WORKSPACE: &str = "workspace";

/// The confinement of a server: `off`, `workspace`, or an object, which is `workspace` and what it says.
pub enum RawSandbox {
    /// A word, known or not.
    Word(Located<String>),
    /// The things that it may reach besides.
    Object(Box<RawSandboxObject>),
}

section! {
    /// The things that a confined server may reach beside its program, the `cwd` that its entry names, and
    /// what its arguments name.
    #[schemars(rename = "Sandbox")]
    pub struct RawSandboxObject {
        /// Files and folders that it may read and execute.
        "read" as pub read: Vec<Located<String>>,

        /// Files and folders that it may change, too.
        "write" as pub write: Vec<Located<String>>,

        /// Lets it use the network, which includes the addresses of this machine itself.
        #[schemars(extend("default" = true))]
        "network" as pub network: Located<bool>,

        /// Lets it connect to sockets in the file system, such as those of Docker and of the desktop,
        /// which do things on its behalf outside the sandbox.
        #[schemars(extend("default" = false))]
        "unixSockets" as pub unix_sockets: Located<bool>,
    }
}

impl RawSandbox {
    /// Checks the words and paths.
    pub(crate) fn checked(self, places: &Places<'_>, reader: &mut Reader<'_>) -> Sandbox {
        let object = match self {
            Self::Word(word) if word.value == WORKSPACE => {
                return Sandbox::On(Confinement::default());
            }
            Self::Word(word) => {
                if word.value != "off" {
                    let message = format!("expected `off` or `workspace`, found `{}`", word.value);
                    reader.error(&word.spot, message, did_you_mean(&word.value, &WORDS));
                }
                return Sandbox::Off;
            }
            Self::Object(object) => *object,
        };
        let RawSandboxObject { read, write, network, unix_sockets } = object;
        let paths = |all: Option<Vec<Located<String>>>| -> BTreeSet<_> {
            all.into_iter().flatten().map(|path| located_path(&path.value, places)).collect()
        };
        Sandbox::On(Confinement {
            read: paths(read),
            write: paths(write),
            has_network: network.is_none_or(|network| network.value),
            has_unix_sockets: unix_sockets.is_some_and(|sockets| sockets.value),
        })
    }
}

impl FromNode for RawSandbox {
    const SECTION: Option<&'static Section> = RawSandboxObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.value.as_string_lit().is_some() {
            return reader.string(node).map(Self::Word);
        }
        RawSandboxObject::from_node(node, reader).map(|object| Self::Object(Box::new(object)))
    }
}

impl JsonSchema for RawSandbox {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SandboxSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawSandboxObject>();
        json_schema!({ "anyOf": [{ "enum": WORDS }, object] })
    }
}
