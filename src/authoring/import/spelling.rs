//! One server's block as any client spells it: keys that only an import understands, put into the
//! block that our own files have.

use crate::authoring::client_files::Timeout;
use crate::authoring::import::nodes::is_object;
use crate::config::keys::environment::environment;
use crate::config::keys::numbers;
use crate::config::keys::oauth::RawOAuth;
use crate::config::keys::raw::RawServer;
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::reader::{Fields, Located, Reader};
use crate::config::syntax::section::FromNode;

/// Reads a block; `timeout` is the unit of that key, where the client's is known.
pub(super) fn server(
    node: &Node<'_>,
    timeout: Option<Timeout>,
    reader: &mut Reader<'_>,
) -> Option<RawServer> {
    // Goose once wrote the block one level down.
    let inner = node.get("config").filter(is_object);
    let mut fields = reader.fields(inner.as_ref().unwrap_or(node))?;
    let mut theirs = Theirs::default();
    theirs.take(&mut fields, timeout, reader);
    fields.take_all(|key| DECORATION.contains(&key));
    let mut raw = RawServer::block(&mut fields, reader);
    if inner.is_some()
        && let Some(enabled) = node.get("enabled")
    {
        raw.foreign.enabled = raw.foreign.enabled.or_else(|| reader.boolean(&enabled));
    }
    theirs.put_into(&mut raw);
    // As Goose spells it.
    if let Some(kind) = &mut raw.foreign.kind
        && kind.value == "streamable_http"
    {
        "streamable-http".clone_into(&mut kind.value);
    }
    Some(raw)
}

/// Keys that say nothing of how a server is reached or of what it may do.
const DECORATION: &[&str] = &[
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

/// The values of keys that our files do not have.
#[derive(Default)]
struct Theirs {
    command: Option<Located<Vec<String>>>,
    args: Option<Vec<Located<String>>>,
    env: Vec<(Located<String>, String)>,
    url: Option<Located<String>>,
    headers: Vec<(Located<String>, Located<String>)>,
    only: Option<Vec<Located<String>>>,
    /// The resource and the scopes that a token is asked for.
    resource: Option<Located<String>>,
    scopes: Option<Vec<Located<String>>>,
    startup_timeout_ms: Option<Located<u64>>,
    call_timeout_ms: Option<Located<u64>>,
    /// Its program does not let anybody use it until its user has looked at it.
    quarantined: Option<Located<bool>>,
}

impl Theirs {
    fn take(&mut self, fields: &mut Fields<'_>, unit: Option<Timeout>, reader: &mut Reader<'_>) {
        let is_ours = |key: &str, node: &Node<'_>| match key {
            "command" => is_object(node),
            "tools" => node.elements().iter().any(is_any_tool),
            "timeout" => unit.is_some(),
            key => KEYS.contains(&key),
        };
        for entry in fields.take_where(is_ours) {
            let (key, node) = (entry.key, entry.node);
            if node.is_null() {
                continue;
            }
            match key.value.as_str() {
                // Zed
                "command" => self.command_object(&node, reader),
                // Goose
                "cmd" => self.command = words(&node, reader),
                "uri" => self.url = reader.string(&node),
                "envs" => self.env.extend(environment(&node, reader).0),
                "env_keys" | "env_vars" => self.variables(&node, reader),
                "available_tools" => {
                    let only = reader.strings(&node);
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
                    if let Some(Located { value, spot }) = reader.string(&node) {
                        self.authorization(&format!("${{{value}}}"), spot);
                    }
                }
                "oauth_resource" => self.resource = reader.string(&node),
                "scopes" => self.scopes = reader.strings(&node),
                "startup_timeout_sec" => {
                    self.startup_timeout_ms = milliseconds(&node, 1000.0, reader);
                }
                "startup_timeout_ms" | "connectionTimeout" => {
                    self.startup_timeout_ms = milliseconds(&node, 1.0, reader);
                }
                "tool_timeout_sec" => self.call_timeout_ms = milliseconds(&node, 1000.0, reader),
                // Continue
                "apiKey" | "bearer_token" => {
                    if let Some(Located { value, spot }) = reader.string(&node) {
                        self.authorization(&value, spot);
                    }
                }
                "requestOptions" => {
                    if let Some(headers) = node.get("headers").filter(is_object) {
                        self.headers.extend(texts(&headers, reader));
                    }
                }
                "timeout" => match unit {
                    Some(Timeout::CallSeconds) => {
                        self.call_timeout_ms = milliseconds(&node, 1000.0, reader);
                    }
                    Some(Timeout::CallMilliseconds) => {
                        self.call_timeout_ms = milliseconds(&node, 1.0, reader);
                    }
                    Some(Timeout::StartMilliseconds) => {
                        self.startup_timeout_ms = milliseconds(&node, 1.0, reader);
                    }
                    None => {}
                },
                // mcpproxy-go
                "quarantined" => self.quarantined = reader.boolean(&node),
                // All tools, which is what there is without it.
                _ => {}
            }
        }
    }

    /// A `command` with its arguments and environment within.
    fn command_object(&mut self, command: &Node<'_>, reader: &mut Reader<'_>) {
        self.command = command.get("path").and_then(|path| words(&path, reader));
        self.args = command.get("args").and_then(|node| reader.strings(&node));
        let env = command.get("env").filter(|node| !node.is_null());
        self.env.extend(env.map(|node| environment(&node, reader)).unwrap_or_default().0);
    }

    /// Variables of the client's own environment that the server gets.
    fn variables(&mut self, node: &Node<'_>, reader: &mut Reader<'_>) {
        for element in node.elements() {
            let name = element.get("name").unwrap_or(element);
            if let Some(name) = reader.string(&name) {
                let value = format!("${{{}}}", name.value);
                self.env.push((name, value));
            }
        }
    }

    fn authorization(&mut self, token: &str, spot: Spot) {
        let name = Located { value: "Authorization".to_owned(), spot: spot.clone() };
        let value = if token.contains(' ') { token.to_owned() } else { format!("Bearer {token}") };
        self.headers.push((name, Located { value, spot }));
    }

    fn put_into(self, raw: &mut RawServer) {
        let Self { command, args, env, url, headers, only, resource, scopes, .. } = self;
        raw.command = raw.command.take().or(command);
        raw.args = raw.args.take().or(args);
        raw.url = raw.url.take().or(url);
        if !env.is_empty() {
            let own = raw.env.get_or_insert_with(Entries::default);
            let missing = env
                .into_iter()
                .filter(|(name, _)| own.0.iter().all(|(other, _)| other.value != name.value));
            let missing: Vec<_> = missing.collect();
            own.0.extend(missing);
        }
        if !headers.is_empty() {
            raw.headers.get_or_insert_with(Entries::default).0.extend(headers);
        }
        if let Some(spot) =
            resource.as_ref().or(scopes.iter().flatten().next()).map(|it| it.spot.clone())
        {
            let new = || RawOAuth::Object(Box::default(), spot);
            if let RawOAuth::Object(object, _) = raw.oauth.get_or_insert_with(new) {
                object.resource = object.resource.take().or(resource);
                object.scopes = object.scopes.take().or(scopes);
            }
        }
        raw.foreign.include = raw.foreign.include.take().or(only);
        raw.startup_timeout_ms = raw.startup_timeout_ms.take().or(self.startup_timeout_ms);
        raw.call_timeout_ms = raw.call_timeout_ms.take().or(self.call_timeout_ms);
        raw.disabled = self.quarantined.filter(|flag| flag.value).or(raw.disabled.take());
    }
}

/// Keys of other clients whose meaning does not hang on what stands under them.
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
    "quarantined",
];

/// Returns `true` if an entry of a list of tools stands for all of them.
fn is_any_tool(node: &Node<'_>) -> bool {
    node.value.as_string_lit().is_some_and(|text| text.value == "*")
}

/// Reads an object of texts by names of the user's own.
fn texts(node: &Node<'_>, reader: &mut Reader<'_>) -> Vec<(Located<String>, Located<String>)> {
    Entries::from_node(node, reader).unwrap_or_default().0
}

fn words(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<Vec<String>>> {
    let Located { value, spot } = reader.string(node)?;
    Some(Located { value: vec![value], spot })
}

/// A time in some unit, of which a fraction may be written; nothing where it is none.
fn milliseconds(node: &Node<'_>, unit: f64, reader: &mut Reader<'_>) -> Option<Located<u64>> {
    let number = reader.decimal(node)?;
    let time =
        std::time::Duration::try_from_secs_f64(number.value.as_f64()? * unit / 1000.0).ok()?;
    let value = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(numbers::MAX_TIMEOUT_MS);
    let value = Some(value).filter(|time| *time > 0)?;
    Some(Located { value, spot: number.spot })
}
