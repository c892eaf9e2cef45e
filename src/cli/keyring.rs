//! The system's keyring, asked by its own program, for logins that are kept there.
//!
//! Secrets go to it by its input and come back by its output: arguments and the environment are for other processes to
//! see. Nobody is kept waiting for a keyring that wants to be unlocked.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::backend::launch::printed::{Answer, Printing, answered};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::login;
use crate::os::Platform;

/// The attribute that all our entries have.
const SERVICE: &str = "mcp-workbench";
/// How long the keyring may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest login, in bytes.
const MAX: u64 = 1024 * 1024;
/// The advice where it cannot be reached.
const HINT: &str =
    "`secret-tool`, of the package `libsecret-tools`, has to reach a keyring that is unlocked";

/// The keyring of whoever runs us.
pub(super) struct Keyring;

impl login::Keyring for Keyring {
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let answer = ask(&["lookup"], name, &[])?;
        match (answer.is_success, answer.said.is_empty()) {
            (true, _) => Ok(Some(answer.printed)),
            // It says nothing of one that it does not have.
            (false, true) => Ok(None),
            (false, false) => Err(failed(&answer.said)),
        }
    }

    fn put(&self, name: &str, secret: &[u8]) -> io::Result<()> {
        done(&ask(&["store", "--label=MCP Workbench: sign-in at a server"], name, secret)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let answer = ask(&["clear"], name, &[])?;
        // It fails without a word where there was none.
        if answer.said.is_empty() { Ok(()) } else { done(&answer) }
    }
}

fn done(answer: &Answer) -> io::Result<()> {
    if answer.is_success { Ok(()) } else { Err(failed(&answer.said)) }
}

fn failed(why: &str) -> io::Error {
    let why = if why.is_empty() { "it says no" } else { why };
    io::Error::other(format!("the keyring cannot be used: {why}; {HINT}"))
}

/// Runs the program of the keyring.
fn ask(verb: &[&str], name: &str, input: &[u8]) -> io::Result<Answer> {
    if Platform::THIS != Platform::Linux {
        let why = "logins can be kept in the keyring of Linux alone (Secret Service)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let words = [&["secret-tool"], verb, &["service", SERVICE, "username", name]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let environment = ProcessEnv.vars();
    let command = Printing { words: &words, folder: Path::new("/"), environment: &environment };
    answered(&command, input, MAX, PATIENCE).map_err(|failure| failed(&failure.reason))
}
