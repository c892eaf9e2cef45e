//! Reads a server entry of any client. Keys that only an import understands are merged into the
//! native fields.

use crate::authoring::client_files::TimeoutUnit;
use crate::authoring::import::nodes::is_object;
use mcp_workbench_config::sections::environment::read_env_vars;
use mcp_workbench_config::sections::oauth::RawOAuth;
use mcp_workbench_config::sections::pasted_command;
use mcp_workbench_config::sections::ranges;
use mcp_workbench_config::sections::root::RawServer;
use mcp_workbench_config::syntax::document::{Node, SourceLocation};
use mcp_workbench_config::syntax::objects::LocatedMap;
use mcp_workbench_config::syntax::reader::{ConfigReader, Located, ObjectFields};
use mcp_workbench_config::syntax::section::FromNode;

/// Reads an entry. `timeout` is the unit of that key, if known.
pub(super) fn server(
    node: &Node<'_>,
    timeout: Option<TimeoutUnit>,
    reader: &mut ConfigReader<'_>,
) -> Option<RawServer> {
    // Older versions of Goose nest the entry one level deeper.
    let inner = node.get("config").filter(is_object);
    let mut fields = reader.read_fields(inner.as_ref().unwrap_or(node))?;
    let mut theirs = ImportOnlyKeys::default();
    theirs.read_from(&mut fields, timeout, reader);
    fields.take_keys_if(|key| IGNORED_KEYS.contains(&key));
    let mut raw = RawServer::read_entry(&mut fields, reader);
    if inner.is_some()
        && let Some(enabled) = node.get("enabled")
    {
        raw.client_keys.enabled = raw.client_keys.enabled.or_else(|| reader.read_bool(&enabled));
    }
    theirs.merge_into(&mut raw);
    pasted_command::normalize(raw.command.as_mut(), &mut raw.args, reader);
    Some(raw)
}

/// The finding about the approval modes of Codex, which `setup` carries over by itself.
pub(super) const APPROVALS_IGNORED: &str = "ignored: approvals are not imported";

const IGNORED_KEYS: &[&str] = &[
    "created",
    "updated",
    "name",
    "display_name",
    "bundled",
    "icon",
    "gallery",
    "id",
    "source",
    "version",
    "schema",
];

/// Values of keys that native files don't have.
#[derive(Default)]
struct ImportOnlyKeys {
    command: Option<Located<Vec<String>>>,
    args: Option<Vec<Located<String>>>,
    env: Vec<(Located<String>, String)>,
    url: Option<Located<String>>,
    headers: Vec<(Located<String>, Located<String>)>,
    only: Option<Vec<Located<String>>>,
    /// OAuth resource indicator (RFC 8707) and scopes.
    resource: Option<Located<String>>,
    scopes: Option<Vec<Located<String>>>,
    startup_timeout_ms: Option<Located<u64>>,
    call_timeout_ms: Option<Located<u64>>,
    /// The client disables the server until the user has reviewed it.
    quarantined: Option<Located<bool>>,
}

impl ImportOnlyKeys {
    fn read_from(
        &mut self,
        fields: &mut ObjectFields<'_>,
        unit: Option<TimeoutUnit>,
        reader: &mut ConfigReader<'_>,
    ) {
        let is_ours = |key: &str, node: &Node<'_>| match key {
            "command" => is_object(node),
            "tools" => is_object(node) || is_any_list(node),
            "timeout" => unit.is_some(),
            key => KEYS.contains(&key),
        };
        for entry in fields.take_entries_if(is_ours) {
            let (key, node) = (entry.key, entry.node);
            if node.is_null() {
                continue;
            }
            match key.value.as_str() {
                // Zed
                "command" => self.command_object(&node, reader),
                // Goose
                "cmd" => self.command = words(&node, reader),
                "uri" => self.url = reader.read_string(&node),
                "envs" => self.env.extend(read_env_vars(&node, reader).0),
                "env_keys" | "env_vars" => self.variables(&node, reader),
                "available_tools" => {
                    let only = reader.read_strings(&node);
                    self.only = only.filter(|only| !only.is_empty());
                }
                // Codex
                "http_headers" => self.headers.extend(texts(&node, reader)),
                "env_http_headers" => {
                    let headers = texts(&node, reader).into_iter();
                    self.headers.extend(headers.map(|(name, variable)| {
                        (name, Located { value: format!("${{{}}}", variable.value), ..variable })
                    }));
                }
                "bearer_token_env_var" => {
                    if let Some(Located { value, location: spot }) = reader.read_string(&node) {
                        self.authorization(&format!("${{{value}}}"), spot);
                    }
                }
                "oauth_resource" => self.resource = reader.read_string(&node),
                "scopes" => self.scopes = reader.read_strings(&node),
                "startup_timeout_sec" => {
                    self.startup_timeout_ms = milliseconds(&node, 1000.0, reader);
                }
                "startup_timeout_ms" | "connectionTimeout" => {
                    self.startup_timeout_ms = milliseconds(&node, 1.0, reader);
                }
                "tool_timeout_sec" => self.call_timeout_ms = milliseconds(&node, 1000.0, reader),
                // Continue
                "apiKey" | "bearer_token" => {
                    if let Some(Located { value, location: spot }) = reader.read_string(&node) {
                        self.authorization(&value, spot);
                    }
                }
                "requestOptions" => {
                    if let Some(headers) = node.get("headers").filter(is_object) {
                        self.headers.extend(texts(&headers, reader));
                    }
                }
                "timeout" => match unit {
                    Some(TimeoutUnit::CallSeconds) => {
                        self.call_timeout_ms = milliseconds(&node, 1000.0, reader);
                    }
                    Some(TimeoutUnit::CallMilliseconds) => {
                        self.call_timeout_ms = milliseconds(&node, 1.0, reader);
                    }
                    Some(TimeoutUnit::StartMilliseconds) => {
                        self.startup_timeout_ms = milliseconds(&node, 1.0, reader);
                    }
                    None => {}
                },
                "default_tools_approval_mode" | "tools" if !is_any_list(&node) => {
                    let hint = "list tools that need a confirmation in `dangerousTools`";
                    reader.report_warning(&key.location, APPROVALS_IGNORED, Some(hint.to_owned()));
                }
                // mcpproxy-go
                "quarantined" => self.quarantined = reader.read_bool(&node),
                // `tools: ["*"]`, which is the default.
                _ => {}
            }
        }
    }

    /// Reads a `command` object that holds arguments and environment too.
    fn command_object(&mut self, command: &Node<'_>, reader: &mut ConfigReader<'_>) {
        self.command = command.get("path").and_then(|path| words(&path, reader));
        self.args = command.get("args").and_then(|node| reader.read_strings(&node));
        let env = command.get("env").filter(|node| !node.is_null());
        self.env.extend(env.map(|node| read_env_vars(&node, reader)).unwrap_or_default().0);
    }

    /// Reads names of variables that are passed on from the client's environment.
    fn variables(&mut self, node: &Node<'_>, reader: &mut ConfigReader<'_>) {
        for element in node.elements() {
            let name = element.get("name").unwrap_or(element);
            if let Some(name) = reader.read_string(&name) {
                let value = format!("${{{}}}", name.value);
                self.env.push((name, value));
            }
        }
    }

    fn authorization(&mut self, token: &str, spot: SourceLocation) {
        let name = Located { value: "Authorization".to_owned(), location: spot.clone() };
        let value = if token.contains(' ') { token.to_owned() } else { format!("Bearer {token}") };
        self.headers.push((name, Located { value, location: spot }));
    }

    fn merge_into(self, raw: &mut RawServer) {
        let Self { command, args, env, url, headers, only, resource, scopes, .. } = self;
        raw.command = raw.command.take().or(command);
        raw.args = raw.args.take().or(args);
        raw.url = raw.url.take().or(url);
        if !env.is_empty() {
            let own = raw.env.get_or_insert_with(LocatedMap::default);
            let missing = env
                .into_iter()
                .filter(|(name, _)| own.0.iter().all(|(other, _)| other.value != name.value));
            let missing: Vec<_> = missing.collect();
            own.0.extend(missing);
        }
        if !headers.is_empty() {
            raw.headers.get_or_insert_with(LocatedMap::default).0.extend(headers);
        }
        if let Some(location) =
            resource.as_ref().or(scopes.iter().flatten().next()).map(|it| it.location.clone())
        {
            let new = || RawOAuth::Object(Box::default(), location);
            if let RawOAuth::Object(object, _) = raw.oauth.get_or_insert_with(new) {
                object.resource = object.resource.take().or(resource);
                object.scopes = object.scopes.take().or(scopes);
            }
        }
        raw.client_keys.include = raw.client_keys.include.take().or(only);
        raw.startup_timeout_ms = raw.startup_timeout_ms.take().or(self.startup_timeout_ms);
        raw.call_timeout_ms = raw.call_timeout_ms.take().or(self.call_timeout_ms);
        raw.disabled = self.quarantined.filter(|flag| flag.value).or(raw.disabled.take());
    }
}

/// Import-only keys that are recognized regardless of their value.
const KEYS: &[&str] = &[
    "cmd",
    "uri",
    "envs",
    "env_keys",
    "env_vars",
    "available_tools",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "bearer_token",
    "oauth_resource",
    "scopes",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "apiKey",
    "requestOptions",
    "connectionTimeout",
    "default_tools_approval_mode",
    "quarantined",
];

fn is_any_list(node: &Node<'_>) -> bool {
    let is_any = |node: &Node<'_>| node.value.as_string_lit().is_some_and(|text| text.value == "*");
    node.elements().iter().any(is_any)
}

fn texts(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> Vec<(Located<String>, Located<String>)> {
    LocatedMap::from_node(node, reader).unwrap_or_default().0
}

fn words(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Located<Vec<String>>> {
    let Located { value, location: spot } = reader.read_string(node)?;
    Some(Located { value: vec![value], location: spot })
}

/// Reads a time as milliseconds, where `unit` is the number of milliseconds per unit. Allows
/// fractions. Returns `None` unless the result is positive.
fn milliseconds(node: &Node<'_>, unit: f64, reader: &mut ConfigReader<'_>) -> Option<Located<u64>> {
    let number = reader.read_number(node)?;
    let time =
        std::time::Duration::try_from_secs_f64(number.value.as_f64()? * unit / 1000.0).ok()?;
    let value = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(ranges::MAX_TIMEOUT_MS);
    let value = Some(value).filter(|time| *time > 0)?;
    Some(Located { value, location: number.location })
}
