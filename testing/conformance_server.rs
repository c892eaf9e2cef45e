//! An MCP server over stdio for the server scenarios of the official conformance suite.
//!
//! It uses plain threads and no SDK, and rejects everything that the spec forbids. The optional
//! argument selects the protocol: `legacy` (2025-11-25 and older, with `initialize`), `modern`
//! (2026-07-28) or `both`, the default.
//!
//! The suite defines the names, texts and schemas of the tools, prompts and resources. Tools that
//! need input send a server request (legacy) or return an `input_required` result (modern). The
//! tasks and skills extensions are offered only to modern clients.
//!
//! Exits with 0 at the end of its input.
#![allow(
    clippy::exit,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for tests"
)]

use std::io::{BufRead, stdin};
use std::process::exit;
use std::sync::Arc;

#[path = "conformance_server/capability.rs"]
mod capability;
#[path = "conformance_server/change.rs"]
mod change;
#[path = "conformance_server/completion.rs"]
mod completion;
#[path = "conformance_server/content.rs"]
mod content;
#[path = "conformance_server/dialogue.rs"]
mod dialogue;
#[path = "conformance_server/forms.rs"]
mod forms;
#[path = "conformance_server/prompts.rs"]
mod prompts;
#[path = "conformance_server/request.rs"]
mod request;
#[path = "conformance_server/resources.rs"]
mod resources;
#[path = "conformance_server/server.rs"]
mod server;
#[path = "conformance_server/skills.rs"]
mod skills;
#[path = "conformance_server/state.rs"]
mod state;
#[path = "conformance_server/tasks.rs"]
mod tasks;
#[path = "conformance_server/tool_list.rs"]
mod tool_list;
#[path = "conformance_server/tools.rs"]
mod tools;
#[path = "conformance_server/wire.rs"]
mod wire;

use request::Eras;
use server::Server;

fn main() {
    let word = std::env::args().nth(1).unwrap_or_else(|| "both".to_owned());
    let Some(eras) = Eras::from_word(&word) else {
        eprintln!(
            "conformance-server: unknown argument `{word}`: expected `legacy`, `modern` or `both`"
        );
        exit(2);
    };
    let server = Arc::new(Server::new(eras));
    for line in stdin().lock().lines() {
        match line {
            Ok(line) => server.receive(&line),
            Err(_) => break,
        }
    }
    exit(0);
}
