//! A scripted MCP server over stdio, for tests and benchmarks.
//!
//! It has to misbehave on demand, so it uses plain threads and blocking I/O instead of an SDK. Its
//! argument is a JSON script, or `@` and the path of one. Every key is optional; unknown keys are
//! errors.
//!
//! | key | meaning |
//! |---|---|
//! | `name`, `version`, `instructions` | server info and instructions (default `fake`, `1.0.0`, none) |
//! | `tools` | names, or whole tool objects that are listed verbatim |
//! | `behavior` | per tool: `"echo"` or `{"sleep": {"ms": 50}}`; default: the behavior with the tool's name, or `echo` |
//! | `capabilities` | added to `{"tools": {"listChanged": true}}` |
//! | `answers` | a result by method, for methods that aren't scripted otherwise (`resources/list`) |
//! | `rawAnswers` | the exact text of a result by method; overrides everything else |
//! | `repeat` | methods that are answered with `{"repeated": <params>}`, byte for byte |
//! | `pageSize`, `repeatCursor` | paginates `tools/list`; with `repeatCursor`, every page has the same cursor |
//! | `changeOnList` | sends `list_changed` after every response to `tools/list` |
//! | `listDelayMs` | delay before the response to `tools/list` |
//! | `startDelayMs` | delay before the server reads its input |
//! | `hangOnInitialize` | never answers `initialize` |
//! | `initializeError` | `{code, message, data?}` as the response to `initialize` |
//! | `failStart` | `{code?, stderr?: [lines]}`: exits before the handshake |
//! | `failTimes` | `{n, counterFile}`: the first `n` starts fail, counted in the file |
//! | `noise` | `{stdout?: [lines], stderr?: [lines]}` at startup |
//! | `pidFile` | appends `server <pid>` at every start, and `grandchild <pid>` |
//! | `grandchild` | a sleeping child in the server's process group: `true`, `"stubborn"` (ignores SIGTERM) or `"holding"` (keeps stdout open); `"detached"`: `holding` in its own process group; `"astray"`: a daemon in its own session; `"unmarked"`: `astray` with an empty environment |
//! | `stubborn` | ignores SIGTERM and the end of its input |
//! | `exitAfterCalls` | exits with 0 after this many answered calls |
//! | `protocol` | `"legacy"` (default, `initialize`), `"modern"` (2026-07-28 only) or `"dual"` |
//! | `lean` | echoes calls as fast as possible, for benchmarks: `{content: [], structuredContent: <arguments>}`; disables behaviors |
//! | `dieOnList` | exits with 3 instead of answering `tools/list` |
//! | `dieOnInitialize`, `initializeDelayMs` | exits with 1 instead of answering `initialize`; delays that response without blocking other requests |
//! | `requestFile` | appends the method of every request |
//! | `dieOnDiscover`, `silentOnDiscover` | exits on `server/discover`, or ignores it, as old servers do |
//!
//! [`behavior::Act`] lists the behaviors and their parameters. A parameter comes from the script or
//! from the arguments of the call; the arguments win.
//!
//! Exits with 0 at the end of its input. A stubborn server and every grandchild exit after two
//! minutes, so that a failed test leaks no process for long.
#![allow(
    clippy::disallowed_methods,
    clippy::exit,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test program: it spawns, reads its environment and exits as scripted"
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

/// The default capacity of a Linux pipe.
const INPUT_BUFFER: usize = 64 * 1024;
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
