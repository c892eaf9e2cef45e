//! The raw shape of a server entry, with the keys that other clients use.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::sections::client_keys::ClientKeys;
use crate::config::sections::environment::read_env_vars;
use crate::config::sections::limits::{RawCache, RawRateLimits};
use crate::config::sections::oauth::RawOAuth;
use crate::config::sections::ranges;
use crate::config::sections::root::category::RawOverride;
use crate::config::sections::sandbox::{RawContainer, RawSandbox};
use crate::config::sections::secret_ref::{TextOrSecretRef, read_text_or_ref_map};
use crate::config::syntax::document::Node;
use crate::config::syntax::objects::LocatedMap;
use crate::config::syntax::reader::{ConfigReader, Located, ObjectFields};
use crate::config::syntax::section::{ConfigSection, FromNode, SectionSpec, keys};
use crate::settings::defaults;

keys! {
    /// One MCP server: a child process that speaks on its standard input and output, or one that is
    /// reached over HTTP.
    ///
    /// Keys of other clients are understood where they mean something here, and else ignored with a
    /// warning.
    #[schemars(rename = "Server")]
    pub struct RawServer in "a server, under `mcpServers`" {
        /// The program: a name to find on `PATH`, or a path. A list is the program and its first
        /// arguments.
        #[schemars(with = "Option<CommandShape>")]
        #[schemars(extend("examples" = ["npx", "uvx", "./server.sh"]))]
        "command" as pub command: Located<Vec<String>> => command,

        /// The arguments of the program.
        #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-filesystem", "."]]))]
        "args" as pub args: Vec<Located<String>>,

        /// Environment variables set for the server.
        #[schemars(with = "Option<LocatedMap<TextOrSecretRef>>")]
        #[schemars(extend("examples" = [{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}]))]
        "env" as pub env: LocatedMap<String>
            => |node: &Node<'_>, reader| Some(read_env_vars(node, reader)),

        /// The folder the server starts in; the folder of this file by default.
        "cwd" as pub cwd: Located<String>,

        /// The address of a server that is reached over HTTP, instead of a `command`.
        #[schemars(extend("examples" = ["https://example.com/mcp"]))]
        "url" as pub url: Located<String>,

        /// The headers of every request to a server at a `url`.
        #[schemars(with = "Option<LocatedMap<TextOrSecretRef>>")]
        #[schemars(extend("examples" = [{"Authorization": "Bearer ${TOKEN}"}]))]
        "headers" as pub headers: LocatedMap<Located<String>>
            => |node: &Node<'_>, reader| Some(read_text_or_ref_map(node, reader)),

        /// How one signs in at a server at a `url`, as far as it cannot say that itself; `false`: not at all. With a header
        /// `Authorization` nobody signs in.
        everybodys "oauth" as pub oauth: RawOAuth,

        /// Which tools the toolbox shows: exact names, globs such as `read_*`, and `!` before a
        /// glob to leave tools out. Only `!` globs mean all but those; an empty list means all.
        #[schemars(extend("examples" = [["read_*", "!write_*"]]))]
        rule "toolFilters" as pub tool_filters: Vec<Located<String>>,

        /// Which resources and resource templates agents have: addresses, names, globs such as
        /// `file:///docs/*`, and `!` before a glob to leave some out, also under other spellings of
        /// their addresses. Only `!` globs mean all but those; an empty list means all.
        #[schemars(extend("examples" = [["file:///docs/*", "!*.env"]]))]
        rule "resourceFilters" as pub resource_filters: Vec<Located<String>>,

        /// Which prompts agents have: names, globs, and `!` before a glob to leave some out. Only `!`
        /// globs mean all but those; an empty list means all.
        #[schemars(extend("examples" = [["review_*", "!review_secret"]]))]
        rule "promptFilters" as pub prompt_filters: Vec<Located<String>>,

        /// Changes to single tools, by the server's names for them.
        "overrides" as pub overrides: LocatedMap<RawOverride>,

        /// How the server is reached: `stdio` with a `command`; with a `url` `http` or
        /// `streamable-http`, or `sse` for the transport before that. Need not be said.
        #[schemars(extend("enum" = ["stdio", "http", "streamable-http", "sse", null]))]
        "transport" as pub transport: Located<String>,

        /// The purpose of the server. Describes the toolbox of a server in the top-level
        /// `mcpServers`.
        "description" as pub description: Located<String>,

        /// The prefix of a server's tools, resources and prompts in `activate` mode, with a `_`
        /// between, if it stands in the top-level `mcpServers`; none if this is empty. Its name by
        /// default.
        "namespace" as pub namespace: Located<String>,

        /// Shows a server in the top-level `mcpServers` as a whole too, where `categories` divide it.
        #[schemars(extend("default" = false))]
        "showServer" as pub show_server: Located<bool>,

        /// Leaves the server out.
        #[schemars(extend("default" = false))]
        "disabled" as pub disabled: Located<bool>,

        /// How long the server may take from its start to its tool list, in milliseconds.
        #[schemars(extend("default" = defaults::STARTUP_TIMEOUT_MS))]
        "startupTimeoutMs" as pub startup_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// How long a call may go without an answer or progress, in milliseconds.
        #[schemars(extend("default" = defaults::CALL_TIMEOUT_MS))]
        "callTimeoutMs" as pub call_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// How long a call may take in all, however much progress it makes, in milliseconds.
        #[schemars(extend("default" = defaults::TOTAL_CALL_TIMEOUT_MS))]
        "totalCallTimeoutMs" as pub total_call_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// How long the server may be unused before it is stopped, in milliseconds; 0 means never.
        #[schemars(extend("default" = 0))]
        "idleTimeoutMs" as pub idle_timeout_ms: Located<u64> [(0, ranges::MAX_TIMEOUT_MS)],

        /// Gives the server every environment variable of the workbench, not only the few that
        /// programs need to run.
        #[schemars(extend("default" = false))]
        "inheritEnv" as pub inherit_env: Located<bool>,

        /// The reach of the server's process: `off`, all that the user may reach; `workspace`, its own
        /// program, the `cwd` that its entry names, and what its arguments name; or an object, which is `workspace`
        /// and what it says. On Linux alone; elsewhere a server with a sandbox does not start.
        "sandbox" as pub sandbox: RawSandbox,

        /// The container that the server runs in, by Docker or Podman: the image, in which the `command`
        /// is run, or an object. In place of a `sandbox`.
        #[schemars(extend("examples" = ["node:22-slim"]))]
        "container" as pub container: RawContainer,

        /// Lets entries that start the same program in the same way share one process.
        #[schemars(extend("default" = true))]
        "shared" as pub shared: Located<bool>,

        /// Starts the server before anybody asks for it. It is not stopped when idle, and started
        /// again when it has died.
        #[schemars(extend("default" = false))]
        "eager" as pub eager: Located<bool>,

        /// Who shares a connection to the server: `shared`, all agents, until it asks one of them
        /// something; `session`, nobody, so that each session has a process of its own.
        #[schemars(extend("enum" = ["shared", "session", null], "default" = "shared"))]
        "isolation" as pub isolation: Located<String>,

        /// The fate of definitions that are not as `workbench.lock` has them, in place of what
        /// holds for all servers: `off`, `warn`, `quarantine` or `deny`.
        #[schemars(extend("enum" = ["off", "warn", "quarantine", "deny", null]))]
        rule "definitions" as pub definitions: Located<String>,

        /// Which revisions of MCP the server is spoken to in: `legacy` (2024-11-05 to 2025-11-25),
        /// `modern` (2026-07-28), or `auto` to find out.
        #[schemars(extend("enum" = ["auto", "legacy", "modern", null], "default" = "auto"))]
        "protocol" as pub protocol: Located<String>,

        /// Tells the server the agent's roots when it asks. Some servers let an agent touch what
        /// its roots name, whatever their arguments say.
        #[schemars(extend("default" = false))]
        "roots" as pub roots: Located<bool>,

        /// How much may be asked of this server, by all agents together, in place of `perServer` in
        /// the top-level `limits`.
        "limits" as pub limits: RawRateLimits,

        /// How long answers of this server's tools hold that only read, in place of the top-level
        /// `cache`; with `maxBytes`, it has a cache of its own.
        "cache" as pub cache: RawCache,
    }
    beside {
        /// The keys of other clients.
        client_keys: ClientKeys,
    }
}

struct CommandShape;

impl RawServer {
    /// Returns `true` if the entry is disabled, by `disabled` or another client's `enabled`.
    pub fn is_disabled(&self) -> bool {
        let (disabled, enabled) = (&self.disabled, &self.client_keys.enabled);
        disabled.as_ref().is_some_and(|disabled| disabled.value)
            || enabled.as_ref().is_some_and(|enabled| !enabled.value)
    }

    /// Reads a server entry. In a disabled entry, variables needn't be set.
    pub fn read_entry(fields: &mut ObjectFields<'_>, reader: &mut ConfigReader<'_>) -> Self {
        let says = |key: &str, flag: bool| {
            let value = fields.peek(key).and_then(|node| node.value.as_boolean_lit());
            value.is_some_and(|literal| literal.value == flag)
        };
        let is_off = says("disabled", true) || says("enabled", false);
        reader.with_disabled(is_off, |reader| {
            let mut raw = Self::read_keys(fields, reader);
            raw.client_keys = ClientKeys::read(fields, reader, raw.call_timeout_ms.as_ref());
            raw
        })
    }
}

/// Unknown keys are only warned about, because the entry may be copied from any client. A value
/// that isn't an object becomes an empty entry, so that the error disables only this server.
impl FromNode for RawServer {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let Some(mut fields) = reader.read_fields(node) else { return Some(Self::default()) };
        Some(Self::read_entry(&mut fields, reader))
    }
}

fn command(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Located<Vec<String>>> {
    let value = if let Value::Array(_) = node.value {
        let words = reader.read_strings(node)?;
        words.into_iter().map(|word| word.value).collect()
    } else {
        vec![reader.read_string(node)?.value]
    };
    Some(Located { value, location: node.location.clone() })
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
