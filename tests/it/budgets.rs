//! Limits on what servers and agents can make the workbench keep: subscriptions, lists, buffered
//! messages and reconnects.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::http::{HttpClient, Session, request};
use crate::support::{Agent, TestEnvironment, fake};

fn library(limits: Value) -> TestEnvironment {
    let script = json!({
        "tools": ["echo", "turn"],
        "behavior": { "turn": { "turn": { "answers": {} } } },
        "capabilities": { "resources": { "subscribe": true, "listChanged": true } },
        "answers": {
            "resources/list": { "resources": [] },
            "resources/templates/list": {
                "resourceTemplates": [{ "uriTemplate": "file:///{path}", "name": "file" }],
            },
            "resources/subscribe": {},
            "resources/unsubscribe": {},
        },
    });
    TestEnvironment::new().set("toolMode", json!("direct")).set("limits", limits).server(
        "box",
        "srv",
        fake(script),
    )
}

fn figure(http: HttpClient, name: &str) -> Option<u64> {
    let figures = http.send("GET", "/metrics", &[], "").text();
    let line = figures.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

/// How often a limit was reached.
fn reached(http: HttpClient, quota: &str) -> u64 {
    let name = format!("mcp_workbench_limits_reached_total{{quota=\"{quota}\"}}");
    figure(http, &name).unwrap_or_default()
}

/// Waits until the limit was reached once.
fn wait_reached(http: HttpClient, quota: &str) {
    while reached(http, quota) == 0 {
        std::thread::yield_now();
    }
}

fn subscribe(agent: &Agent, uri: &str) -> crate::support::agent::Response {
    agent.request("resources/subscribe", json!({ "uri": uri }))
}

fn assert_over(error: &Value, key: &str) {
    assert_eq!(error["code"], -32000, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains(key)), "{error}");
}

// invariant: limits-hit-own-caller
#[test]
fn subscriptions_beyond_the_limit_are_rejected_and_freed() {
    let limits = json!({ "perCaller": { "maxSubscriptions": 3, "maxSubscriptionBytes": 1000 } });
    for over_http in [false, true] {
        let bench = library(limits.clone());
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent.begin(false, json!({}));
        agent.tools();
        let long = format!("file:///{}", "x".repeat(1000));
        assert_over(&subscribe(&agent, &long).error(), "limits.perCaller.maxSubscriptionBytes");
        for number in 0..3 {
            subscribe(&agent, &format!("file:///{number}")).ok();
        }
        assert_over(&subscribe(&agent, "file:///3").error(), "limits.perCaller.maxSubscriptions");
        subscribe(&agent, "file:///0").ok();
        agent.request("resources/unsubscribe", json!({ "uri": "file:///0" })).ok();
        subscribe(&agent, "file:///3").ok();
        if over_http {
            // A new session of the caller shares the limit, and the end of a session frees it.
            let other = agent.beside().begin(false, json!({}));
            assert_over(&subscribe(&other, "file:///4").error(), "maxSubscriptions");
            agent.leave();
            subscribe(&other, "file:///4").ok();
        }
    }
}

// invariant: limits-hit-own-caller
#[test]
fn modern_subscriptions_beyond_the_limit_are_rejected() {
    let limits = json!({ "perCaller": { "maxSubscriptions": 3, "maxSubscriptionBytes": 1000 } });
    for over_http in [false, true] {
        let bench = library(limits.clone());
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent.begin(true, json!({}));
        agent.tools();
        let listen = |uris: Value| {
            let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
            agent.request("subscriptions/listen", filter).error()
        };
        let many: Vec<_> = (0..4).map(|number| format!("file:///{number}")).collect();
        assert_over(&listen(json!(many)), "limits.perCaller.maxSubscriptions");
        let long = format!("file:///{}", "x".repeat(1000));
        assert_over(&listen(json!([long])), "limits.perCaller.maxSubscriptionBytes");
        let filler = "x".repeat(200_000);
        assert_over(&listen(json!([filler])), "limits.perCaller.maxSubscriptionBytes");
        // The refused ones hold nothing, and a URI counts once.
        let first = agent.send_request(
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": ["file:///a", "file:///a"] } }),
        );
        let granted = agent.next_notification("notifications/subscriptions/acknowledged");
        assert_eq!(granted["notifications"]["resourceSubscriptions"], json!(["file:///a"]));
        assert_over(&listen(json!(["file:///b", "file:///c", "file:///d"])), "maxSubscriptions");
        agent.cancel(&first);
    }
}

fn listing(limits: Value, script: Value) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("limits", json!({ "perServer": limits }))
        .server("box", "many", fake(script))
        .server("box", "few", fake(json!({ "tools": ["other"] })))
}

// invariant: no-unrelated-failures
#[test]
fn list_entries_beyond_the_limit_are_left_out() {
    let script = json!({ "tools": ["a", "b", "c", "d", "e", "f"], "pageSize": 2 });
    for (most, names) in
        [(6, vec!["a", "b", "c", "d", "e", "f"]), (5, vec!["a", "b", "c", "d", "e"])]
    {
        let bench = listing(json!({ "maxListEntries": most }), script.clone());
        let (program, http) = bench.http();
        let agent = Agent::over_http((program, http)).begin(false, json!({}));
        let mut all = names.clone();
        all.push("other");
        let mut found = agent.tool_names();
        found.sort();
        assert_eq!(found, all);
        agent.call("e", json!({ "n": 1 })).ok();
        let is_over = most < 6;
        if is_over {
            agent.program().wait_stderr("limits.perServer.maxListEntries");
            assert_eq!(reached(http, "listing_entries"), 1);
        }
    }
    let bench = listing(json!({ "maxListEntries": 5 }), script);
    let checked = bench.run(["check", "--connect"]);
    let said = checked.stderr;
    assert!(said.contains("`tools/list` has more than 5 entries"), "{said}");
}

#[test]
fn list_bytes_beyond_the_limit_are_left_out() {
    let tool = |name: &str| json!({ "name": name, "description": "x".repeat(1000), "inputSchema": { "type": "object" } });
    let script = json!({ "tools": [tool("a"), tool("b"), tool("c")], "pageSize": 1 });
    let bench = listing(json!({ "maxListBytes": 2500 }), script);
    let (program, http) = bench.http();
    let agent = Agent::over_http((program, http)).begin(false, json!({}));
    let mut found = agent.tool_names();
    found.sort();
    assert_eq!(found, ["a", "b", "other"]);
    assert_eq!(reached(http, "listing_bytes"), 1);
    agent.program().wait_stderr("limits.perServer.maxListBytes");
}

#[test]
fn unreadable_resource_templates_are_kept_from_before() {
    let agent = library(json!({})).agent().begin(false, json!({}));
    agent.tools();
    let templates = || agent.request("resources/templates/list", json!({})).ok();
    let before = templates();
    assert_eq!(before["resourceTemplates"].as_array().map(Vec::len), Some(1), "{before}");
    let broken = json!({ "resources/templates/list": { "resourceTemplates": 5 } });
    agent.call("turn", json!({ "answers": broken, "changed": ["resources"] })).ok();
    agent.wait_stderr("failed to list resource templates");
    assert_eq!(templates(), before);
}

#[test]
fn list_that_always_changes_is_read_at_a_limited_rate() {
    let bench = TestEnvironment::new().set("toolMode", json!("direct"));
    let file = bench.path_text("requests");
    let script = json!({ "tools": ["echo"], "changeOnList": true, "requestFile": file });
    let bench = bench.set("limits", json!({ "perServer": { "listChangesPerMinute": 3 } })).server(
        "box",
        "srv",
        fake(script),
    );
    let (program, http) = bench.http();
    let agent = Agent::over_http((program, http)).begin(false, json!({}));
    agent.call("echo", json!({})).ok();
    wait_reached(http, "reconnects");
    let requests = std::fs::read_to_string(&file).expect("requests");
    let lists = requests.lines().filter(|method| *method == "tools/list").count();
    assert_eq!(lists, 1 + 3, "the first list and three changes");
    agent.program().wait_stderr("limits.perServer.listChangesPerMinute");
    agent.call("echo", json!({})).ok();
}

fn huge(server: &str, bytes: u32) -> Value {
    let path = json!({ "toolbox": "box", "server": server, "tool": "huge" });
    json!({ "name": "use_tool", "arguments": { "tool": path, "arguments": { "bytes": bytes } } })
}

// invariant: limits-hit-own-caller
#[test]
fn unread_messages_of_one_server_do_not_delay_another() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .set("limits", json!({ "maxMessageBytes": 8 << 20, "maxBytesInFlight": 8 << 20 }))
        .server("box", "slow", fake(json!({ "tools": ["huge"] })))
        .server("box", "other", fake(json!({ "name": "other", "tools": ["huge"] })));
    let (_program, http) = bench.http();
    let session = Session::begin(http);
    let unread: Vec<_> = (1..5)
        .map(|id| {
            let call = request(id, "tools/call", huge("slow", 6_000_000)).to_string();
            http.write("POST", "/mcp", &session.headers(), &call)
        })
        .collect();
    wait_reached(http, "server_bytes");
    let call = request(9, "tools/call", huge("other", 1_000_000));
    let answer = Session::begin(http).post(&call).last();
    let text = answer["result"]["content"][0]["text"].as_str().map(str::len);
    assert_eq!(text, Some(1_000_000));
    // The further results of that server still wait: the client has read none.
    let done = "mcp_workbench_tool_calls_total{toolbox=\"box\",server=\"slow\",outcome=\"ok\"}";
    assert!(figure(http, done).is_some_and(|done| done <= 2));
    drop(unread);
}

// invariant: limits-hit-own-caller
#[test]
fn server_with_many_unanswered_requests_gets_errors() {
    const ELICIT: &str = "elicitation/create";
    let limits = json!({ "perServer": { "maxOpenRequests": 2 } });
    let bench = TestEnvironment::new().set("toolMode", json!("direct")).set("limits", limits);
    let bench = bench.server("box", "srv", fake(json!({ "tools": ["ask"] })));
    let ask = json!({ "method": ELICIT, "params": {
        "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } });
    for over_http in [false, true] {
        let http = over_http.then(|| bench.http());
        let figures = http.as_ref().map(|(_, http)| *http);
        let agent = http.map_or_else(|| bench.agent(), Agent::over_http);
        let agent = agent.without_reply(ELICIT).begin(false, json!({ "elicitation": {} }));
        let calls = [(); 2].map(|()| {
            let call = agent.send_call("ask", ask.clone());
            (call, agent.next_request(ELICIT))
        });
        let refused = agent.call("ask", ask.clone()).structured();
        assert_eq!(refused["error"]["code"], -32000, "{refused}");
        for (call, request) in calls {
            agent.respond(&request, json!({ "action": "accept", "content": {} }));
            assert_eq!(agent.wait(&call).structured()["result"]["action"], "accept");
        }
        let unknown = json!({ "method": "x/unknown", "params": {} });
        assert_eq!(agent.call("ask", unknown).structured()["error"]["code"], -32601);
        if let Some(http) = figures {
            wait_reached(http, "server_requests");
        }
    }
}

// invariant: no-unrelated-failures
#[test]
fn schema_of_one_server_does_not_delay_calls_of_others() {
    let next = |number: usize| json!({ "$ref": format!("#/$defs/d{number}") });
    let defs = (1..40).map(|number| {
        let before = next(number - 1);
        (format!("d{number}"), json!({ "anyOf": [before, before] }))
    });
    let mut defs: serde_json::Map<_, _> = defs.collect();
    defs.insert("d0".to_owned(), json!({ "type": "integer" }));
    let schema = json!({ "type": "object", "$defs": defs, "properties": { "p": next(39) } });
    let slow = fake(json!({
        "tools": [{ "name": "slow", "inputSchema": schema }],
        "behavior": { "slow": { "tool_error": { "text": "failed" } } },
    }));
    let bench = TestEnvironment::new().set("toolMode", json!("proxy"));
    let bench = bench.server("bad", "bad", slow);
    let bench = bench.server("box", "srv", fake(json!({ "tools": ["echo"] })));
    for over_http in [false, true] {
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent.begin(false, json!({}));
        let failed = agent.use_tool(["bad", "bad", "slow"], json!({ "p": "text" }));
        assert!(failed.is_tool_error() && failed.text().contains("failed"), "{failed:?}");
        agent.use_tool(["box", "srv", "echo"], json!({})).ok();
    }
}
