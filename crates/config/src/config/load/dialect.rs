//! How the program that a file is written for is recognized, and how its file is read.

use std::path::Path;

use jsonc_parser::ast::ObjectProp;

use crate::config::dialect::{Dialect, is_toml};
use crate::config::env::EnvSource;
use crate::config::keys::misplaced;
use crate::config::keys::raw::RawConfig;
use crate::config::load::{catalog, foreign_file, toolman, toolman_server};
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::reader::Reader;
use crate::config::syntax::section::{Described, FromNode};

impl Dialect {
    /// Recognizes the program by what is at the top of its file. `file` is its name.
    ///
    /// A file that ends in `.toml` is Toolman's. One that has `servers` and rules in `snake_case` is
    /// the Toolman server's, with whatever keys of ours beside them. A file with any other key of
    /// ours at the top that others do not have is ours, and so is one whose `$schema` is. Modular MCP's have
    /// its `$schema`, or `categories`, or are called `modular-mcp.json`, or have the shape of one
    /// ([`is_shaped_as_modular`]); any other file with servers is a client's, whatever else is in it.
    pub fn of(file: &Path, root: &Node<'_>) -> Self {
        if is_toml(file) {
            return Self::Toolman;
        }
        let has = |key: &str| root.get(key).is_some();
        if toolman_server::is_one(root) {
            return Self::ToolmanServer;
        }
        if RawConfig::DESCRIPTION.keys.iter().any(|key| key.marks(root)) {
            return Self::Native;
        }
        let schema = root.get("$schema");
        let schema = schema.as_ref().and_then(|node| node.value.as_string_lit());
        let schema = schema.map_or("", |text| &*text.value);
        let is_called = file.file_name().is_some_and(|name| name == "modular-mcp.json");
        if schema.contains("workbench-config") {
            Self::Native
        } else if schema.contains("modular-mcp")
            || has("categories")
            || is_called
            || is_shaped_as_modular(root)
        {
            Self::Modular
        } else if foreign_file::is_one(root, RawConfig::DESCRIPTION) {
            Self::Client
        } else {
            Self::Native
        }
    }

    /// Returns what reads such a file, with variables from `env` if they are to be expanded.
    pub fn reader(self, env: Option<&dyn EnvSource>) -> Reader<'_> {
        let reader = match self {
            Self::Native | Self::Client => Reader::new(env),
            Self::Toolman => Reader::of_toml(),
            Self::Catalog => Reader::of_catalog(env),
            Self::Modular => Reader::of_modular(env),
            Self::ToolmanServer => Reader::lenient(env),
        };
        reader.hinting(misplaced::belongs_elsewhere)
    }

    /// Says so where nothing but its shape makes a file one of Modular MCP: its user may have meant
    /// otherwise.
    pub(crate) fn note_shape(self, file: &Path, root: &Node<'_>, reader: &mut Reader<'_>) {
        let is_called = file.file_name().is_some_and(|name| name == "modular-mcp.json");
        if self != Self::Modular || is_called || !is_shaped_as_modular(root) {
            return;
        }
        let message = "taken for a file of Modular MCP, as every server has a `description`: it is \
                       served in `modular` mode";
        let hint = "write `\"toolMode\": \"dynamic\"` above it for toolboxes that are opened, or \
                    `\"toolMode\": \"modular\"` if it is as it should be";
        reader.warn(&root.spot, message, Some(hint.to_owned()));
    }

    /// Returns whether what stands somewhere in such a file is read.
    pub(crate) fn concerns(self, root: &Node<'_>, spot: &Spot) -> bool {
        self != Self::Client || foreign_file::concerns(root, spot)
    }

    /// Reads the keys of such a file; `env` is what a shell would know.
    pub fn read(
        self,
        root: &Node<'_>,
        env: Option<&dyn EnvSource>,
        reader: &mut Reader<'_>,
    ) -> Option<RawConfig> {
        match self {
            Self::Native | Self::Modular => RawConfig::from_node(root, reader),
            Self::Client => foreign_file::read(root, reader),
            Self::Toolman => toolman::read(root, env, reader),
            Self::Catalog => catalog::read(root, reader),
            Self::ToolmanServer => toolman_server::read(root, reader),
        }
    }
}

/// Returns true if a file without any mark of its program is Modular MCP's: it has `mcpServers` and nothing
/// besides, and each of these has a `description`, which no client asks for, and only keys that
/// Modular MCP knows.
///
/// A client's file in which some servers are described, or that has a key of ours in a server, is
/// not one.
fn is_shaped_as_modular(root: &Node<'_>) -> bool {
    const KEYS: [&str; 7] = ["description", "type", "command", "args", "env", "url", "headers"];
    let alone = root.value.as_object().is_some_and(|object| object.properties.len() == 1);
    let servers = root.get("mcpServers").filter(|_| alone);
    let servers = servers.as_ref().and_then(|servers| servers.value.as_object());
    let is_theirs = |server: &ObjectProp<'_>| {
        let Some(server) = server.value.as_object() else { return false };
        let is_said = |key: &ObjectProp<'_>| {
            let text = key.value.as_string_lit().filter(|_| key.name.as_str() == "description");
            text.is_some_and(|text| !text.value.trim().is_empty())
        };
        server.properties.iter().any(is_said)
            && server.properties.iter().all(|key| KEYS.contains(&key.name.as_str()))
    };
    servers.is_some_and(|servers| {
        !servers.properties.is_empty() && servers.properties.iter().all(is_theirs)
    })
}
