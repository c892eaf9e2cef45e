//! One server's block, as any client writes it: its keys, and how they are read.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::keys::bounds::{RawCache, RawRates};
use crate::config::keys::environment::environment;
use crate::config::keys::foreign::Foreign;
use crate::config::keys::limits;
use crate::config::keys::raw::category::RawOverride;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{Entries, entries, named, named_texts, object};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// One MCP server: a child process that speaks on its standard input and output, or one that is
/// reached over HTTP.
///
/// Keys of other clients are understood where they mean something here, and else ignored with a
/// warning.
#[derive(Default, JsonSchema)]
#[schemars(rename_all = "camelCase", rename = "Server")]
pub struct RawServer {
    /// The program: a name to find on `PATH`, or a path. A list is the program and its first
    /// arguments.
    #[schemars(with = "Option<CommandShape>")]
    #[schemars(extend("examples" = ["npx", "uvx", "./server.sh"]))]
    pub command: Option<Located<Vec<String>>>,

    /// The arguments of the program.
    #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-filesystem", "."]]))]
    pub args: Option<Vec<Located<String>>>,

    /// Environment variables set for the server.
    #[schemars(extend("examples" = [{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}]))]
    pub env: Option<Entries<String>>,

    /// The folder the server starts in; the folder of this file by default.
    pub cwd: Option<Located<String>>,

    /// The address of a server that is reached over HTTP, instead of a `command`.
    #[schemars(extend("examples" = ["https://example.com/mcp"]))]
    pub url: Option<Located<String>>,

    /// What a server at a `url` is told with every request.
    #[schemars(extend("examples" = [{"Authorization": "Bearer ${TOKEN}"}]))]
    pub headers: Option<Entries<Located<String>>>,

    /// Which tools the toolbox shows: exact names, globs such as `read_*`, and `!` before a glob
    /// to leave tools out. Only `!` globs mean all but those; an empty list means all.
    #[schemars(extend("examples" = [["read_*", "!write_*"]]))]
    pub tool_filters: Option<Vec<Located<String>>>,

    /// What is to be different about single tools, by the server's names for them.
    pub overrides: Option<Entries<RawOverride>>,

    /// How the server is reached: `stdio` with a `command`, `http` or `streamable-http` with a
    /// `url`. Need not be said.
    #[schemars(extend("enum" = ["stdio", "http", "streamable-http", null]))]
    pub transport: Option<Located<String>>,

    /// What the server is for. Describes the toolbox of a server in the top-level `mcpServers`.
    pub description: Option<Located<String>>,

    /// What goes before the names of a server in the top-level `mcpServers` in `activate` mode,
    /// with a `_` between; nothing if it is empty. Its name by default.
    pub namespace: Option<Located<String>>,

    /// Whether a server in the top-level `mcpServers` that `categories` divide is shown as a whole
    /// too.
    #[schemars(extend("default" = false))]
    pub show_server: Option<Located<bool>>,

    /// Leaves the server out.
    #[schemars(extend("default" = false))]
    pub disabled: Option<Located<bool>>,

    /// How long the server may take from its start to its tool list, in milliseconds.
    #[schemars(range(min = 1, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_STARTUP_TIMEOUT_MS))]
    pub startup_timeout_ms: Option<Located<u64>>,

    /// How long a call may go without an answer or progress, in milliseconds.
    #[schemars(range(min = 1, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_CALL_TIMEOUT_MS))]
    pub call_timeout_ms: Option<Located<u64>>,

    /// How long the server may be unused before it is stopped, in milliseconds; 0 means never.
    #[schemars(range(min = 0, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = 0))]
    pub idle_timeout_ms: Option<Located<u64>>,

    /// Whether the server gets every environment variable of the workbench, not only the few that
    /// programs need to run.
    #[schemars(extend("default" = false))]
    pub inherit_env: Option<Located<bool>>,

    /// Whether entries that start the same program in the same way share one process.
    #[schemars(extend("default" = true))]
    pub shared: Option<Located<bool>>,

    /// Whether the server is started before anybody asks for it. It is not stopped when idle, and
    /// started again when it has died.
    #[schemars(extend("default" = false))]
    pub eager: Option<Located<bool>>,

    /// Who shares a connection to the server: `shared`, all agents, until it asks one of them
    /// something; `session`, nobody, so that each session has a process of its own.
    #[schemars(extend("enum" = ["shared", "session", null], "default" = "shared"))]
    pub isolation: Option<Located<String>>,

    /// Which revisions of MCP the server is spoken to in: `legacy` (2024-11-05 to 2025-11-25),
    /// `modern` (2026-07-28), or `auto` to find out.
    #[schemars(extend("enum" = ["auto", "legacy", "modern", null], "default" = "auto"))]
    pub protocol: Option<Located<String>>,

    /// Whether the server is told the agent's roots when it asks. Some servers let an agent touch
    /// what its roots name, whatever their arguments say.
    #[schemars(extend("default" = false))]
    pub roots: Option<Located<bool>>,

    /// How much may be asked of this server, by all agents together, in place of `perServer` in the
    /// top-level `limits`.
    pub limits: Option<RawRates>,

    /// How long answers of this server's tools hold that only read, in place of the top-level
    /// `cache`; with `maxBytes`, it has a cache of its own.
    pub cache: Option<RawCache>,

    /// What other clients write beside.
    #[schemars(skip)]
    pub foreign: Foreign,
}

/// How `command` may be written, for the schema.
struct CommandShape;

impl RawServer {
    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        let (disabled, enabled) = (&self.disabled, &self.foreign.enabled);
        disabled.as_ref().is_some_and(|disabled| disabled.value)
            || enabled.as_ref().is_some_and(|enabled| !enabled.value)
    }

    /// Reads one server block; in one that is switched off, variables need not be set.
    pub fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let disabled = fields.take("disabled").and_then(|node| reader.boolean(&node));
        let enabled = fields
            .take_all(|key| key == "enabled")
            .pop()
            .and_then(|entry| reader.boolean(&entry.node));
        let off = disabled.as_ref().is_some_and(|disabled| disabled.value)
            || enabled.as_ref().is_some_and(|enabled| !enabled.value);
        let call_timeout_ms = fields.take("callTimeoutMs").and_then(|node| reader.number(&node));
        reader.switched(off, |reader| Self {
            command: fields.take("command").and_then(|node| command(&node, reader)),
            args: fields.take("args").and_then(|node| reader.strings(&node)),
            env: fields.take("env").map(|node| environment(&node, reader)),
            cwd: fields.take("cwd").and_then(|node| reader.string(&node)),
            url: fields.take("url").and_then(|node| reader.string(&node)),
            headers: fields.take("headers").map(|node| named_texts(&node, reader)),
            tool_filters: fields.take("toolFilters").and_then(|node| reader.strings(&node)),
            overrides: fields.take("overrides").map(|node| named(&node, reader, RawOverride::read)),
            transport: fields.take("transport").and_then(|node| reader.string(&node)),
            description: fields.take("description").and_then(|node| reader.string(&node)),
            namespace: fields.take("namespace").and_then(|node| reader.string(&node)),
            show_server: fields.take("showServer").and_then(|node| reader.boolean(&node)),
            disabled,
            startup_timeout_ms: fields
                .take("startupTimeoutMs")
                .and_then(|node| reader.number(&node)),
            idle_timeout_ms: fields.take("idleTimeoutMs").and_then(|node| reader.number(&node)),
            inherit_env: fields.take("inheritEnv").and_then(|node| reader.boolean(&node)),
            shared: fields.take("shared").and_then(|node| reader.boolean(&node)),
            eager: fields.take("eager").and_then(|node| reader.boolean(&node)),
            isolation: fields.take("isolation").and_then(|node| reader.string(&node)),
            protocol: fields.take("protocol").and_then(|node| reader.string(&node)),
            roots: fields.take("roots").and_then(|node| reader.boolean(&node)),
            limits: fields.take("limits").and_then(|node| object(&node, reader, RawRates::read)),
            cache: fields.take("cache").and_then(|node| object(&node, reader, RawCache::read)),
            foreign: Foreign::read(fields, reader, enabled, call_timeout_ms.as_ref()),
            call_timeout_ms,
        })
    }
}

/// Reads the object of servers under `mcpServers`; what it does not know is not its business. An
/// entry that is no object is a server of which nothing is said.
pub(crate) fn servers(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<RawServer> {
    entries(node, reader, |entry, reader| {
        let Some(mut fields) = reader.fields(&entry.node) else {
            return Some(RawServer::default());
        };
        Some(RawServer::read(&mut fields, reader))
    })
}

fn command(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<Vec<String>>> {
    let value = if let Value::Array(_) = node.value {
        let words = reader.strings(node)?;
        words.into_iter().map(|word| word.value).collect()
    } else {
        vec![reader.string(node)?.value]
    };
    Some(Located { value, spot: node.spot.clone() })
}

impl JsonSchema for CommandShape {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}
