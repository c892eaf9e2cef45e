//! Real servers and official SDKs, as `scripts/test.sh --setup` puts them into `.test-env/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::command;

/// The official SDKs that have a client under `tests/clients/`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    TypeScript,
    Python,
}

/// The executable of a server from npm, such as `mcp-server-everything`.
#[track_caller]
pub(crate) fn npm(server: &str) -> String {
    installed(&format!("node/node_modules/.bin/{server}"))
}

/// The executable of a server from `PyPI`, such as `mcp-server-time`.
#[track_caller]
pub(crate) fn pypi(server: &str) -> String {
    installed(&format!("python/bin/{server}"))
}

/// A server entry that starts this executable.
pub(crate) fn entry(command: &str, args: &[&str]) -> Value {
    json!({ "command": command, "args": args })
}

/// An SDK's client, which takes the command of the server as its further arguments.
#[track_caller]
pub(crate) fn sdk_client(sdk: Sdk, mode: &str, path: [&str; 3], arguments: Value) -> Command {
    let mut client = match sdk {
        Sdk::TypeScript => {
            installed("node/node_modules/@modelcontextprotocol/sdk/package.json");
            let mut node = command("node");
            node.arg(manifest_dir().join("tests/clients/typescript.mjs"));
            node
        }
        Sdk::Python => {
            let mut python = command(&pypi("python"));
            python.arg(manifest_dir().join("tests/clients/python_client.py"));
            python
        }
    };
    client
        .arg(mode)
        .args(path)
        .args([&arguments.to_string(), "--"]);
    client
}

#[track_caller]
fn installed(path: &str) -> String {
    let path = manifest_dir().join(".test-env").join(path);
    assert!(
        path.exists(),
        "{} is missing: run scripts/test.sh --setup",
        path.display()
    );
    path.to_string_lossy().into_owned()
}

fn manifest_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
