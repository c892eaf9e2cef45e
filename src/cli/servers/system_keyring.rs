//! Stores logins in the system keyring through `secret-tool` (Secret Service).
//!
//! Secrets pass through its stdin and stdout, because other processes can see arguments and the
//! environment. A locked keyring fails after `TIMEOUT`.

use std::io;
use std::path::Path;
use std::time::Duration;

use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::launch::capture::{
    CaptureCommand, CapturedOutput, capture_with_input,
};
use mcp_workbench_os::Platform;

const SERVICE: &str = "mcp-workbench";
const TIMEOUT: Duration = Duration::from_secs(2);
/// Size limit of a login, in bytes.
const MAX: u64 = 1024 * 1024;
const HINT: &str = "install `secret-tool` (package `libsecret-tools`) and unlock the keyring";

pub(crate) struct SystemKeyring;

impl mcp_workbench_login::Keyring for SystemKeyring {
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let answer = ask(&["lookup"], name, &[])?;
        match (answer.is_success, answer.said.is_empty()) {
            (true, _) => Ok(Some(answer.stdout)),
            // `secret-tool` prints nothing for a missing entry.
            (false, true) => Ok(None),
            (false, false) => Err(failed(&answer.said)),
        }
    }

    fn put(&self, name: &str, secret: &[u8]) -> io::Result<()> {
        done(&ask(&["store", "--label=MCP Workbench login"], name, secret)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let answer = ask(&["clear"], name, &[])?;
        // `secret-tool` fails silently if the entry is missing.
        if answer.said.is_empty() { Ok(()) } else { done(&answer) }
    }
}

fn done(answer: &CapturedOutput) -> io::Result<()> {
    if answer.is_success { Ok(()) } else { Err(failed(&answer.said)) }
}

fn failed(why: &str) -> io::Error {
    let why = if why.is_empty() { "`secret-tool` failed" } else { why };
    io::Error::other(format!("failed to use the keyring: {why}; {HINT}"))
}

fn ask(verb: &[&str], name: &str, input: &[u8]) -> io::Result<CapturedOutput> {
    if Platform::THIS != Platform::Linux {
        let why = "logins can be stored in the keyring only on Linux (Secret Service)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let words = [&["secret-tool"], verb, &["service", SERVICE, "username", name]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let environment = ProcessEnv.vars();
    let command =
        CaptureCommand { words: &words, folder: Path::new("/"), environment: &environment };
    capture_with_input(&command, input, MAX, TIMEOUT).map_err(|failure| failed(&failure.reason))
}
