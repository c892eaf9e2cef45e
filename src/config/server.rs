//! One server block, checked: how it is launched, what is shown of it, and how long it may take.
//!
//! The toolbox it stands in is checked one level up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::Glob;

use crate::config::check::{Places, bounded};
use crate::config::foreign::Foreign;
use crate::config::limits;
use crate::config::raw::{Entries, RawServer};
use crate::config::reader::{Located, Reader, did_you_mean};
use crate::config::{Launch, Protocol, ServerConfig, StdioLaunch};
use crate::name::ServerName;

/// What came of a server block.
pub(super) enum Checked {
    /// It is to be used.
    On(Box<ServerConfig>),
    /// It is switched off.
    Off,
    /// It cannot be used; the reader has noted why.
    Wrong,
}

/// Checks one server block.
pub(super) fn check(
    name: &Located<String>,
    raw: RawServer,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Checked {
    let off = raw.is_off();
    let RawServer {
        command,
        args,
        env,
        cwd,
        tool_filters,
        transport,
        description: _,
        disabled: _,
        startup_timeout_ms,
        call_timeout_ms,
        idle_timeout_ms,
        inherit_env,
        shared,
        protocol,
        roots,
        foreign,
    } = raw;
    let Foreign { enabled: _, kind, remote, timeout_ms, environment, include, exclude } = foreign;

    check_filters(tool_filters.as_deref().unwrap_or_default(), reader);
    if let (Some(_), Some(first)) = (&tool_filters, include.iter().flatten().next()) {
        let message = "ignored: `toolFilters` says which tools there are";
        reader.warn(&first.spot, message, None);
    }
    let tool_filters = filters(tool_filters, include, exclude);
    let timeout = |number, least, reader: &mut Reader<'_>| {
        bounded(number, least..=limits::MAX_TIMEOUT_MS, reader).map(Duration::from_millis)
    };
    let startup_timeout = timeout(startup_timeout_ms, 1, reader);
    let call_timeout = timeout(call_timeout_ms.or(timeout_ms), 1, reader);
    let idle_timeout = timeout(idle_timeout_ms, 0, reader);
    let protocol = protocol.map_or(Protocol::Auto, |word| {
        Protocol::from_word(&word.value).unwrap_or_else(|| {
            let message = format!("expected `auto`, `legacy` or `modern`, found `{}`", word.value);
            let hint = did_you_mean(&word.value, &["auto", "legacy", "modern"]);
            reader.error(&word.spot, message, hint);
            Protocol::Auto
        })
    });
    if off {
        return Checked::Off;
    }
    if let Some(transport) = transport.filter(|transport| transport.value != "stdio") {
        reader.error(
            &transport.spot,
            format!("expected `stdio`, found `{}`", transport.value),
            Some(BRIDGE.to_owned()),
        );
        return Checked::Wrong;
    }

    let way = Way { kind, remote };
    let launch = if let Some((reason, hint)) = way.unsupported(command.is_some(), name, reader) {
        let hint = hint.to_owned();
        reader.warn(&name.spot, format!("not available: {reason}"), Some(hint.clone()));
        Launch::Unsupported { reason, hint }
    } else {
        let Some(command) = command else {
            if !reader.has_error_under(&name.spot, "command") {
                let hint = "write the program that starts it, such as `\"command\": \"npx\"`";
                reader.error(&name.spot, "expected a `command`", Some(hint.to_owned()));
            }
            return Checked::Wrong;
        };
        let Some((command, mut all_args)) = program(command, places, reader) else {
            return Checked::Wrong;
        };
        all_args.extend(args.into_iter().flatten().map(|arg| arg.value));
        Launch::Stdio(StdioLaunch {
            command,
            args: all_args,
            // Of a variable in both, `env` is the one that was meant for this program.
            env: pairs(environment).chain(pairs(env.unwrap_or_default())).collect(),
            cwd: match cwd {
                Some(cwd) => absolute(places.folder, &with_home(&cwd.value, places)),
                None => places.folder.to_owned(),
            },
            inherit_env: inherit_env.is_some_and(|inherit| inherit.value),
        })
    };
    Checked::On(Box::new(ServerConfig {
        name: ServerName::new(&name.value),
        launch,
        tool_filters,
        startup_timeout: startup_timeout
            .unwrap_or(Duration::from_millis(limits::DEFAULT_STARTUP_TIMEOUT_MS)),
        call_timeout: call_timeout
            .unwrap_or(Duration::from_millis(limits::DEFAULT_CALL_TIMEOUT_MS)),
        idle_timeout: idle_timeout.filter(|idle| !idle.is_zero()),
        shared: shared.is_none_or(|shared| shared.value),
        protocol,
        roots: roots.is_some_and(|roots| roots.value),
    }))
}

/// What a block says of the way its server is reached.
pub(super) struct Way {
    pub(super) kind: Option<Located<String>>,
    pub(super) remote: Option<Located<String>>,
}

impl Way {
    /// Why the server cannot be reached here, and what to do; none if it is a child process.
    pub(super) fn unsupported(
        self,
        has_command: bool,
        name: &Located<String>,
        reader: &mut Reader<'_>,
    ) -> Option<(String, &'static str)> {
        let kind = self.kind.as_ref().map(|kind| kind.value.as_str());
        let (reason, hint) = match (kind, &self.remote) {
            (Some("stdio" | "local") | None, None) => return None,
            (Some("http" | "sse" | "streamable-http" | "streamableHttp" | "remote"), _) => (
                format!(
                    "servers of type `{}` cannot be reached, only those started as a command",
                    kind.unwrap_or_default()
                ),
                BRIDGE,
            ),
            (Some("stdio" | "local") | None, Some(remote)) if has_command => {
                let message = "ignored: the server is started by its `command`";
                reader.warn(&remote.spot, message, None);
                return None;
            }
            (Some("stdio" | "local") | None, Some(_)) => (
                "servers over HTTP cannot be reached, only those started as a command".to_owned(),
                BRIDGE,
            ),
            (Some(other), _) if has_command => {
                let spot = self.kind.as_ref().map_or(&name.spot, |kind| &kind.spot);
                let message = format!("expected `stdio`, found `{other}`; taken as `stdio`");
                reader.warn(spot, message, None);
                return None;
            }
            (Some(other), _) => (
                format!("type `{other}` is not known"),
                "write the `command` that starts the server",
            ),
        };
        Some((reason, hint))
    }
}

/// What to do about a server that is reached over HTTP.
pub(super) const BRIDGE: &str = concat!(
    "run it through a bridge: ",
    "`\"command\": \"npx\", \"args\": [\"-y\", \"mcp-remote\", \"<url>\"]`"
);

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

fn check_filters(filters: &[Located<String>], reader: &mut Reader<'_>) {
    for filter in filters {
        let pattern = filter.value.strip_prefix('!').unwrap_or(&filter.value);
        if pattern.trim().is_empty() {
            reader.error(&filter.spot, "expected a tool's name or a glob", None);
        } else if let Err(error) = Glob::new(pattern) {
            reader.error(
                &filter.spot,
                format!("`{pattern}` is not a glob: {}", error.kind()),
                Some("write a name, or a glob such as `read_*` or `{get,list}_?`".to_owned()),
            );
        }
    }
}

/// The filters to use: ours, or those of other clients put in our words.
pub(super) fn filters(
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

fn pairs(entries: Entries<String>) -> impl Iterator<Item = (String, String)> {
    entries.0.into_iter().map(|(name, value)| (name.value, value))
}

fn with_home(path: &str, places: &Places<'_>) -> String {
    let home = || Some(places.env.home()?.to_string_lossy().into_owned());
    shellexpand::tilde_with_context(path, home).into_owned()
}

/// `path` from `folder` on, without `.` in it; a path that starts at the root stays.
fn absolute(folder: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        return folder.to_owned();
    }
    let joined = folder.join(path);
    std::path::absolute(&joined).unwrap_or(joined)
}
