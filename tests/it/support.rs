//! The harness: a [`Bench`] with a configuration and fake servers, and an [`Agent`] on its stdio.
//!
//! Everything is raw JSON-RPC over pipes, so that tests see what a client sees. All waiting is on
//! events, under one [`DEADLINE`].
#![allow(dead_code, reason = "a helper may be ahead of the test that wants it")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests spawn the program themselves, with a cleared environment"
)]

use std::process::Command;
use std::time::Duration;

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod far;
pub(crate) mod http;
pub(crate) mod issuer;
pub(crate) mod llm;
pub(crate) mod process;
pub(crate) mod real;
pub(crate) mod secured;
pub(crate) mod signer;
pub(crate) mod snapshot;

pub(crate) use agent::{Agent, RequestId, Response};
pub(crate) use bench::{Bench, conformance, fake};

/// Compares a page of the documentation, of which nothing is written by hand, with what it is to be.
/// `UPDATE_EXPECT=1` writes it.
pub(crate) fn expect_page(file: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, text).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).expect("the page is there");
    pretty_assertions::assert_eq!(page, text, "{file}: run with UPDATE_EXPECT=1");
}

/// How long a test waits for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The variable that begins a rehearsal (`rehearsal`), in tests and in the programs that they run.
pub(crate) const REHEARSAL: &str = "WORKBENCH_REHEARSAL";

/// A command that inherits nothing but the search path. A workbench that has no folder of the test
/// for its home keeps nothing, so that nobody's cache is touched.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("MCP_WORKBENCH_CACHE", "/dev/null");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}
