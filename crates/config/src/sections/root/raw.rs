//! The raw shape of a server entry, with the keys that other clients use.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::sections::client_keys::ClientKeys;
use crate::sections::environment::read_env_vars;
use crate::sections::exchange::RawExchange;
use crate::sections::limits::{RawRateLimits, RawResultCache};
use crate::sections::oauth::RawOAuth;
use crate::sections::pasted_command;
use crate::sections::ranges;
use crate::sections::root::category::RawOverride;
use crate::sections::sandbox::{RawContainer, RawSandbox};
use crate::sections::secret_ref::{TextOrSecretRef, read_text_or_ref_map};
use crate::syntax::document::Node;
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, ObjectFields};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, keys};
use mcp_workbench_settings::defaults;

keys! {
    /// An MCP server: a child process (stdio) or a remote server over HTTP.
    ///
    /// Keys of other clients are converted if they have an equivalent, and otherwise ignored with a
    /// warning.
    #[schemars(rename = "Server")]
    pub struct RawServer in "a server, under `mcpServers`" {
        /// Program to run: a name on `PATH`, or a path. A list holds the program and its first
        /// arguments.
        #[schemars(with = "Option<CommandShape>")]
        #[schemars(extend("examples" = ["npx", "uvx", "./server.sh"]))]
        "command" as pub command: Located<Vec<String>> => command,

        /// Arguments of the program.
        #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-filesystem", "."]]))]
        "args" as pub args: Vec<Located<String>>,

        /// Environment variables for the server, in addition to a few standard ones.
        #[schemars(with = "Option<LocatedMap<TextOrSecretRef>>")]
        #[schemars(extend("examples" = [{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}]))]
        "env" as pub env: LocatedMap<String>
            => |node: &Node<'_>, reader| Some(read_env_vars(node, reader)),

        /// Working folder of the server. Default: the folder of this file.
        "cwd" as pub cwd: Located<String>,

        /// URL of a remote server. Replaces `command`.
        #[schemars(extend("examples" = ["https://example.com/mcp"]))]
        "url" as pub url: Located<String>,

        /// HTTP headers for every request to `url`.
        #[schemars(with = "Option<LocatedMap<TextOrSecretRef>>")]
        #[schemars(extend("examples" = [{"Authorization": "Bearer ${TOKEN}"}]))]
        "headers" as pub headers: LocatedMap<Located<String>>
            => |node: &Node<'_>, reader| Some(read_text_or_ref_map(node, reader)),

        /// Sign-in settings that the server at `url` cannot announce itself. `false` turns sign-in
        /// off, as does an `Authorization` header.
        everybodys "oauth" as pub oauth: RawOAuth,

        /// Sends the server a token of the caller, exchanged for the caller's JWT (RFC 8693).
        /// Replaces `oauth`. Works only over HTTP with `auth.jwt`.
        everybodys "auth" as pub auth: Located<RawExchange>,

        /// Tools to show: names, globs such as `read_*`, and `!` before a glob to exclude tools.
        /// With only `!` globs, all other tools are shown; an empty list shows all.
        #[schemars(extend("examples" = [["read_*", "!write_*"]]))]
        rule "toolFilters" as pub tool_filters: Vec<Located<String>>,

        /// Resources and resource templates to show: URIs, names, globs such as `file:///docs/*`,
        /// and `!` before a glob to exclude some, even under another spelling of the URI. With only
        /// `!` globs, all others are shown; an empty list shows all.
        #[schemars(extend("examples" = [["file:///docs/*", "!*.env"]]))]
        rule "resourceFilters" as pub resource_filters: Vec<Located<String>>,

        /// Prompts to show: names, globs, and `!` before a glob to exclude some. With only `!`
        /// globs, all others are shown; an empty list shows all.
        #[schemars(extend("examples" = [["review_*", "!review_secret"]]))]
        rule "promptFilters" as pub prompt_filters: Vec<Located<String>>,

        /// Methods of protocol extensions that agents may call: names, globs such as `acme/*`, and
        /// `!` before a glob to exclude some. Rules, limits and the audit log treat a method like a
        /// tool of that name. None by default.
        #[schemars(extend("examples" = [["skills/list", "skills/get"]]))]
        rule "extensionMethods" as pub extension_methods: Vec<Located<String>>,

        /// Changes to single tools, by the server's own names for them.
        "overrides" as pub overrides: LocatedMap<RawOverride>,

        /// `stdio` for a `command`; `http`, `streamable-http` or `sse` (the older HTTP+SSE
        /// transport) for a `url`. Detected by default.
        #[schemars(extend("enum" = ["stdio", "http", "streamable-http", "sse", null]))]
        "transport" as pub transport: Located<String>,

        /// What the server is for. Describes its toolbox if the server is in the top-level
        /// `mcpServers`.
        "description" as pub description: Located<String>,

        /// For a server in the top-level `mcpServers`: prefix of its tools, resources and prompts
        /// in `activate` mode, joined with `_`; empty for no prefix. Default: the name of the
        /// server.
        "namespace" as pub namespace: Located<String>,

        /// Also shows the whole server as a toolbox if `categories` divide it. Only in the
        /// top-level `mcpServers`.
        #[schemars(extend("default" = false))]
        "showServer" as pub show_server: Located<bool>,

        /// Leaves the server out.
        #[schemars(extend("default" = false))]
        "disabled" as pub disabled: Located<bool>,

        /// Timeout from the start of the server until it has listed its tools, in milliseconds.
        #[schemars(extend("default" = defaults::STARTUP_TIMEOUT_MS))]
        "startupTimeoutMs" as pub startup_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// Timeout of a call without a result or progress notification, in milliseconds.
        #[schemars(extend("default" = defaults::CALL_TIMEOUT_MS))]
        "callTimeoutMs" as pub call_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// Timeout of a call regardless of progress, in milliseconds.
        #[schemars(extend("default" = defaults::TOTAL_CALL_TIMEOUT_MS))]
        "totalCallTimeoutMs" as pub total_call_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// Idle time after which the server is stopped, in milliseconds. 0 means never.
        #[schemars(extend("default" = 0))]
        "idleTimeoutMs" as pub idle_timeout_ms: Located<u64> [(0, ranges::MAX_TIMEOUT_MS)],

        /// Passes all environment variables of the workbench to the server, except those that hold
        /// agents' tokens.
        #[schemars(extend("default" = false))]
        "inheritEnv" as pub inherit_env: Located<bool>,

        /// What the server's process can access: `off` (everything), `workspace` (its program, its
        /// configured `cwd` and the paths in its arguments), or an object that extends `workspace`.
        /// Linux only; on other systems, a server with a sandbox does not start. Overrides the
        /// top-level `sandbox`.
        "sandbox" as pub sandbox: RawSandbox,

        /// Docker or Podman container to run the `command` in: an image, or an object. Replaces
        /// `sandbox`.
        #[schemars(extend("examples" = ["node:22-slim"]))]
        "container" as pub container: RawContainer,

        /// Starts a server of `npx` or `uvx` from the package manager's cache if it is there, and so
        /// faster and without their process. Unless the command names a version, the workbench has
        /// the package manager look for a newer one once a day. `false` always runs the command as
        /// written.
        #[schemars(extend("default" = true))]
        "direct" as pub direct: Located<bool>,

        /// Lets entries with identical launch settings share one process.
        #[schemars(extend("default" = true))]
        "shareProcess" as pub share_process: Located<bool>,

        /// Starts the server with the workbench instead of on first use, and restarts it when it
        /// exits. It is not stopped when idle.
        #[schemars(extend("default" = false))]
        "eager" as pub eager: Located<bool>,

        /// `shared`: all agents share one process, and sessions get their own only if the server
        /// asks them for input. `session`: each session has its own process.
        #[schemars(extend("enum" = ["shared", "session", null], "default" = "shared"))]
        "isolation" as pub isolation: Located<String>,

        /// What to do with this server's definitions that differ from `workbench.lock`: `off`,
        /// `warn`, `quarantine` or `deny`. Overrides the top-level `onDefinitionChange`.
        #[schemars(extend("enum" = ["off", "warn", "quarantine", "deny", null]))]
        rule "onDefinitionChange" as pub on_definition_change: Located<String>,

        /// MCP versions to use: `legacy` (2024-11-05 to 2025-11-25), `modern` (2026-07-28), one
        /// version such as `2025-06-18`, or `auto` to negotiate.
        #[schemars(extend("enum" = ["auto", "legacy", "modern", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", null], "default" = "auto"))]
        "protocol" as pub protocol: Located<String>,

        /// Sends the agent's roots to the server on request. Some servers let an agent access
        /// everything in its roots, regardless of their arguments.
        #[schemars(extend("default" = false))]
        "roots" as pub roots: Located<bool>,

        /// Limits on calls to this server, for all agents together. Overrides `limits.perServer`.
        "limits" as pub limits: RawRateLimits,

        /// How long to cache results of this server's read-only tools. Overrides the top-level
        /// `resultCache`; with `maxBytes`, the server has its own cache.
        "resultCache" as pub result_cache: RawResultCache,
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
            pasted_command::normalize(raw.command.as_mut(), &mut raw.args, reader);
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
