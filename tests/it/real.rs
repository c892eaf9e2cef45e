//! The pinned servers and SDK clients work without the gateway.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Agent;
use crate::support::process::{fake_path, run_to_exit};
use crate::support::real::{Sdk, npm, pypi, sdk_client};

fn tool_count(server: String, args: &[&str]) -> usize {
    let agent = Agent::spawn(&server, args);
    agent.initialize();
    agent.tools().len()
}

#[test]
fn npm_servers_start() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path().to_str().unwrap();
    assert_eq!(tool_count(npm("mcp-server-filesystem"), &[dir]), 14);
    assert_eq!(tool_count(npm("mcp-server-memory"), &[]), 9);
    assert!(tool_count(npm("mcp-server-everything"), &["stdio"]) >= 13);
}

#[test]
fn pypi_servers_start() {
    assert_eq!(tool_count(pypi("mcp-server-time"), &["--local-timezone", "UTC"]), 2);
    assert_eq!(tool_count(pypi("mcp-server-git"), &[]), 12);
}

#[test]
fn sdk_clients_follow_a_growing_list() {
    let script = json!({
        "tools": ["open_toolbox"],
        "behavior": { "open_toolbox": { "grow": { "tools": ["tb__srv__add"] } } },
    });
    for sdk in Sdk::ALL {
        let seen = run(sdk, "dynamic", script.clone());
        assert_eq!(seen[3]["names"], json!(["open_toolbox", "tb__srv__add"]), "{sdk:?}");
        assert_eq!(seen[4]["result"]["structuredContent"], json!({ "a": 1 }), "{sdk:?}");
    }
}

#[test]
fn sdk_clients_call_through() {
    let script = json!({ "tools": ["open_toolbox", "use_tool"] });
    for sdk in Sdk::ALL {
        let seen = run(sdk, "proxy", script.clone());
        assert_eq!(
            seen[4]["result"]["structuredContent"],
            json!({
                "tool": { "toolbox": "tb", "server": "srv", "tool": "add" },
                "arguments": { "a": 1 },
            }),
            "{sdk:?}"
        );
    }
}

fn run(sdk: Sdk, mode: &str, script: Value) -> Vec<Value> {
    let mut client = sdk_client(sdk, mode, ["tb", "srv", "add"], json!({ "a": 1 }));
    client.arg(fake_path()).arg(script.to_string());
    let seen = run_to_exit(client, "").json_lines();
    let events: Vec<&Value> = seen.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["connected", "tools", "opened", "tools_after", "called", "closed"]);
    seen
}
