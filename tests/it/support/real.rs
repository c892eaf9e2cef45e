//! Real servers and official SDKs, as `scripts/test.sh --setup` puts them into `.test-env/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::command;

/// The official SDKs that have a client under `tests/clients/`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    /// `@modelcontextprotocol/sdk`, which only knows `initialize`.
    TypeScript,
    /// `@modelcontextprotocol/client` as it comes, without a probe.
    TypeScript2,
    /// The TypeScript SDK 2 set to probe `server/discover`.
    TypeScript2Auto,
    /// `mcp`, which probes `server/discover`.
    Python,
}

impl Sdk {
    pub(crate) const ALL: [Self; 4] =
        [Self::TypeScript, Self::TypeScript2, Self::TypeScript2Auto, Self::Python];

    /// Returns `true` if it asks for the modern era before it falls back to `initialize`.
    pub(crate) fn probes(self) -> bool {
        matches!(self, Self::TypeScript2Auto | Self::Python)
    }
}

/// The official SDKs that [`walker`] walks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkerSdk {
    /// `@modelcontextprotocol/sdk`, which only knows `initialize`.
    TypeScript1,
    /// `@modelcontextprotocol/client` as it comes, without a probe.
    TypeScript2,
    /// The TypeScript SDK 2 set to probe `server/discover`.
    TypeScript2Auto,
    /// `mcp` before its version 2, which only knows `initialize`.
    Python1,
    /// `mcp` without a probe.
    Python2,
    /// The Python SDK 2 as it comes, which probes `server/discover`.
    Python2Auto,
}

impl WalkerSdk {
    /// Returns `true` if it asks for the modern era before it falls back to `initialize`.
    pub(crate) fn probes(self) -> bool {
        matches!(self, Self::TypeScript2Auto | Self::Python2Auto)
    }
}

/// An authorization server with an MCP server that takes its tokens; without its pipe to us it ends.
#[track_caller]
pub(crate) fn authority() -> Command {
    // It wants a newer Node than the other packages.
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let node = format!("conformance/node_modules/node-linux-{machine}/bin/node");
    let mut authority = command(&installed(&node));
    authority.arg(manifest_dir().join("tests/signin/authority.mjs")).arg(installed("signin"));
    authority
}

/// A server of `FastMCP` that is its own authorization server; without its pipe to us it ends.
#[track_caller]
pub(crate) fn fastmcp() -> Command {
    let mut server = command(&installed("signin-python/bin/python"));
    server.arg(manifest_dir().join("tests/signin/fastmcp_server.py"));
    server
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

/// An executable of the environment with the first Python SDK.
#[track_caller]
pub(crate) fn pypi_v1(program: &str) -> String {
    installed(&format!("python-v1/bin/{program}"))
}

/// A file of a package from npm.
#[track_caller]
pub(crate) fn npm_file(file: &str) -> String {
    installed(&format!("node/node_modules/{file}"))
}

/// A server entry that starts this executable.
pub(crate) fn entry(command: &str, args: &[&str]) -> Value {
    json!({ "command": command, "args": args })
}

/// An SDK's client, which takes the command of the server as its further arguments.
#[track_caller]
pub(crate) fn sdk_client(sdk: Sdk, mode: &str, path: [&str; 3], arguments: Value) -> Command {
    let typescript = |package: &str, sdk: &str| {
        installed(&format!("node/node_modules/@modelcontextprotocol/{package}"));
        let mut node = command("node");
        node.arg(manifest_dir().join("tests/clients/typescript.mjs"));
        node.arg(sdk);
        node
    };
    let mut client = match sdk {
        Sdk::TypeScript => typescript("sdk", "v1"),
        Sdk::TypeScript2 => typescript("client", "v2"),
        Sdk::TypeScript2Auto => typescript("client", "v2-auto"),
        Sdk::Python => {
            let mut python = command(&pypi("python"));
            python.arg(manifest_dir().join("tests/clients/python_client.py"));
            python
        }
    };
    client.arg(mode).args(path).args([&arguments.to_string(), "--"]);
    client
}

/// A client on the first Python SDK, which takes no address that is not a valid URL. It lists and
/// reads resources and calls these tools; the command of the server are its further arguments.
#[track_caller]
pub(crate) fn address_client(tools: &[&str]) -> Command {
    let mut python = command(&installed("python-v1/bin/python"));
    python.arg(manifest_dir().join("tests/clients/addresses.py")).args(tools).arg("--");
    python
}

/// A client on the first TypeScript SDK that shows a token to the server at `url`, and looks for
/// where to get one.
#[track_caller]
pub(crate) fn bearer_client(url: &str, token: &str) -> Command {
    installed("node/node_modules/@modelcontextprotocol/sdk");
    let mut node = command("node");
    node.arg(manifest_dir().join("tests/clients/bearer.mjs")).args([url, token]);
    node
}

/// A client that walks `tests/clients/everything.json` and takes the command of the server as its
/// further arguments. It names things as the server itself does in the mode `plain`, and as the
/// gateway does in `dynamic` and `proxy`.
#[track_caller]
pub(crate) fn walker(sdk: WalkerSdk, mode: &str, toolbox: &str, server: &str) -> Command {
    let (interpreter, program, version) = match sdk {
        WalkerSdk::TypeScript1 => ("node".to_owned(), "everything.mjs", "v1"),
        WalkerSdk::TypeScript2 => ("node".to_owned(), "everything.mjs", "v2"),
        WalkerSdk::TypeScript2Auto => ("node".to_owned(), "everything.mjs", "v2-auto"),
        WalkerSdk::Python1 => (installed("python-v1/bin/python"), "everything.py", "v1"),
        WalkerSdk::Python2 => (pypi("python"), "everything.py", "v2"),
        WalkerSdk::Python2Auto => (pypi("python"), "everything.py", "v2-auto"),
    };
    let mut client = command(&interpreter);
    client.arg(manifest_dir().join("tests/clients").join(program));
    client.args([version, mode, toolbox, server, "--"]);
    client
}

#[track_caller]
fn installed(path: &str) -> String {
    let path = manifest_dir().join(".test-env").join(path);
    assert!(path.exists(), "{} is missing: run scripts/test.sh --setup", path.display());
    path.to_string_lossy().into_owned()
}

fn manifest_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
