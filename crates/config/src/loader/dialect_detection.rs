//! Detects a file's dialect and dispatches to its parser.

use std::path::Path;

use jsonc_parser::ast::ObjectProp;

use crate::dialect::{Dialect, is_toml};
use crate::env::EnvSource;
use crate::loader::{catalog, client_file, toolman, toolman_server};
use crate::sections::key_hints;
use crate::sections::root::RawConfig;
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::reader::ConfigReader;
use crate::syntax::renamed::renamed;
use crate::syntax::section::{ConfigSection, FromNode};

impl Dialect {
    /// Detects the dialect from the file name and the keys at the top level.
    ///
    /// - Toolman: the file has the extension `.toml`.
    /// - Toolman server: it has `servers` and one of that program's policy keys.
    /// - Native: it has any other native top-level key, or the old name of one, or its `$schema` is
    ///   the native one.
    /// - Modular MCP: it has that program's `$schema`, `categories`, the name `modular-mcp.json`,
    ///   or the shape of such a file ([`is_shaped_as_modular`]).
    /// - Client: it has servers at a known key path. Its other keys are ignored.
    pub fn detect(file: &Path, root: &Node<'_>) -> Self {
        if is_toml(file) {
            return Self::Toolman;
        }
        let has = |key: &str| root.get(key).is_some();
        if toolman_server::is_toolman_server_file(root) {
            return Self::ToolmanServer;
        }
        if RawConfig::SPEC.keys.iter().any(|key| key.identifies_native(root))
            || has_renamed_key(root)
        {
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
        } else if client_file::is_client_file(root, RawConfig::SPEC) {
            Self::Client
        } else {
            Self::Native
        }
    }

    /// Returns a reader for such files. Variables are expanded only if `env` is given.
    pub fn reader(self, env: Option<&dyn EnvSource>) -> ConfigReader<'_> {
        let reader = match self {
            Self::Native | Self::Client => ConfigReader::new(env),
            Self::Toolman => ConfigReader::for_toml(),
            Self::Catalog => ConfigReader::for_catalog(env),
            Self::Modular => ConfigReader::for_modular(env),
            Self::ToolmanServer => ConfigReader::new_lenient(env),
        };
        reader.with_key_hint(key_hints::misplaced_key_hint)
    }

    /// Warns if the file counts as Modular MCP's only because of its shape, which may be a wrong
    /// guess.
    pub(crate) fn warn_if_guessed(
        self,
        file: &Path,
        root: &Node<'_>,
        reader: &mut ConfigReader<'_>,
    ) {
        let is_called = file.file_name().is_some_and(|name| name == "modular-mcp.json");
        if self != Self::Modular || is_called || !is_shaped_as_modular(root) {
            return;
        }
        let message = "read as a Modular MCP file, because every server has a `description`: \
                       using mode `modular`";
        let hint = "add `\"toolMode\": \"auto\"` to use toolboxes, or `\"toolMode\": \"modular\"` \
                    to keep this mode without the warning";
        reader.report_warning(&root.location, message, Some(hint.to_owned()));
    }

    /// Returns `true` if the value at this location is read in such a file.
    pub(crate) fn is_relevant(self, root: &Node<'_>, location: &SourceLocation) -> bool {
        self != Self::Client || client_file::is_in_servers(root, location)
    }

    /// Reads the file's keys. `env` expands shell variables in Toolman's command lines.
    pub fn read(
        self,
        root: &Node<'_>,
        env: Option<&dyn EnvSource>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<RawConfig> {
        match self {
            Self::Native | Self::Modular => RawConfig::from_node(root, reader),
            Self::Client => client_file::read(root, reader),
            Self::Toolman => toolman::read(root, env, reader),
            Self::Catalog => catalog::read(root, reader),
            Self::ToolmanServer => toolman_server::read(root, env, reader),
        }
    }
}

/// Returns `true` if a top-level key is the old name of a native key. The file is then rejected
/// instead of read without that setting.
fn has_renamed_key(root: &Node<'_>) -> bool {
    let entries = root.value.as_object().into_iter().flat_map(|object| &object.properties);
    let mut names = entries.flat_map(|entry| renamed(entry.name.as_str()));
    names.any(|new| RawConfig::SPEC.key(new).is_some())
}

/// Returns `true` if an unmarked file has the shape of a Modular MCP file: only `mcpServers`, each
/// server with a `description`, which clients don't use, and no keys unknown to Modular MCP.
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
