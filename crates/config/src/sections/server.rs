//! Validation of server entries: launch, filters, timeouts and limits. Toolboxes are checked by
//! `validation`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use url::Url;

use crate::sections::category::check_overrides;
use crate::sections::client_keys::ClientKeys;
use crate::sections::drift_policy;
use crate::sections::exchange::RawExchange;
use crate::sections::filter;
use crate::sections::limits::{RawRateLimits, RawResultCache};
use crate::sections::oauth::RawOAuth;
use crate::sections::root::RawServer;
use crate::sections::sandbox;
use crate::syntax::checks::duration_from_millis;
use crate::syntax::document::SourceLocation;
use crate::syntax::objects::LocatedMap;
use crate::syntax::paths::{PathResolver, expand_tilde, join_absolute, resolve_path};
use crate::syntax::reader::{ConfigReader, Located, ServerEntryError, did_you_mean, quoted_list};
use mcp_workbench_names::ServerName;
use mcp_workbench_settings::{
    HttpLaunch, HttpTransport, Isolation, Launch, Protocol, SecretRef, ServerConfig, StdioLaunch,
    defaults, is_core_method,
};

pub(crate) enum ServerCheckOutcome {
    Enabled(Box<ServerConfig>),
    Disabled,
    /// The entry, and with it the file, is unusable. An error was reported.
    Invalid,
}

#[expect(
    clippy::too_many_lines,
    reason = "naming every key makes the compiler report a forgotten one"
)]
pub(crate) fn check_server(
    name: &Located<String>,
    raw: RawServer,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> ServerCheckOutcome {
    let off = raw.is_disabled();
    let means = if off { None } else { TransportChoice::select(&raw, name, reader) };
    let RawServer {
        command: _,
        args,
        env,
        cwd,
        url: _,
        headers,
        oauth,
        auth,
        tool_filters,
        resource_filters,
        prompt_filters,
        extension_methods,
        overrides,
        transport: _,
        description,
        namespace: _,
        show_server: _,
        disabled: _,
        startup_timeout_ms,
        call_timeout_ms,
        total_call_timeout_ms,
        idle_timeout_ms,
        inherit_env,
        sandbox,
        container,
        direct,
        share_process,
        eager,
        isolation,
        on_definition_change,
        protocol,
        roots,
        limits,
        result_cache,
        client_keys: foreign,
    } = raw;
    let ClientKeys {
        enabled: _,
        transport_type: _,
        url: _,
        timeout_ms,
        environment,
        include,
        exclude,
    } = foreign;

    let overrides = check_overrides(overrides, reader);
    check_filters(tool_filters.as_deref(), include.as_deref(), reader);
    let tool_filters = merge_tool_filters(tool_filters, include, exclude);
    let resource_filters = filter::into_patterns(resource_filters, filter::RESOURCE, reader);
    let prompt_filters = filter::into_patterns(prompt_filters, filter::PROMPT, reader);
    let extension_methods = check_extension_methods(extension_methods, reader);
    let (isolation, eager) =
        check_isolation_and_eager(isolation, eager, idle_timeout_ms.as_ref(), reader);
    let eager = eager && !ignores_eager(auth.as_ref(), &name.location, reader);
    let idle_timeout = duration_from_millis(idle_timeout_ms);
    let protocol = check_protocol(protocol, reader);
    let drift_policy =
        on_definition_change.and_then(|word| drift_policy::parse_drift_policy(&word, reader));
    if off {
        return ServerCheckOutcome::Disabled;
    }
    let launch = match means {
        None => None,
        Some(TransportChoice::Unsupported { reason, hint }) => {
            Some(unsupported(reason, hint, name, reader))
        }
        Some(TransportChoice::Http(url, transport)) => {
            let commands = [
                ("args", args.is_some_and(|args| !args.is_empty())),
                ("env", env.is_some_and(|env| !env.0.is_empty())),
                ("cwd", cwd.is_some()),
                ("sandbox", sandbox.is_some()),
                ("container", container.is_some()),
                ("direct", direct.is_some()),
            ];
            warn_ignored_keys(&commands, name, reader);
            http((&url, transport), headers, (oauth, auth), paths, reader).map(Launch::Http)
        }
        Some(TransportChoice::Stdio(command)) => {
            let none = LocatedMap::default();
            if let Some(auth) = &auth {
                let message = "expected a `url`: only servers over HTTP get callers' tokens";
                reader.report_error(&auth.location, message, None);
            }
            program(command, paths, reader).map(|(command, mut all_args)| {
                all_args.extend(args.into_iter().flatten().map(|arg| arg.value));
                Launch::Stdio(StdioLaunch {
                    command,
                    args: all_args,
                    // In case of duplicates `env` wins, as the native key.
                    secret_refs: collect_references(
                        [&environment, env.as_ref().unwrap_or(&none)],
                        reader,
                    ),
                    env: pairs(environment).chain(pairs(env.unwrap_or_default())).collect(),
                    has_own_folder: cwd.is_some(),
                    cwd: folder(cwd, paths),
                    sandbox: sandbox::check_confinement(sandbox, container, paths, reader),
                    inherit_env: inherit_env.is_some_and(|inherit| inherit.value),
                    withheld: [].into(),
                    starts_directly: direct.is_none_or(|direct| direct.value),
                })
            })
        }
    };
    let Some(launch) = broken_launch(name, reader).or(launch) else {
        return ServerCheckOutcome::Invalid;
    };
    ServerCheckOutcome::Enabled(Box::new(ServerConfig {
        name: ServerName::new(&name.value),
        description: description.map(|text| text.value).filter(|text| !text.trim().is_empty()),
        launch,
        tool_filters,
        resource_filters,
        prompt_filters,
        extension_methods,
        include: None,
        overrides,
        startup_timeout: time(startup_timeout_ms, defaults::STARTUP_TIMEOUT_MS),
        call_timeout: time(call_timeout_ms.or(timeout_ms), defaults::CALL_TIMEOUT_MS),
        total_call_timeout: time(total_call_timeout_ms, defaults::TOTAL_CALL_TIMEOUT_MS),
        idle_timeout: idle_timeout.filter(|idle| !idle.is_zero() && !eager),
        shares_process: share_process.is_none_or(|shares| shares.value),
        eager,
        isolation,
        protocol,
        roots: roots.is_some_and(|roots| roots.value),
        limits: limits.map(RawRateLimits::checked).unwrap_or_default(),
        result_cache: result_cache.map(RawResultCache::checked).unwrap_or_default(),
        drift_policy,
        lock_entry: None,
    }))
}

/// Returns a launch that can't work on this system, and warns about it.
fn unsupported(
    reason: String,
    hint: &str,
    name: &Located<String>,
    reader: &mut ConfigReader<'_>,
) -> Launch {
    let hint = hint.to_owned();
    reader.report_warning(&name.location, format!("not available: {reason}"), Some(hint.clone()));
    Launch::Unsupported { reason, hint }
}

fn time(written: Option<Located<u64>>, default_ms: u64) -> Duration {
    duration_from_millis(written).unwrap_or(Duration::from_millis(default_ms))
}

/// Returns a broken launch if the entry has an error that disables only this server.
fn broken_launch(name: &Located<String>, reader: &ConfigReader<'_>) -> Option<Launch> {
    let ServerEntryError { reason, hint } = reader.server_entry_error(&name.location)?;
    Some(Launch::Broken { reason, hint })
}

/// How a server is reached, according to its entry.
pub enum TransportChoice {
    Stdio(Located<Vec<String>>),
    Http(Located<String>, HttpTransport),
    Unsupported { reason: String, hint: &'static str },
}

impl TransportChoice {
    /// Selects the transport. Returns `None` if the entry has neither a command nor a URL, with an
    /// error reported.
    pub fn select(
        raw: &RawServer,
        name: &Located<String>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<Self> {
        let RawServer { command, url, headers, transport, client_keys: foreign, .. } = raw;
        let url = url.as_ref().or(foreign.url.as_ref());
        let spelled = |kind: &Located<String>| TransportWord::from_spelling(&kind.value);
        if let Some(transport) = transport
            && spelled(transport).is_none()
        {
            let message = format!(
                "expected `stdio`, `http`, `streamable-http` or `sse`, found `{}`",
                transport.value
            );
            let hint = did_you_mean(&transport.value, &["stdio", "http", "streamable-http", "sse"]);
            reader.report_error(&transport.location, message, hint);
            return None;
        }
        let kind = transport.as_ref().or(foreign.transport_type.as_ref());
        let word = match kind.map(|kind| (spelled(kind), kind)) {
            None => None,
            Some((Some(word), _)) => Some(word),
            Some((None, Located { value: other, location })) => {
                if command.is_none() {
                    let reason = format!("unknown type `{other}`");
                    let hint = "add the `command` that starts the server, or its `url`";
                    return Some(Self::Unsupported { reason, hint });
                }
                let message = format!("expected `stdio`, found `{other}`; using `stdio`");
                reader.report_warning(location, message, None);
                Some(TransportWord::Stdio)
            }
        };
        let is_stdio = word == Some(TransportWord::Stdio);
        let is_http = word.is_some() && !is_stdio;
        match (command, url) {
            (Some(command), Some(_)) if is_http => {
                let message = "ignored: the server has a `url`";
                reader.report_warning(&command.location, message, None);
            }
            (Some(command), url) if !is_http => {
                let header = headers.iter().flat_map(|headers| &headers.0).next();
                let remote =
                    url.map(|url| &url.location).or(header.map(|(name, _)| &name.location));
                if let Some(location) = remote {
                    reader.report_warning(location, "ignored: the server has a `command`", None);
                }
                return Some(Self::Stdio(command.clone()));
            }
            _ => {}
        }
        if let Some(url) = url.filter(|_| !is_stdio) {
            let transport = if word == Some(TransportWord::Sse) {
                HttpTransport::Sse
            } else {
                HttpTransport::Auto
            };
            return Some(Self::Http(url.clone(), transport));
        }
        let key = if is_http { "url" } else { "command" };
        // Nothing is read from an invalid TOML table, and its error was reported already.
        let is_told = reader.is_toml() && reader.server_entry_error(&name.location).is_some();
        let is_wrong =
            reader.has_error_under(&name.location, key) || reader.has_error_at(&name.location);
        if !is_told && !is_wrong {
            let hint = if is_http {
                "add the URL of the server, such as `\"url\": \"https://example.com/mcp\"`"
            } else {
                "add the program to run, such as `\"command\": \"npx\"`"
            };
            reader.report_error(
                &name.location,
                format!("expected a `{key}`"),
                Some(hint.to_owned()),
            );
        }
        None
    }
}

/// A transport as clients name it in `type` or `transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransportWord {
    Stdio,
    Http,
    Sse,
}

impl TransportWord {
    /// Reads any spelling, such as `streamable-http`, `streamable_http` or `httpStreamable`.
    fn from_spelling(word: &str) -> Option<Self> {
        let plain: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
        match plain.to_ascii_lowercase().as_str() {
            "stdio" | "local" => Some(Self::Stdio),
            "http" | "https" | "remote" | "streamable" | "streamablehttp" | "streamablehttps"
            | "httpstreamable" | "streaminghttp" | "httpstreaming" | "streamhttp"
            | "httpstream" => Some(Self::Http),
            "sse" | "httpsse" | "ssehttp" => Some(Self::Sse),
            _ => None,
        }
    }
}

/// Warns about keys that only apply to a command, in the entry of an HTTP server.
fn warn_ignored_keys(keys: &[(&str, bool)], name: &Located<String>, reader: &mut ConfigReader<'_>) {
    let written: Vec<_> =
        keys.iter().filter(|(_, is_written)| *is_written).map(|(key, _)| *key).collect();
    if !written.is_empty() {
        let keys = quoted_list(&written, "and");
        reader.report_warning(
            &name.location,
            format!("ignored: {keys} (only for servers with a `command`)"),
            None,
        );
    }
}

/// Checks the URL, headers and `oauth`. Errors don't repeat values, as they may be secret.
fn http(
    (url, transport): (&Located<String>, HttpTransport),
    headers: Option<LocatedMap<Located<String>>>,
    (oauth, auth): (Option<RawOAuth>, Option<Located<RawExchange>>),
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<HttpLaunch> {
    let exchange = auth.as_ref().map(|auth| auth.location.clone());
    if let (Some(_), Some(auth)) = (&oauth, &exchange) {
        let message = "expected `oauth` or `auth`, found both";
        reader.report_error(auth, message, Some("remove one of them".to_owned()));
    }
    let mut oauth = match auth {
        Some(auth) => auth.value.checked(&auth.location, reader),
        None => oauth.map(|oauth| oauth.checked(paths, reader)).unwrap_or_default(),
    };
    let parsed = Url::parse(url.value.trim()).ok();
    let parsed = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if parsed.is_none() {
        let message = "expected a URL that starts with `https://` or `http://`";
        reader.report_error(&url.location, message, None);
    }
    let mut is_right = true;
    let mut checked = Vec::new();
    let mut referred = Vec::new();
    for (name, value) in headers.unwrap_or_default().0 {
        let Ok(header) = HeaderName::try_from(name.value.trim()) else {
            reader.report_error(&name.location, "expected a header name", None);
            is_right = false;
            continue;
        };
        let Ok(mut content) = HeaderValue::try_from(value.value.trim()) else {
            let message = "a header value must not contain line breaks or control characters";
            reader.report_error(&value.location, message, None);
            is_right = false;
            continue;
        };
        if RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("mcp-") {
            let message = format!("ignored: the workbench sets `{header}` itself");
            reader.report_warning(&name.location, message, None);
            continue;
        }
        content.set_sensitive(true);
        let reference = reader.reference_at(&value.location);
        referred.extend(reference.map(|reference| (header.clone(), reference.clone())));
        checked.push((header, content));
    }
    // A configured `Authorization` header replaces OAuth.
    oauth.is_off |= checked.iter().any(|(header, _)| *header == AUTHORIZATION);
    if let Some(location) = exchange.filter(|_| oauth.is_off) {
        let message = "expected `auth` or the header `Authorization`, found both";
        reader.report_error(&location, message, Some("remove one of them".to_owned()));
    }
    parsed.filter(|_| is_right).map(|url| HttpLaunch {
        url,
        transport,
        headers: checked,
        referred,
        oauth,
    })
}

/// Headers that the HTTP transport sets itself.
const RESERVED_HEADERS: [&str; 6] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "transfer-encoding",
];

/// Returns the program, resolved to a path if it contains a separator, and the leading arguments
/// from `command`.
fn program(
    command: Located<Vec<String>>,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<(String, Vec<String>)> {
    let Located { value, location: spot } = command;
    let mut words = value.into_iter();
    let Some(program) = words.next().filter(|program| !program.trim().is_empty()) else {
        let hint = "write the program to run, such as `npx`";
        reader.report_error(&spot, "expected a program, found nothing", Some(hint.into()));
        return None;
    };
    let is_path = |program: &str| program.contains(std::path::is_separator);
    if !is_path(&program) && program.trim().contains(char::is_whitespace) {
        reader.report_warning(
            &spot,
            "the whole string, including spaces, is the program name",
            Some("move the arguments to `args`".to_owned()),
        );
    }
    let program = expand_tilde(&program, paths);
    let program = if is_path(&program) {
        join_absolute(paths.base_dir, &program).to_string_lossy().into_owned()
    } else {
        program
    };
    Some((program, words.collect()))
}

fn check_protocol(protocol: Option<Located<String>>, reader: &mut ConfigReader<'_>) -> Protocol {
    let Some(word) = protocol else { return Protocol::Auto };
    Protocol::from_word(&word.value).unwrap_or_else(|| {
        let message = format!(
            "expected `auto`, `legacy`, `modern` or an MCP version such as `2025-06-18`, found `{}`",
            word.value
        );
        let hint = did_you_mean(&word.value, &["auto", "legacy", "modern"]);
        reader.report_error(&word.location, message, hint);
        Protocol::Auto
    })
}

fn check_isolation(isolation: Option<Located<String>>, reader: &mut ConfigReader<'_>) -> Isolation {
    let Some(word) = isolation else { return Isolation::default() };
    let known = Isolation::WORDS.iter().find(|(name, _)| *name == word.value);
    known.map_or_else(
        || {
            let message = format!("expected `shared` or `session`, found `{}`", word.value);
            let hint = did_you_mean(&word.value, &Isolation::WORDS.map(|(name, _)| name));
            reader.report_error(&word.location, message, hint);
            Isolation::default()
        },
        |(_, isolation)| *isolation,
    )
}

/// Checks `isolation` and `eager`. `eager` is ignored if each session has its own process.
fn check_isolation_and_eager(
    isolation: Option<Located<String>>,
    eager: Option<Located<bool>>,
    idle: Option<&Located<u64>>,
    reader: &mut ConfigReader<'_>,
) -> (Isolation, bool) {
    let isolation = check_isolation(isolation, reader);
    let Some(eager) = eager.filter(|eager| eager.value) else { return (isolation, false) };
    if isolation == Isolation::Session {
        let message =
            "ignored because `isolation` is `session`: each session starts its own process";
        reader.report_warning(&eager.location, message, None);
        return (isolation, false);
    }
    if let Some(idle) = idle.filter(|idle| idle.value > 0) {
        reader.report_warning(
            &idle.location,
            "ignored: an eager server is not stopped when idle",
            None,
        );
    }
    (isolation, true)
}

/// Returns `true` for a server that gets callers' tokens: without a caller there is no token to
/// start it with.
fn ignores_eager(
    auth: Option<&Located<RawExchange>>,
    server: &SourceLocation,
    reader: &mut ConfigReader<'_>,
) -> bool {
    if auth.is_some() {
        let message = "`eager` is ignored: with `auth`, the server starts with a caller's token";
        reader.report_warning(server, message, None);
    }
    auth.is_some()
}

fn check_filters(
    ours: Option<&[Located<String>]>,
    include: Option<&[Located<String>]>,
    reader: &mut ConfigReader<'_>,
) {
    if let (Some(_), Some(first)) = (ours, include.into_iter().flatten().next()) {
        let message = "ignored: `toolFilters` overrides it";
        reader.report_warning(&first.location, message, None);
    }
    for filter in ours.unwrap_or_default() {
        let word = filter.value.strip_prefix('!').unwrap_or(&filter.value);
        if word.starts_with('@') {
            filter::check_annotation(word, &filter.location, reader);
        }
    }
    filter::check_patterns(ours.unwrap_or_default(), filter::TOOL, reader);
}

/// Checks the patterns of `extensionMethods`. None of them may name methods of MCP itself.
fn check_extension_methods(
    patterns: Option<Vec<Located<String>>>,
    reader: &mut ConfigReader<'_>,
) -> Vec<String> {
    for pattern in patterns.iter().flatten() {
        let named = pattern.value.strip_prefix('!').unwrap_or(&pattern.value);
        let head = named.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
        let is_decided = head.contains('/') || head.len() == named.len();
        if is_decided && !named.trim().is_empty() && is_core_method(head) {
            let message = format!("`{named}` belongs to MCP itself, so it can't be listed here");
            let hint = "list methods of protocol extensions, such as `skills/list`";
            reader.report_error(&pattern.location, message, Some(hint.to_owned()));
        }
    }
    filter::into_patterns(patterns, filter::METHOD, reader)
}

/// Merges native filters with the tool lists of other clients, written as filters. `toolFilters`
/// overrides an include list.
pub fn merge_tool_filters(
    ours: Option<Vec<Located<String>>>,
    include: Option<Vec<Located<String>>>,
    exclude: Vec<Located<String>>,
) -> Vec<String> {
    let shown = match (ours, include) {
        // Other clients treat an empty include list as no tools.
        (None, Some(include)) if include.is_empty() => vec!["!*".to_owned()],
        (Some(filters), _) | (None, Some(filters)) => {
            filters.into_iter().map(|filter| filter.value).collect()
        }
        (None, None) => Vec::new(),
    };
    let hidden = exclude.into_iter().map(|filter| format!("!{}", filter.value));
    shown.into_iter().chain(hidden).collect()
}

/// Returns the variables that hold a secret reference. In case of duplicates the second source
/// wins.
fn collect_references(
    sources: [&LocatedMap<String>; 2],
    reader: &ConfigReader<'_>,
) -> BTreeMap<String, SecretRef> {
    let mut referred = BTreeMap::new();
    for (name, _) in sources.into_iter().flat_map(|entries| &entries.0) {
        match reader.reference_at(&name.location) {
            Some(reference) => referred.insert(name.value.clone(), reference.clone()),
            None => referred.remove(&name.value),
        };
    }
    referred
}

fn pairs(entries: LocatedMap<String>) -> impl Iterator<Item = (String, String)> {
    entries.0.into_iter().map(|(name, value)| (name.value, value))
}

fn folder(cwd: Option<Located<String>>, paths: &PathResolver<'_>) -> PathBuf {
    let cwd = cwd.map(|cwd| resolve_path(&cwd.value, paths));
    cwd.unwrap_or_else(|| paths.base_dir.to_owned())
}
