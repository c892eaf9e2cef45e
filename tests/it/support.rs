//! The harness: a [`TestEnvironment`] with a configuration and fake servers, and an [`Agent`] on
//! its stdio.
//!
//! Agents exchange raw JSON-RPC, so tests see the exact bytes that a client sees. Waits are bounded
//! by [`DEADLINE`].
#![allow(dead_code, reason = "not every test uses every helper")]
#![allow(clippy::disallowed_methods, reason = "tests spawn the program with a cleared environment")]

use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) mod agent;
pub(crate) mod http;
pub(crate) mod issuer;
pub(crate) mod llm;
pub(crate) mod process;
pub(crate) mod real;
pub(crate) mod real_http_server;
pub(crate) mod signer;
pub(crate) mod snapshot;
pub(crate) mod test_environment;
pub(crate) mod tls;

pub(crate) use agent::{Agent, RequestId, Response};
pub(crate) use test_environment::{TestEnvironment, conformance, fake};

/// Compares a generated page of the documentation with `text`. `UPDATE_EXPECT=1` writes it.
pub(crate) fn expect_page(file: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, text).expect("a writable page");
    }
    let page = std::fs::read_to_string(&path).expect("a page");
    pretty_assertions::assert_eq!(page, text, "{file}: run with UPDATE_EXPECT=1");
}

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Turns on the test store `round_trip`, in tests and in the programs that they run.
pub(crate) const REHEARSAL_VAR: &str = "WORKBENCH_REHEARSAL";

/// A command with only `PATH` in its environment. The cache is `/dev/null`, so a workbench without
/// a home folder of the test never touches the user's cache.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("WORKBENCH_CACHE_DIR", "/dev/null");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Polls `read` until it returns a value. Fails with `problem` at the deadline.
#[track_caller]
pub(crate) fn wait<T>(problem: &str, mut read: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = read() {
            return found;
        }
        assert!(Instant::now() < end, "{problem}");
        std::thread::yield_now();
    }
}
