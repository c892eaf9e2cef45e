//! A scripted MCP server over stdio, for tests and benchmarks.
//!
//! It misbehaves on demand, so it is written on plain threads and blocking IO, not on an SDK.
//! Its one argument is a JSON script, or `@` and the path of one; every key is optional, unknown
//! keys are refused.
//!
//! | key | meaning |
//! |---|---|
//! | `name`, `version`, `instructions` | what it says of itself (`fake`, `1.0.0`, nothing) |
//! | `tools` | names, or whole tool objects that are listed as given, unknown fields included |
//! | `behavior` | per tool: `"echo"` or `{"sleep": {"ms": 50}}`; without an entry, the tool's own name if it is a behavior, else `echo` |
//! | `capabilities` | added to `{"tools": {"listChanged": true}}` |
//! | `answers` | a result by method, for methods that are not scripted otherwise (`resources/list`) |
//! | `rawAnswers` | the exact text of a result by method, whatever else is scripted |
//! | `repeat` | methods that are answered with `{"repeated": <params>}`, byte for byte |
//! | `pageSize`, `repeatCursor` | pages `tools/list`; with `repeatCursor` the cursor never moves |
//! | `changeOnList` | says that its list has changed right after every answer to `tools/list` |
//! | `listDelayMs` | waits before it answers `tools/list` |
//! | `startDelayMs` | waits before it reads its input |
//! | `hangOnInitialize` | never answers `initialize` |
//! | `initializeError` | `{code, message, data?}` as the answer to `initialize` |
//! | `failStart` | `{code?, stderr?: [lines]}`: exits before the handshake |
//! | `failTimes` | `{n, counterFile}`: the first `n` starts fail, counted in the file |
//! | `noise` | `{stdout?: [lines], stderr?: [lines]}` at start |
//! | `pidFile` | appends `server <pid>` at every start, and `grandchild <pid>` |
//! | `grandchild` | `true`, `"stubborn"` (ignores SIGTERM) or `"holding"` (keeps our stdout open): a child that sleeps in our process group; `"detached"`: holding, in a group of its own; `"astray"`: a daemon, in a session of its own; `"unmarked"`: such a one without our environment |
//! | `stubborn` | ignores SIGTERM and the end of its input |
//! | `exitAfterCalls` | exits with 0 when this many calls are answered |
//! | `protocol` | `"legacy"` (default, `initialize`), `"modern"` (2026-07-28 only) or `"dual"` |
//! | `lean` | echoes every call at once and as fast as it can, for measurements: `{content: [], structuredContent: <arguments>}`; no behaviors |
//! | `dieOnList` | exits with 3 instead of answering `tools/list` |
//! | `dieOnInitialize`, `initializeDelayMs` | exits with 1 instead of answering `initialize`; answers it late, and other requests meanwhile |
//! | `requestFile` | appends the method of every request |
//! | `dieOnDiscover`, `silentOnDiscover` | what old servers do when `server/discover` comes |
//!
//! The behaviors and their parameters are the variants of [`behavior::Act`]. A parameter may stand
//! in the script or among the arguments of the call; the arguments win.
//!
//! It exits with 0 at the end of its input. A stubborn one, and every grandchild, gives up after
//! two minutes, so that a failed test leaves nothing behind for long.
#![allow(
    clippy::disallowed_methods,
    clippy::exit,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for tests: it spawns, reads its environment and dies as its script says"
)]

use std::io::{BufRead, BufReader, stdin};
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[path = "fake_mcp_server/behavior.rs"]
mod behavior;
#[path = "fake_mcp_server/script.rs"]
mod script;
#[path = "fake_mcp_server/server.rs"]
mod server;
#[path = "fake_mcp_server/start.rs"]
mod start;
#[path = "fake_mcp_server/wire.rs"]
mod wire;

use script::Script;
use server::Server;

/// As much as a pipe holds.
const INPUT_BUFFER: usize = 64 * 1024;
/// How long a process lives that refuses to end.
const STUBBORN_LIFE: Duration = Duration::from_mins(2);

fn main() {
    let text = std::env::args().nth(1).unwrap_or_else(|| "{}".to_owned());
    let script = Script::read(&text).unwrap_or_else(|error| {
        eprintln!("fake-mcp-server: {error}");
        exit(2);
    });
    let grandchildren = start::start(&script, &text);
    let stubborn = script.stubborn;
    let server = Arc::new(Server::new(script, grandchildren));
    let mut input = BufReader::with_capacity(INPUT_BUFFER, stdin().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        server.receive(line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
    }
    if stubborn {
        thread::sleep(STUBBORN_LIFE);
    }
    exit(0);
}
