//! One policy with the real executable: each mode and era, and changes at runtime.

use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::{Value, json};

use crate::one_policy::MODES;
use crate::one_policy::probes::LISTS;
use crate::support::{TestEnvironment, fake};

/// A server with these tools, a resource, a template and a prompt. `turn` adds the `secret` tools.
fn server(tools: &[&str], secret: &[&str]) -> Value {
    fake(json!({
        "tools": tools,
        "instructions": "Be kind.",
        "capabilities": {"resources": {}, "prompts": {}, "completions": {}},
        "behavior": {
            "turn": {"grow": {"tools": secret}},
            "bloom": {"grow": {"tools": ["late"]}},
        },
        "answers": {
            "resources/list": {"resources": [{"uri": "note://a", "name": "a"}]},
            "resources/templates/list":
                {"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "n"}]},
            "prompts/list": {"prompts": [{"name": "sum"}]},
            "resources/read": {"contents": [{"uri": "note://a", "text": "milk"}]},
            "prompts/get": {"messages": []},
            "completion/complete": {"completion": {"values": ["x"]}},
        },
    }))
}

fn with(mode: &str) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!(mode))
        .server("desk", "one", server(&["read", "drop", "turn", "bloom", "secret"], &["secret_2"]))
        .server("desk", "two", server(&["read", "write"], &[]))
        .server("desk", "broken", json!({"command": "/no/such/program"}))
        .server("lab", "one", server(&["read", "secret"], &[]))
        .server("vault", "keys", server(&["read", "unlock"], &[]))
        .set("mcpServers", json!({"solo": server(&["list", "drop"], &[]), "hidden": server(&["x"], &[])}))
        .set(
            "agentPolicies",
            json!({"ann": {
                "allowedServers": ["one", "two", "solo", "keys"],
                "toolOverrides": {"one": ["r*", "desk__one__turn", "one:bloom", "late"], "keys": []},
            }}),
        )
        .set("exposedTools", json!({"two": ["*"], "solo": ["list"], "hidden": ["*"]}))
}

fn without(mode: &str) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!(mode))
        .server("desk", "one", server(&["read", "turn", "bloom"], &[]))
        .server("desk", "two", server(&["read", "write"], &[]))
        .server("lab", "one", server(&["read"], &[]))
        .set("mcpServers", json!({"solo": server(&["list"], &[])}))
}

fn requests() -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| {
        ("tools/call", json!({"name": name, "arguments": arguments}))
    };
    let mut requests: Vec<_> = LISTS.iter().map(|method| (*method, json!({}))).collect();
    for toolbox in ["desk", "lab", "vault", "hidden", "solo", "desks"] {
        requests.push(call("open_toolbox", json!({"toolbox": toolbox})));
        requests
            .push(call("open_toolbox", json!({"toolbox": toolbox, "tools": ["read", "secret"]})));
        requests.push(call("get-modular-tools", json!({"group": toolbox})));
        requests.push(call("search_tools", json!({"queries": [format!("{toolbox} secret")]})));
        let within = json!({"queries": ["read or drop"], "toolbox": toolbox, "detail": "full"});
        requests.push(call("search_tools", within));
    }
    for (toolbox, server, tool) in [
        ("desk", "one", "read"),
        ("desk", "one", "secret"),
        ("desk", "one", "drop"),
        ("desk", "one", "nothing"),
        ("desk", "broken", "read"),
        ("lab", "one", "secret"),
        ("vault", "keys", "unlock"),
        ("hidden", "hidden", "x"),
        ("solo", "solo", "drop"),
        ("solo", "solo", "list"),
    ] {
        let path = json!({"toolbox": toolbox, "server": server, "tool": tool});
        requests.push(call("use_tool", json!({"tool": path, "arguments": {}})));
        requests.push(call(&format!("{toolbox}__{server}__{tool}"), json!({})));
        requests.push(call(tool, json!({})));
        requests
            .push(call("call-modular-tool", json!({"group": toolbox, "name": tool, "args": {}})));
        requests.push(call("toolman_activate", json!({"tools_on": [format!("{toolbox}_{tool}")]})));
        requests.push(call(&format!("{toolbox}_{tool}"), json!({})));
        let task = json!({"task": format!("{tool} with {toolbox}"), "arguments": {}});
        requests.push(call("execute_task", task));
    }
    requests.push(call("toolman_activate", json!({"list": "*"})));
    for uri in
        ["note://a", "vault_note://a", "mcp-workbench://vault/keys/note://a", "desk_note://a"]
    {
        requests.push(("resources/read", json!({"uri": uri})));
        let reference = json!({"type": "ref/resource", "uri": uri});
        let argument = json!({"name": "id", "value": ""});
        requests.push(("completion/complete", json!({"ref": reference, "argument": argument})));
    }
    for name in ["sum", "vault__keys__sum", "hidden__hidden__sum", "desk_sum", "desk__one__sum"] {
        requests.push(("prompts/get", json!({"name": name})));
    }
    requests.push(("server/discover", json!({})));
    requests.extend(LISTS.iter().map(|method| (*method, json!({}))));
    requests
}

/// Every response that the agent receives, without its ID. Relisting also uses IDs, and the number
/// of list changes depends on when servers start.
fn answers(bench: &TestEnvironment, is_modern: bool) -> Vec<String> {
    let agent = bench.agent_with(["--agent", "ann"]).relisting_on_change();
    let agent = if is_modern {
        agent.modern()
    } else {
        agent.initialize();
        agent
    };
    for (method, params) in requests() {
        agent.request(method, params);
    }
    let number = Regex::new(r#"^< \{"jsonrpc":"2.0","id":\d+,"#).expect("a pattern");
    let received = agent.transcript().into_iter().filter(|line| number.is_match(line));
    received.map(|line| number.replace(&line, "").into_owned()).collect()
}

// invariant: forbidden-equals-missing
#[test]
fn responses_are_equal_without_the_forbidden_items() {
    for mode in MODES {
        for is_modern in [false, true] {
            let with = answers(&with(mode), is_modern);
            assert_eq!(with.len(), requests().len() + usize::from(!is_modern));
            assert_eq!(with, answers(&without(mode), is_modern), "{mode}, modern: {is_modern}");
        }
    }
}

// invariant: forbidden-equals-missing
#[test]
fn changes_of_forbidden_tools_are_not_announced() {
    for mode in ["dynamic", "activate", "direct"] {
        let heard = [with(mode), without(mode)].map(|bench| {
            let agent = bench.agent_with(["--agent", "ann"]);
            agent.initialize();
            let tool = if mode == "activate" {
                let names = json!({"tools_on": ["desk_turn", "desk_bloom"]});
                agent.call("toolman_activate", names).ok();
                "desk_turn"
            } else {
                agent.open("desk").ok();
                "desk__one__turn"
            };
            agent.tools();
            let before = agent.notifications().len();
            agent.call(tool, json!({})).ok();
            // Expects no notification. Changes within 50 ms would be merged into one.
            thread::sleep(Duration::from_millis(200));
            let quiet = agent.notifications().len() - before;
            agent.call(&tool.replace("turn", "bloom"), json!({})).ok();
            agent.next_notification("notifications/tools/list_changed");
            // A late notification of the opening can come first.
            let is_new = |name: &String| name.ends_with("late");
            while mode != "activate" && !agent.tool_names().iter().any(is_new) {
                agent.next_notification("notifications/tools/list_changed");
            }
            (quiet, agent.tool_names())
        });
        assert_eq!(heard[0], heard[1], "{mode}");
        assert_eq!(heard[0].0, 0, "{mode}");
    }
}
