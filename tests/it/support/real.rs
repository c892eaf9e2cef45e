//! Real servers and official SDKs, installed into `.test-env/` by `scripts/test.sh --setup`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::command;

/// The official SDKs with a client under `tests/clients/`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    /// `@modelcontextprotocol/sdk`, which only knows `initialize`.
    TypeScript,
    /// `@modelcontextprotocol/client` with its defaults, which doesn't probe.
    TypeScript2,
    /// The TypeScript SDK 2 set to probe `server/discover`.
    TypeScript2Auto,
    /// `mcp`, which probes `server/discover`.
    Python,
}

impl Sdk {
    pub(crate) const ALL: [Self; 4] =
        [Self::TypeScript, Self::TypeScript2, Self::TypeScript2Auto, Self::Python];

    /// Returns `true` if it tries `server/discover` before `initialize`.
    pub(crate) fn probes(self) -> bool {
        matches!(self, Self::TypeScript2Auto | Self::Python)
    }
}

/// The official SDKs that [`walker`] supports. Those with `Auto` probe `server/discover`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkerSdk {
    TypeScript1,
    TypeScript2,
    TypeScript2Auto,
    Python1,
    Python2,
    Python2Auto,
}

impl WalkerSdk {
    pub(crate) fn probes(self) -> bool {
        matches!(self, Self::TypeScript2Auto | Self::Python2Auto)
    }
}

/// The official SDKs that [`list_client`] supports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListSdk {
    TypeScript1,
    TypeScript2,
    TypeScript2Auto,
    Python1,
    Python2,
}

/// A client that reads every list and fails if its SDK rejects one. Append the command of the
/// server.
#[track_caller]
pub(crate) fn list_client(sdk: ListSdk, toolbox: &str) -> Command {
    let (interpreter, version) = match sdk {
        ListSdk::TypeScript1 => ("node".to_owned(), Some("v1")),
        ListSdk::TypeScript2 => ("node".to_owned(), Some("v2")),
        ListSdk::TypeScript2Auto => ("node".to_owned(), Some("v2-auto")),
        ListSdk::Python1 => (installed("python-v1/bin/python"), None),
        ListSdk::Python2 => (pypi("python"), None),
    };
    let mut client = command(&interpreter);
    let program = if version.is_some() { "lists.mjs" } else { "lists.py" };
    client.arg(manifest_dir().join("tests/clients").join(program)).args(version);
    client.args([toolbox, "--"]);
    client
}

/// An authorization server and an MCP server that accepts its tokens. It exits when its stdin
/// closes.
#[track_caller]
pub(crate) fn authority() -> Command {
    // It needs a newer Node than the other packages.
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let node = format!("conformance/node_modules/node-linux-{machine}/bin/node");
    let mut authority = command(&installed(&node));
    authority.arg(manifest_dir().join("tests/signin/authority.mjs")).arg(installed("signin"));
    authority
}

/// A `FastMCP` server that is its own authorization server. It exits when its stdin closes.
#[track_caller]
pub(crate) fn fastmcp() -> Command {
    let mut server = command(&installed("signin-python/bin/python"));
    server.arg(manifest_dir().join("tests/signin/fastmcp_server.py"));
    server
}

/// An issuer with token exchange (idpyoidc), and a server that accepts its tokens. It exits when its
/// stdin closes.
#[track_caller]
pub(crate) fn exchange() -> Command {
    let mut server = command(&installed("signin-python/bin/python"));
    server.arg(manifest_dir().join("tests/signin/exchange.py"));
    server
}

/// An executable from npm, such as `mcp-server-everything`.
#[track_caller]
pub(crate) fn npm(server: &str) -> String {
    installed(&format!("node/node_modules/.bin/{server}"))
}

/// An executable from `PyPI`, such as `mcp-server-time`.
#[track_caller]
pub(crate) fn pypi(server: &str) -> String {
    installed(&format!("python/bin/{server}"))
}

#[track_caller]
pub(crate) fn pypi_v1(program: &str) -> String {
    installed(&format!("python-v1/bin/{program}"))
}

#[track_caller]
pub(crate) fn uvx() -> String {
    installed("uv/bin/uvx")
}

/// npm's cache with the packages that tests install with `npx`, for `npm_config_offline`.
#[track_caller]
pub(crate) fn npm_downloads() -> String {
    installed("downloads/npm/_cacache")
}

/// A folder with the wheels of the `PyPI` servers, for `UV_FIND_LINKS`.
#[track_caller]
pub(crate) fn wheels() -> String {
    installed("downloads/wheels")
}

#[track_caller]
pub(crate) fn npm_file(file: &str) -> String {
    installed(&format!("node/node_modules/{file}"))
}

pub(crate) fn entry(command: &str, args: &[&str]) -> Value {
    json!({ "command": command, "args": args })
}

/// A client on this SDK. Append the command of the server.
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

/// A client on the Python SDK 1, which rejects URIs that aren't valid URLs. It lists and reads
/// resources and calls these tools. Append the command of the server.
#[track_caller]
pub(crate) fn address_client(tools: &[&str]) -> Command {
    let mut python = command(&installed("python-v1/bin/python"));
    python.arg(manifest_dir().join("tests/clients/addresses.py")).args(tools).arg("--");
    python
}

/// A client on the TypeScript SDK 1 that sends a token to `url` and discovers the authorization
/// server.
#[track_caller]
pub(crate) fn bearer_client(url: &str, token: &str) -> Command {
    installed("node/node_modules/@modelcontextprotocol/sdk");
    let mut node = command("node");
    node.arg(manifest_dir().join("tests/clients/bearer.mjs")).args([url, token]);
    node
}

/// A client that walks `tests/clients/everything.json`. Append the command of the server. Mode
/// `plain` uses the names of the server, `dynamic` and `proxy` the names of the gateway.
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
