//! Clients on the official SDKs against the gateway: each opens a toolbox and calls a tool.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::{Sdk, address_client, npm};
use crate::support::{DEADLINE, TestEnvironment, conformance, fake};

struct Seen(Vec<Value>);

impl Seen {
    #[track_caller]
    fn event(&self, name: &str) -> &Value {
        let event = self.0.iter().find(|seen| seen["event"] == name);
        event.unwrap_or_else(|| panic!("no event `{name}`: {:#?}", self.0))
    }
}

fn bench(mode: &str) -> TestEnvironment {
    let definition = json!({
        "name": "add",
        "description": "Adds",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "number" } } },
        "outputSchema": { "type": "object", "properties": { "a": { "type": "number" } } },
    });
    TestEnvironment::new()
        .set("toolMode", mode.into())
        .server("math", "calc", fake(json!({ "tools": [definition, "count"] })))
        .server("idle", "never", json!({ "command": "no-such-program-anywhere" }))
}

fn run(sdk: Sdk, mode: &str) -> Seen {
    let path = ["math", "calc", "add"];
    Seen(bench(mode).sdk(sdk, mode, path, json!({ "a": 1.5 })))
}

#[track_caller]
fn assert_called(seen: &Seen, sdk: Sdk) {
    let result = &seen.event("called")["result"];
    assert_eq!(result["structuredContent"], json!({ "a": 1.5 }), "{sdk:?}");
    assert_ne!(result["isError"], true, "{sdk:?}");
    let instructions = seen.event("connected")["instructions"].as_str();
    let instructions = instructions.unwrap_or_default();
    assert!(instructions.contains("math"), "{sdk:?}: {instructions}");
    seen.event("closed");
}

/// Dynamic mode refuses `server/discover`, so clients that probe for the modern era fall back.
#[test]
fn every_client_gets_the_registered_tools_in_dynamic_mode() {
    for sdk in Sdk::ALL {
        let seen = run(sdk, "dynamic");
        assert_eq!(seen.event("connected")["protocol"], "2025-11-25", "{sdk:?}");
        assert_eq!(seen.event("tools")["names"], json!(["open_toolbox"]));
        assert_eq!(
            seen.event("tools_after")["names"],
            json!(["open_toolbox", "math__calc__add", "math__calc__count"]),
            "{sdk:?}"
        );
        assert_eq!(seen.event("called")["name"], "math__calc__add");
        assert_called(&seen, sdk);
    }
}

/// Proxy mode offers the modern era, so clients that probe for it get it.
#[test]
fn every_client_calls_tools_in_proxy_mode() {
    for sdk in Sdk::ALL {
        let seen = run(sdk, "proxy");
        let expected = if sdk.probes() { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(seen.event("connected")["protocol"], expected, "{sdk:?}");
        let tools = json!(["open_toolbox", "use_tool"]);
        assert_eq!(seen.event("tools")["names"], tools);
        assert_eq!(seen.event("tools_after")["names"], tools);
        assert_called(&seen, sdk);
    }
}

fn over_http(
    mode: &str,
    path: &str,
    client_mode: fn(Sdk) -> &'static str,
    check: impl Fn(Sdk, &Seen),
) {
    let bench = bench(mode);
    let (_program, http) = bench.http();
    let url = format!("http://{}{path}", http.0);
    for sdk in Sdk::ALL {
        let tool = ["math", "calc", "add"];
        let seen = Seen(bench.sdk_at(&url, sdk, client_mode(sdk), tool, json!({ "a": 1.5 })));
        check(sdk, &seen);
        assert_called(&seen, sdk);
    }
}

/// Over HTTP each request has its own era, so clients that probe get the modern one.
#[test]
fn dynamic_mode_over_http_serves_each_client_in_its_era() {
    let mode = |sdk: Sdk| if sdk.probes() { "proxy" } else { "dynamic" };
    over_http("dynamic", "/mcp", mode, |sdk, seen| {
        let (protocol, tools) = if sdk.probes() {
            ("2026-07-28", json!(["open_toolbox", "use_tool"]))
        } else {
            ("2025-11-25", json!(["open_toolbox", "math__calc__add", "math__calc__count"]))
        };
        assert_eq!(seen.event("connected")["protocol"], protocol, "{sdk:?}");
        assert_eq!(seen.event("tools_after")["names"], tools, "{sdk:?}");
    });
}

#[test]
fn every_client_calls_tools_over_http() {
    over_http(
        "proxy",
        "/mcp",
        |_| "proxy",
        |sdk, seen| {
            let expected = if sdk.probes() { "2026-07-28" } else { "2025-11-25" };
            assert_eq!(seen.event("connected")["protocol"], expected, "{sdk:?}");
        },
    );
}

/// A toolbox path ignores the mode, so each client gets the era it prefers.
#[test]
fn every_client_gets_all_tools_of_one_toolbox_over_http() {
    over_http(
        "dynamic",
        "/mcp/math",
        |_| "direct",
        |sdk, seen| {
            let expected = if sdk.probes() { "2026-07-28" } else { "2025-11-25" };
            assert_eq!(seen.event("connected")["protocol"], expected, "{sdk:?}");
            assert_eq!(seen.event("tools")["names"], json!(["add", "count"]), "{sdk:?}");
        },
    );
}

fn reach_a_real_server(mode: &str) {
    let everything = json!({ "command": npm("mcp-server-everything"), "args": ["stdio"] });
    let bench =
        TestEnvironment::new().set("toolMode", mode.into()).server("box", "everything", everything);
    for sdk in Sdk::ALL {
        let path = ["box", "everything", "get-structured-content"];
        let seen = Seen(bench.sdk(sdk, mode, path, json!({ "location": "Chicago" })));
        assert_eq!(
            seen.event("called")["result"]["structuredContent"],
            json!({ "temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82 }),
            "{sdk:?}"
        );
    }
}

#[test]
fn every_client_reaches_a_real_server_in_dynamic_mode() {
    reach_a_real_server("dynamic");
}

#[test]
fn every_client_reaches_a_real_server_in_proxy_mode() {
    reach_a_real_server("proxy");
}

// invariant: names-lead-to-owner
/// The Python SDK 1 rejects a whole list or result if one URI isn't a valid URL. Namespaces can
/// contain `_`, URL schemes can't.
#[test]
fn activate_mode_lists_only_valid_uris() {
    let bench = TestEnvironment::new()
        .set("toolMode", "activate".into())
        .set("activeToolsets", json!(["*"]))
        .server("x_x", "one", conformance("legacy"));
    let client = address_client(&["x_x_test_embedded_resource", "x_x_test_multiple_content_types"]);
    let seen = Seen(bench.client(DEADLINE, client).json_lines());
    let listed = seen.event("resources")["uris"].as_array().expect("a list").clone();
    assert!(listed.contains(&json!("x-x+test://static-text")), "{listed:?}");
    assert_eq!(seen.event("templates")["uris"], json!(["x-x+test://template/{id}/data"]));
    let read = seen.0.iter().filter(|seen| seen["event"] == "read");
    assert_eq!(read.clone().count(), listed.len());
    assert!(read.into_iter().all(|read| read["uris"][0] == read["asked"]), "{:#?}", seen.0);
    let called = seen.0.iter().filter(|seen| seen["event"] == "called");
    let addresses: Vec<_> = called.map(|called| called["uris"].clone()).collect();
    assert_eq!(
        addresses,
        [json!(["test://embedded-resource"]), json!(["test://mixed-content-resource"])]
    );
    seen.event("closed");
}
