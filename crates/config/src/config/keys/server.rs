//! One server block, checked: how it is launched, what is shown of it, and how long it may take.
//!
//! The toolbox it stands in is checked one level up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use url::Url;

use crate::config::keys::category::check_overrides;
use crate::config::keys::definitions;
use crate::config::keys::filter;
use crate::config::keys::foreign::Foreign;
use crate::config::keys::limits::{RawCache, RawRates};
use crate::config::keys::oauth::RawOAuth;
use crate::config::keys::raw::RawServer;
use crate::config::keys::sandbox;
use crate::config::syntax::checks::milliseconds;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::places::{Places, absolute, located_path, with_home};
use crate::config::syntax::reader::{Located, Reader, Trouble, did_you_mean, listed};
use crate::name::ServerName;
use crate::settings::{
    HttpLaunch, HttpTransport, Isolation, Launch, Protocol, Reference, ServerConfig, StdioLaunch,
    defaults,
};

/// The outcome of checking a server block.
pub(crate) enum Checked {
    /// It is to be used.
    On(Box<ServerConfig>),
    /// It is switched off.
    Off,
    /// It cannot be used, and neither can the file; the reader has noted why.
    Wrong,
}

/// Checks one server block.
#[expect(clippy::too_many_lines, reason = "each key is named here, so that none is forgotten")]
pub(crate) fn check(
    name: &Located<String>,
    raw: RawServer,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Checked {
    let off = raw.is_off();
    let means = if off { None } else { Means::of(&raw, name, reader) };
    let RawServer {
        command: _,
        args,
        env,
        cwd,
        url: _,
        headers,
        oauth,
        tool_filters,
        resource_filters,
        prompt_filters,
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
        shared,
        eager,
        isolation,
        definitions: differing,
        protocol,
        roots,
        limits,
        cache,
        foreign,
    } = raw;
    let Foreign { enabled: _, kind: _, url: _, timeout_ms, environment, include, exclude } =
        foreign;

    let overrides = check_overrides(overrides, reader);
    check_filters(tool_filters.as_deref(), include.as_deref(), reader);
    let tool_filters = filters(tool_filters, include, exclude);
    let resource_filters = filter::checked(resource_filters, filter::RESOURCE, reader);
    let prompt_filters = filter::checked(prompt_filters, filter::PROMPT, reader);
    let (isolation, eager) = check_start(isolation, eager, idle_timeout_ms.as_ref(), reader);
    let idle_timeout = milliseconds(idle_timeout_ms);
    let protocol = check_protocol(protocol, reader);
    let differing = differing.and_then(|word| definitions::check(&word, reader));
    if off {
        return Checked::Off;
    }
    let launch = match means {
        None => None,
        Some(Means::Unsupported { reason, hint }) => Some(unsupported(reason, hint, name, reader)),
        Some(Means::Url(url, transport)) => {
            let commands = [
                ("args", args.is_some_and(|args| !args.is_empty())),
                ("env", env.is_some_and(|env| !env.0.is_empty())),
                ("cwd", cwd.is_some()),
                ("sandbox", sandbox.is_some()),
                ("container", container.is_some()),
            ];
            ignore(&commands, name, reader);
            http((&url, transport), headers, (oauth, places), reader).map(Launch::Http)
        }
        Some(Means::Command(command)) => {
            let none = Entries::default();
            program(command, places, reader).map(|(command, mut all_args)| {
                all_args.extend(args.into_iter().flatten().map(|arg| arg.value));
                Launch::Stdio(StdioLaunch {
                    command,
                    args: all_args,
                    // Of a variable in both, `env` is the one that was meant for this program.
                    referred: referred([&environment, env.as_ref().unwrap_or(&none)], reader),
                    env: pairs(environment).chain(pairs(env.unwrap_or_default())).collect(),
                    has_own_folder: cwd.is_some(),
                    cwd: folder(cwd, places),
                    sandbox: sandbox::checked(sandbox, container, places, reader),
                    inherit_env: inherit_env.is_some_and(|inherit| inherit.value),
                    withheld: [].into(),
                })
            })
        }
    };
    let Some(launch) = broken(name, reader).or(launch) else { return Checked::Wrong };
    Checked::On(Box::new(ServerConfig {
        name: ServerName::new(&name.value),
        description: description.map(|text| text.value).filter(|text| !text.trim().is_empty()),
        launch,
        tool_filters,
        resource_filters,
        prompt_filters,
        include: None,
        overrides,
        startup_timeout: time(startup_timeout_ms, defaults::STARTUP_TIMEOUT_MS),
        call_timeout: time(call_timeout_ms.or(timeout_ms), defaults::CALL_TIMEOUT_MS),
        total_call_timeout: time(total_call_timeout_ms, defaults::TOTAL_CALL_TIMEOUT_MS),
        idle_timeout: idle_timeout.filter(|idle| !idle.is_zero() && !eager),
        shared: shared.is_none_or(|shared| shared.value),
        eager,
        isolation,
        protocol,
        roots: roots.is_some_and(|roots| roots.value),
        limits: limits.map(RawRates::checked).unwrap_or_default(),
        cache: cache.map(RawCache::checked).unwrap_or_default(),
        definitions: differing,
        locked: None,
    }))
}

/// A launch that cannot be, which is told of.
fn unsupported(
    reason: String,
    hint: &str,
    name: &Located<String>,
    reader: &mut Reader<'_>,
) -> Launch {
    let hint = hint.to_owned();
    reader.warn(&name.spot, format!("not available: {reason}"), Some(hint.clone()));
    Launch::Unsupported { reason, hint }
}

fn time(written: Option<Located<u64>>, default_ms: u64) -> Duration {
    milliseconds(written).unwrap_or(Duration::from_millis(default_ms))
}

/// The launch of a server with an entry that is wrong.
fn broken(name: &Located<String>, reader: &Reader<'_>) -> Option<Launch> {
    let Trouble { reason, hint } = reader.trouble(&name.spot)?;
    Some(Launch::Broken { reason, hint })
}

/// How a server is reached, as far as its block says.
pub enum Means {
    /// It is started by this command.
    Command(Located<Vec<String>>),
    /// It is at this address, and messages are carried there in this way.
    Url(Located<String>, HttpTransport),
    /// It cannot be reached here.
    Unsupported {
        /// Why.
        reason: String,
        /// A hint about what to do.
        hint: &'static str,
    },
}

impl Means {
    /// Chooses among what the block says; none if it says nothing of use, which is reported.
    pub fn of(raw: &RawServer, name: &Located<String>, reader: &mut Reader<'_>) -> Option<Self> {
        let RawServer { command, url, headers, transport, foreign, .. } = raw;
        let url = url.as_ref().or(foreign.url.as_ref());
        if let Some(transport) = transport
            && !matches!(transport.value.as_str(), "stdio" | "http" | "streamable-http" | "sse")
        {
            let message = format!(
                "expected `stdio`, `http`, `streamable-http` or `sse`, found `{}`",
                transport.value
            );
            let hint = did_you_mean(&transport.value, &["stdio", "http", "streamable-http", "sse"]);
            reader.error(&transport.spot, message, hint);
            return None;
        }
        let kind = transport.as_ref().or(foreign.kind.as_ref());
        let (is_http, is_stdio) = match kind.map(|kind| kind.value.as_str()) {
            None => (false, false),
            Some("stdio" | "local") => (false, true),
            Some("http" | "streamable-http" | "streamableHttp" | "remote" | "sse") => (true, false),
            Some(other) => {
                if command.is_none() {
                    let reason = format!("type `{other}` is not known");
                    let hint = "write the `command` that starts the server, or its `url`";
                    return Some(Self::Unsupported { reason, hint });
                }
                let spot = kind.map_or(&name.spot, |kind| &kind.spot);
                let message = format!("expected `stdio`, found `{other}`; taken as `stdio`");
                reader.warn(spot, message, None);
                (false, true)
            }
        };
        match (command, url) {
            (Some(command), Some(_)) if is_http => {
                let message = "ignored: the server is reached at its `url`";
                reader.warn(&command.spot, message, None);
            }
            (Some(command), url) if !is_http => {
                let header = headers.iter().flat_map(|headers| &headers.0).next();
                let remote = url.map(|url| &url.spot).or(header.map(|(name, _)| &name.spot));
                if let Some(spot) = remote {
                    reader.warn(spot, "ignored: the server is started by its `command`", None);
                }
                return Some(Self::Command(command.clone()));
            }
            _ => {}
        }
        if let Some(url) = url.filter(|_| !is_stdio) {
            let is_old = kind.is_some_and(|kind| kind.value == "sse");
            let transport = if is_old { HttpTransport::Sse } else { HttpTransport::Auto };
            return Some(Self::Url(url.clone(), transport));
        }
        let key = if is_http { "url" } else { "command" };
        // Of a table of TOML that is wrong nothing is read, and what is wrong is told already.
        let is_told = reader.is_toml() && reader.trouble(&name.spot).is_some();
        let is_wrong = reader.has_error_under(&name.spot, key) || reader.has_error_at(&name.spot);
        if !is_told && !is_wrong {
            let hint = if is_http {
                "write the address of the server, such as `\"url\": \"https://example.com/mcp\"`"
            } else {
                "write the program that starts it, such as `\"command\": \"npx\"`"
            };
            reader.error(&name.spot, format!("expected a `{key}`"), Some(hint.to_owned()));
        }
        None
    }
}

/// Warns of keys that are written and mean nothing at a server that is not started.
fn ignore(keys: &[(&str, bool)], name: &Located<String>, reader: &mut Reader<'_>) {
    let written: Vec<_> =
        keys.iter().filter(|(_, is_written)| *is_written).map(|(key, _)| *key).collect();
    if !written.is_empty() {
        let keys = listed(&written, "and");
        reader.warn(
            &name.spot,
            format!("ignored: {keys} of a server that is not started here"),
            None,
        );
    }
}

/// The address of a server and what it is told; what is wrong is reported without the values,
/// which may be secret.
fn http(
    (url, transport): (&Located<String>, HttpTransport),
    headers: Option<Entries<Located<String>>>,
    (oauth, places): (Option<RawOAuth>, &Places<'_>),
    reader: &mut Reader<'_>,
) -> Option<HttpLaunch> {
    let mut oauth = oauth.map(|oauth| oauth.checked(places, reader)).unwrap_or_default();
    let parsed = Url::parse(url.value.trim()).ok();
    let parsed = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if parsed.is_none() {
        let message = "expected an address that begins with `https://` or `http://`";
        reader.error(&url.spot, message, None);
    }
    let mut is_right = true;
    let mut checked = Vec::new();
    let mut referred = Vec::new();
    for (name, value) in headers.unwrap_or_default().0 {
        let Ok(header) = HeaderName::try_from(name.value.trim()) else {
            reader.error(&name.spot, "expected the name of a header", None);
            is_right = false;
            continue;
        };
        let Ok(mut content) = HeaderValue::try_from(value.value.trim()) else {
            let message = "the value of a header may not contain line breaks or control characters";
            reader.error(&value.spot, message, None);
            is_right = false;
            continue;
        };
        if OURS.contains(&header.as_str()) || header.as_str().starts_with("mcp-") {
            let message = format!("ignored: `{header}` is written by the workbench itself");
            reader.warn(&name.spot, message, None);
            continue;
        }
        content.set_sensitive(true);
        let reference = reader.reference(&value.spot);
        referred.extend(reference.map(|reference| (header.clone(), reference.clone())));
        checked.push((header, content));
    }
    // It says who asks.
    oauth.is_off |= checked.iter().any(|(header, _)| *header == AUTHORIZATION);
    parsed.filter(|_| is_right).map(|url| HttpLaunch {
        url,
        transport,
        headers: checked,
        referred,
        oauth,
    })
}

/// Headers that belong to how messages are carried.
const OURS: [&str; 6] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "transfer-encoding",
];

/// The program to start and the arguments that `command` itself holds.
fn program(
    command: Located<Vec<String>>,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Option<(String, Vec<String>)> {
    let Located { value, spot } = command;
    let mut words = value.into_iter();
    let Some(program) = words.next().filter(|program| !program.trim().is_empty()) else {
        let hint = "write the program that starts the server, such as `npx`";
        reader.error(&spot, "expected a program, found nothing", Some(hint.into()));
        return None;
    };
    let is_path = |program: &str| program.contains(std::path::is_separator);
    if !is_path(&program) && program.trim().contains(char::is_whitespace) {
        reader.warn(
            &spot,
            "taken whole as the name of a program, spaces and all",
            Some("put the arguments into `args`".to_owned()),
        );
    }
    let program = with_home(&program, places);
    let program = if is_path(&program) {
        absolute(places.folder, &program).to_string_lossy().into_owned()
    } else {
        program
    };
    Some((program, words.collect()))
}

fn check_protocol(protocol: Option<Located<String>>, reader: &mut Reader<'_>) -> Protocol {
    let Some(word) = protocol else { return Protocol::Auto };
    Protocol::from_word(&word.value).unwrap_or_else(|| {
        let message = format!("expected `auto`, `legacy` or `modern`, found `{}`", word.value);
        let hint = did_you_mean(&word.value, &["auto", "legacy", "modern"]);
        reader.error(&word.spot, message, hint);
        Protocol::Auto
    })
}

fn check_isolation(isolation: Option<Located<String>>, reader: &mut Reader<'_>) -> Isolation {
    let Some(word) = isolation else { return Isolation::default() };
    let known = Isolation::WORDS.iter().find(|(name, _)| *name == word.value);
    known.map_or_else(
        || {
            let message = format!("expected `shared` or `session`, found `{}`", word.value);
            let hint = did_you_mean(&word.value, &Isolation::WORDS.map(|(name, _)| name));
            reader.error(&word.spot, message, hint);
            Isolation::default()
        },
        |(_, isolation)| *isolation,
    )
}

/// Who shares a connection to the server, and whether it is started before anybody asks for it.
fn check_start(
    isolation: Option<Located<String>>,
    eager: Option<Located<bool>>,
    idle: Option<&Located<u64>>,
    reader: &mut Reader<'_>,
) -> (Isolation, bool) {
    let isolation = check_isolation(isolation, reader);
    let Some(eager) = eager.filter(|eager| eager.value) else { return (isolation, false) };
    if isolation == Isolation::Session {
        let message = "ignored: a server of which each session has one for itself starts with the \
                       session";
        reader.warn(&eager.spot, message, None);
        return (isolation, false);
    }
    if let Some(idle) = idle.filter(|idle| idle.value > 0) {
        reader.warn(&idle.spot, "ignored: an eager server is not stopped when idle", None);
    }
    (isolation, true)
}

fn check_filters(
    ours: Option<&[Located<String>]>,
    include: Option<&[Located<String>]>,
    reader: &mut Reader<'_>,
) {
    if let (Some(_), Some(first)) = (ours, include.into_iter().flatten().next()) {
        let message = "ignored: `toolFilters` says which tools there are";
        reader.warn(&first.spot, message, None);
    }
    filter::check(ours.unwrap_or_default(), filter::TOOL, reader);
}

/// The filters to use: ours, or those of other clients put in our words.
pub fn filters(
    ours: Option<Vec<Located<String>>>,
    include: Option<Vec<Located<String>>>,
    exclude: Vec<Located<String>>,
) -> Vec<String> {
    let shown = match (ours, include) {
        // For those who write it, an empty list of tools means none.
        (None, Some(include)) if include.is_empty() => vec!["!*".to_owned()],
        (Some(filters), _) | (None, Some(filters)) => {
            filters.into_iter().map(|filter| filter.value).collect()
        }
        (None, None) => Vec::new(),
    };
    let hidden = exclude.into_iter().map(|filter| format!("!{}", filter.value));
    shown.into_iter().chain(hidden).collect()
}

/// The variables whose values stand elsewhere; of one in both, the second counts.
fn referred(sources: [&Entries<String>; 2], reader: &Reader<'_>) -> BTreeMap<String, Reference> {
    let mut referred = BTreeMap::new();
    for (name, _) in sources.into_iter().flat_map(|entries| &entries.0) {
        match reader.reference(&name.spot) {
            Some(reference) => referred.insert(name.value.clone(), reference.clone()),
            None => referred.remove(&name.value),
        };
    }
    referred
}

fn pairs(entries: Entries<String>) -> impl Iterator<Item = (String, String)> {
    entries.0.into_iter().map(|(name, value)| (name.value, value))
}

/// The folder that a program starts in.
fn folder(cwd: Option<Located<String>>, places: &Places<'_>) -> PathBuf {
    let cwd = cwd.map(|cwd| located_path(&cwd.value, places));
    cwd.unwrap_or_else(|| places.folder.to_owned())
}
