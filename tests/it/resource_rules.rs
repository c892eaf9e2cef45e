//! Access rules for resources and prompts (`resourceFilters`, `promptFilters`, `resourceOverrides`,
//! `promptOverrides`).

use std::fs;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::agent::Agent;
use crate::support::test_environment::{TOKEN_OF_ANN, TOKEN_OF_BOB};
use crate::support::{TestEnvironment, fake};

/// A server that returns the same content for every URI.
fn files() -> Value {
    fake(json!({
        "tools": ["echo", "notify"],
        "capabilities": {
            "resources": {"subscribe": true, "listChanged": true}, "prompts": {}, "completions": {},
        },
        "answers": {
            "resources/list": {"resources": [
                {"uri": "file:///docs/a", "name": "a"},
                {"uri": "file:///keys/id", "name": "key"},
            ]},
            "resources/templates/list": {"resourceTemplates": [
                {"uriTemplate": "file:///docs/{name}", "name": "doc"},
                {"uriTemplate": "file:///keys/{name}", "name": "any key"},
            ]},
            "prompts/list": {"prompts": [{"name": "sum"}, {"name": "leak"}]},
            "resources/read": {"contents": [{"uri": "file:///docs/a", "text": "CONTENT"}]},
            "resources/subscribe": {},
            "prompts/get": {"messages": [
                {"role": "user", "content": {"type": "text", "text": "WORDS"}},
            ]},
            "completion/complete": {"completion": {"values": ["x"]}},
        },
    }))
}

fn bench(mode: &str) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!(mode))
        .set("audit", json!({"file": "audit.jsonl"}))
        .set("mcpServers", json!({"files": files()}))
        .set(
            "agentPolicies",
            json!({
                "ann": {
                    "resourceOverrides": {"files": ["!*/keys/*"]},
                    "promptOverrides": {"files": ["sum"]},
                },
                "bob": {},
            }),
        )
        .set("exposedTools", json!({"files": ["*"]}))
}

fn listed(agent: &Agent, what: &str, key: &str) -> Vec<String> {
    let method = match what {
        "resourceTemplates" => "resources/templates/list".to_owned(),
        what => format!("{what}/list"),
    };
    let answer = agent.request(&method, json!({})).ok();
    let entries = answer[what].as_array().expect("a list").iter();
    entries.map(|entry| entry[key].as_str().expect("a text").to_owned()).collect()
}

fn answer(agent: &Agent, method: &str, params: Value, name: &str) -> String {
    agent.request(method, params).error().to_string().replace(name, "NAME")
}

/// Checks that the agent can't distinguish the keys and `leak` from missing items.
fn check_without(agent: &Agent, prefix: &str) {
    assert_eq!(listed(agent, "resources", "uri"), [format!("{prefix}file:///docs/a")]);
    let templates = [format!("{prefix}file:///docs/{{name}}")];
    assert_eq!(listed(agent, "resourceTemplates", "uriTemplate"), templates);
    assert_eq!(listed(agent, "prompts", "name").len(), 1);

    let docs = agent.request("resources/read", json!({"uri": format!("{prefix}file:///docs/b")}));
    assert_eq!(docs.ok()["contents"][0]["text"], "CONTENT");
    // The server itself would read all of these.
    for uri in [
        "file:///keys/id",
        "file:///keys/other",
        "FILE:///keys/id",
        "file:///%6beys/id",
        "file:///docs/../keys/id",
        "file:///docs/%2e%2e/keys/id",
        "mcp-workbench://files/files/file:///keys/id",
    ] {
        for method in ["resources/read", "resources/subscribe"] {
            let denied = answer(agent, method, json!({"uri": uri}), uri);
            let missing = "mcp-workbench://nowhere/files/file:///keys/id";
            let missing = answer(agent, method, json!({"uri": missing}), missing);
            assert_eq!(denied, missing, "{method} {uri}");
        }
        let complete = |uri: &str| {
            let reference = json!({"type": "ref/resource", "uri": uri});
            let argument = json!({"name": "name", "value": ""});
            let params = json!({"ref": reference, "argument": argument});
            answer(agent, "completion/complete", params, uri)
        };
        assert_eq!(complete(uri), complete("file:///nothing"), "{uri}");
    }
    for name in ["leak", "files_leak", "files__files__leak"] {
        let get = |name: &str| answer(agent, "prompts/get", json!({"name": name}), name);
        assert_eq!(get(name), get("nothing"), "{name}");
        let complete = |name: &str| {
            let reference = json!({"type": "ref/prompt", "name": name});
            let argument = json!({"name": "name", "value": ""});
            let params = json!({"ref": reference, "argument": argument});
            answer(agent, "completion/complete", params, name)
        };
        assert_eq!(complete(name), complete("nothing"), "{name}");
    }
}

#[test]
fn forbidden_items_do_not_exist_in_any_mode() {
    for (mode, prefix) in [("direct", ""), ("proxy", ""), ("activate", "files+")] {
        let bench = bench(mode);
        let agent = bench.agent_with(["--agent", "ann"]).relisting_on_change();
        agent.initialize();
        if mode == "proxy" {
            agent.open("files").ok();
        }
        if mode == "activate" {
            let catalog = agent.tools();
            let catalog = catalog[0]["description"].as_str().expect("a catalog");
            assert!(catalog.contains("docs/a") && !catalog.contains("key"), "{catalog}");
            continue;
        }
        check_without(&agent, prefix);
    }
}

#[test]
fn agents_over_http_have_their_own_access() {
    let digest = |token: &str| {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(token.as_bytes());
        hex::encode(digest)
    };
    let tokens = json!([
        {"agent": "ann", "sha256": digest(TOKEN_OF_ANN)},
        {"agent": "bob", "sha256": digest(TOKEN_OF_BOB)},
    ]);
    let bench = bench("direct").set("auth", json!({"tokens": tokens}));
    let ann = Agent::over_http_with(bench.http(), TOKEN_OF_ANN);
    ann.initialize();
    let bob = ann.beside_with(TOKEN_OF_BOB);
    bob.initialize();
    check_without(&ann, "");
    assert_eq!(listed(&bob, "resources", "uri"), ["file:///docs/a", "file:///keys/id"]);
    assert_eq!(listed(&bob, "resourceTemplates", "uriTemplate").len(), 2);
    assert_eq!(listed(&bob, "prompts", "name"), ["sum", "leak"]);
    let read = bob.request("resources/read", json!({"uri": "file:///keys/id"})).ok();
    assert_eq!(read["contents"][0]["text"], "CONTENT");
    bob.request("prompts/get", json!({"name": "leak"})).ok();
}

#[test]
fn updates_of_forbidden_resources_are_dropped() {
    let agent = bench("direct").agent_with(["--agent", "ann"]);
    agent.initialize();
    agent.tools();
    // A server may send updates for any URI below the subscribed one.
    for uri in ["file:///", "file:///docs/a"] {
        agent.request("resources/subscribe", json!({"uri": uri})).ok();
    }
    for uri in ["file:///keys/id", "file:///%6beys/id", "file:///docs/a", "file:///docs/b"] {
        let notice = json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
        agent.call("notify", notice).ok();
    }
    let told = [(); 2].map(|()| agent.next_notification("notifications/resources/updated"));
    assert_eq!(told.map(|told| told["uri"].clone()), ["file:///docs/a", "file:///docs/b"]);
    let all = agent.notifications();
    assert!(!all.iter().any(|told| told.to_string().contains("eys")), "{all:?}");
}

#[test]
fn denials_are_audited_with_their_rule() {
    let bench = bench("direct");
    let agent = bench.agent_with(["--agent", "ann"]);
    agent.initialize();
    agent.request("resources/read", json!({"uri": "file:///docs/a"})).ok();
    agent.request("resources/read", json!({"uri": "file:///keys/id"})).error();
    agent.request("resources/subscribe", json!({"uri": "file:///keys/id"})).error();
    agent.request("prompts/get", json!({"name": "leak"})).error();
    agent.close_stdin();
    agent.wait_end();
    let text = fs::read_to_string(bench.path("audit.jsonl")).expect("an audit");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let reads = lines.filter(|line| line["kind"] == "resource" || line["kind"] == "prompt");
    let reads = reads.map(|line| {
        ["name", "decision", "rule"].map(|key| line[key].as_str().unwrap_or_default().to_owned())
    });
    let (resources, prompts) = (
        "agent_policies.ann.resource_overrides.files",
        "agent_policies.ann.prompt_overrides.files",
    );
    assert_eq!(
        reads.collect::<Vec<_>>(),
        [
            ["file:///docs/a", "allowed", ""],
            ["file:///keys/id", "denied", resources],
            ["file:///keys/id", "denied", resources],
            ["leak", "denied", prompts],
        ]
    );
}

#[test]
fn losing_access_ends_the_subscription() {
    let bench = bench("direct");
    let agent = bench.agent_with(["--agent", "bob"]);
    agent.initialize();
    agent.tools();
    agent.next_notification("notifications/resources/list_changed");
    for uri in ["file:///keys/id", "file:///docs/a"] {
        agent.request("resources/subscribe", json!({"uri": uri})).ok();
    }
    let bench = bench.set(
        "agentPolicies",
        json!({"bob": {
            "resourceOverrides": {"files": ["!*/keys/*"]}
        }}),
    );
    bench.write_config();
    agent.signal(Signal::HUP);
    agent.next_notification("notifications/resources/list_changed");
    for uri in ["file:///keys/id", "file:///docs/a"] {
        let notice = json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
        agent.call("notify", notice).ok();
    }
    let told = agent.next_notification("notifications/resources/updated");
    assert_eq!(told, json!({"uri": "file:///docs/a"}));
}

#[test]
fn explain_and_policy_diff_cover_resources_and_prompts() {
    let bench = bench("direct");
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let explain = |args: &[&str]| {
        let output = bench.run(["explain"].iter().chain(args).copied());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    };
    let all = [
        explain(&["ann", "files", "--resource", "file:///%6beys/id"]),
        explain(&["ann", "files", "--resource", "file:///docs/a"]),
        explain(&["bob", "files", "--resource", "file:///keys/id"]),
        explain(&["ann", "files", "--prompt", "leak"]),
        explain(&["ann", "files", "--prompt", "sum", "--json"]),
    ];
    bench.settings().bind(|| insta::assert_snapshot!(all.join("\n")));
    let old = fs::read_to_string(bench.config_path()).expect("the configuration");
    let mut new: Value = serde_json::from_str(&old).expect("JSON");
    new["agentPolicies"]["bob"]["resourceOverrides"]["files"] = json!(["file:///keys/*"]);
    new["agentPolicies"]["ann"]["promptOverrides"] = json!({});
    bench.write("new.json", &new.to_string());
    bench.write("old.json", &old);
    let diff = bench.run_bare(["policy", "diff", "old.json", "new.json"]);
    assert_eq!(diff.code, Some(1));
    bench.settings().bind(|| insta::assert_snapshot!(diff.stdout));
}

#[test]
fn unmatched_patterns_are_reported() {
    let bench = TestEnvironment::new().set("mcpServers", {
        let mut server = files();
        server["resourceFilters"] = json!(["!file:///kyes/id", "file:///docs/zzz*"]);
        server["promptFilters"] = json!(["!laek"]);
        json!({"files": server})
    });
    let output = bench.run(["check", "--connect"]);
    for found in ["`!file:///kyes/id`", "`!laek`"] {
        assert!(output.stdout.contains(found) || output.stderr.contains(found), "{output:?}");
    }
    assert!(!format!("{output:?}").contains("zzz"), "warned about a template's URI: {output:?}");
}

#[test]
fn server_gets_only_the_reference_that_was_judged() {
    let script = json!({
        "tools": ["echo"],
        "capabilities": {"prompts": {}, "resources": {}, "completions": {}},
        "answers": {
            "prompts/list": {"prompts": [{"name": "ok"}]},
            "resources/list": {"resources": [{"uri": "file:///open", "name": "open"}]},
            "resources/templates/list": {"resourceTemplates": [
                {"uriTemplate": "file:///secret/{name}", "name": "secret"},
                {"uriTemplate": "file:///open/{name}", "name": "opened"},
            ]},
        },
        "repeat": ["completion/complete", "prompts/get", "resources/read"],
    });
    let mut server = fake(script);
    server["resourceFilters"] = json!(["!file:///secret*"]);
    let bench =
        TestEnvironment::new().set("toolMode", json!("direct")).server("box", "one", server);
    let agent = bench.agent().begin(false, json!({}));
    agent.tools();
    let ask = |id: &str, method: &str, params: &str| {
        agent.send_raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{{{params}}}}}"#
        ));
        agent.wait(&id.into()).line
    };
    let argument = r#""argument":{"name":"name","value":"1.50"}"#;
    let prompt = r#""ref":{"type":"ref/prompt","name":"ok","uri":"file:///secret/{name}"}"#;
    let said = ask("1", "completion/complete", &format!("{prompt},{argument}"));
    assert!(said.contains(r#""ref":{"type":"ref/prompt","name":"ok"}"#), "{said}");
    assert!(said.contains(argument) && !said.contains("secret"), "{said}");
    for (id, params) in [
        r#""ref":{"type":"ref/resource","name":"ok","uri":"file:///secret/{name}"}"#,
        r#""ref":{"type":"ref/resource","\u0075ri":"file:///secret/{name}","uri":"file:///open/{name}"}"#,
        r#""ref":{"type":"ref/resource","uri":"file:///secret/{name}"},"ref":{"type":"ref/prompt","name":"ok"}"#,
        r#""ref":{"type":"ref/other","name":"ok","uri":"file:///secret/{name}"}"#,
        r#""ref":{"name":"ok","uri":"file:///secret/{name}"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let said = ask(&format!("r{id}"), "completion/complete", &format!("{params},{argument}"));
        assert!(said.contains(r#""error""#) && !said.contains(r#""repeated""#), "{params}: {said}");
    }
    let twice = r#""uri":"file:///open","\u0075ri":"file:///secret/x","uri":"file:///secret/y""#;
    let said = ask("30", "resources/read", twice);
    assert!(said.contains("the parameter `uri` is repeated"), "{said}");
    let said = ask("31", "prompts/get", r#""name":"ok","name":"secret","arguments":{"n":"1"}"#);
    assert!(said.contains("the parameter `name` is repeated"), "{said}");
}
