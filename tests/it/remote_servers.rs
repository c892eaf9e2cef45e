//! Servers over HTTP against a scripted endpoint: both eras, failures and redaction of secrets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::TestEnvironment;

const SECRET: &str = "hunter2-hunter2";
const KEY: &str = "key-of-the-query";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerFault {
    None,
    /// A proxy in front of it responds with 502 and echoes the request.
    BadGateway,
    HangsUp,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// MCP 2025-11-25, with sessions.
    Legacy,
    /// MCP 2026-07-28.
    Modern,
    /// Rejects every request with 401.
    Closed,
}

/// A server with one tool, `echo`. Its threads end with the test process.
struct Remote {
    url: String,
    seen: Receiver<String>,
    fault: Arc<Mutex<ServerFault>>,
}

impl Remote {
    fn start(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (sender, seen) = channel();
        let fault = Arc::new(Mutex::new(ServerFault::None));
        let has = Arc::clone(&fault);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (sender, fault) = (sender.clone(), *has.lock().unwrap());
                if fault == ServerFault::Gone {
                    return;
                }
                thread::spawn(move || serve(kind, fault, &stream.unwrap(), &sender));
            }
        });
        Self { url, seen, fault }
    }

    fn has(&self, fault: ServerFault) {
        *self.fault.lock().unwrap() = fault;
        let address = self.url.trim_start_matches("http://").trim_end_matches("/mcp");
        // The listener stops at the next connection.
        while fault == ServerFault::Gone && TcpStream::connect(address).is_ok() {}
    }

    fn entry(&self) -> Value {
        let authorization = format!("Bearer ${{TOKEN:-{SECRET}}}");
        json!({ "url": self.url, "headers": { "Authorization": authorization } })
    }
}

fn serve(kind: Kind, fault: ServerFault, stream: &TcpStream, seen: &Sender<String>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            return;
        }
    }
    let head = head.to_lowercase();
    let header = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let is_known = header("authorization") == Some(format!("bearer {SECRET}"));
    let verb = head.split(' ').next().unwrap();
    let _ = seen.send(format!("{verb} {method}"));

    let is_modern = header("mcp-protocol-version").as_deref() == Some("2026-07-28");
    let has_session = header("mcp-session-id").as_deref() == Some("s1");
    let (status, headers, result) = match (kind, method.as_str()) {
        (_, "tools/call" | "resources/read") if fault == ServerFault::HangsUp => return,
        (_, "tools/call" | "resources/read") if fault == ServerFault::BadGateway => {
            (502, "", json!(null))
        }
        (Kind::Closed, _) => (401, "", json!(null)),
        _ if !is_known => (403, "", json!(null)),
        (Kind::Legacy, "initialize") => {
            let result = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {}, "resources": {} },
                "serverInfo": { "name": "far", "version": "1" },
            });
            (200, "mcp-session-id: s1\r\n", result)
        }
        (Kind::Legacy, _) if !has_session => (400, "", json!(null)),
        (Kind::Modern, _) if !is_modern => (400, "", json!(null)),
        (Kind::Modern, "server/discover") => {
            let result = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {}, "resources": {} },
                "ttlMs": 0,
                "cacheScope": "private",
            });
            (200, "", result)
        }
        (_, "notifications/initialized") => (202, "", json!(null)),
        (_, "tools/list") => {
            let echo = json!({ "name": "echo", "inputSchema": { "type": "object" } });
            (200, "", json!({ "tools": [echo] }))
        }
        (_, "resources/list") => {
            (200, "", json!({ "resources": [{ "uri": "note://a", "name": "a" }] }))
        }
        (_, "resources/templates/list") => (200, "", json!({ "resourceTemplates": [] })),
        (_, "tools/call") => {
            let text = message["params"]["arguments"].to_string();
            (200, "", json!({ "content": [{ "type": "text", "text": text }] }))
        }
        (_, "") if verb == "delete" => (200, "", json!(null)),
        _ => (405, "", json!(null)),
    };
    let body = match result {
        Value::Null => format!("no: {SECRET} asked {}", head.lines().next().unwrap_or_default()),
        result => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string(),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    let _ = (&*stream).write_all(answer.as_bytes());
}

#[test]
fn a_server_over_http_is_called_in_either_era() {
    for (kind, ends_session) in [(Kind::Legacy, true), (Kind::Modern, false)] {
        let remote = Remote::start(kind);
        let bench = TestEnvironment::new().server("web", "far", remote.entry());
        let output = bench.run(["call", "web", "far", "echo", r#"{"a": 1.0}"#]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "{\"a\":1.0}\n"), "{output}");
        let seen: Vec<_> = remote.seen.try_iter().collect();
        assert_eq!(seen.first().map(String::as_str), Some("post server/discover"), "{seen:?}");
        // The stream for changes opens concurrently and may come after the call.
        assert!(seen.iter().any(|request| request == "post tools/call"), "{seen:?}");
        let is_ended = seen.last().is_some_and(|request| request == "delete ");
        assert_eq!(is_ended, ends_session, "{seen:?}");
    }
}

#[test]
fn a_server_over_http_is_checked() {
    let remote = Remote::start(Kind::Legacy);
    let bench = TestEnvironment::new().server("web", "far", remote.entry());
    let output = bench.run(["check"]);
    assert!(output.stdout.contains("http://127.0.0.1:"), "{output}");
    assert!(!output.stdout.contains("/mcp"), "{output}");
    let output = bench.run(["check", "--connect"]);
    assert!(output.stdout.contains("1 of 1 server started: 1 tool"), "{output}");
}

#[test]
fn connection_failures_are_explained_with_a_hint() {
    let closed = Remote::start(Kind::Closed);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = json!({ "url": format!("http://{nobody}/{SECRET}") });
    let elsewhere = Remote::start(Kind::Modern);
    let elsewhere = json!({
        "url": elsewhere.url,
        "protocol": "legacy",
        "headers": { "Authorization": format!("Bearer {SECRET}") },
    });
    for (entry, reason, hint) in [
        (closed.entry(), "401 Unauthorized", "set an access token in `headers`"),
        (nobody, "refused", "check that the server is running"),
        (elsewhere, "400 Bad Request", "check the path of its `url`"),
    ] {
        let bench = TestEnvironment::new().server("web", "far", entry);
        let output = bench.run(["call", "web", "far", "echo", "--log-level", "trace"]);
        let said = output.to_string();
        assert_eq!(output.code, Some(1), "{said}");
        assert!(said.contains(reason) && said.contains(hint), "{said}");
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn import_reports_servers_that_require_a_login() {
    let closed = Remote::start(Kind::Closed);
    let open = Remote::start(Kind::Legacy);
    let servers = json!({ "closed": { "url": closed.url }, "open": open.entry() });
    let bench =
        TestEnvironment::new().file("mcp.json", &json!({ "mcpServers": servers }).to_string());
    let output = bench.run_bare(["import", "mcp.json", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let grades = report["added"].as_array().unwrap().iter();
    let mut grades: Vec<_> =
        grades.map(|added| (added["server"].as_str(), added["carried_over"].as_str())).collect();
    grades.sort_unstable();
    assert_eq!(grades, [(Some("closed"), Some("approximate")), (Some("open"), Some("exact"))]);
    let told = report["findings"].to_string();
    assert!(told.contains("requires a sign-in"), "{told}");
}

// invariant: store-is-a-cache
#[test]
fn changed_token_keeps_the_cached_listing() {
    let remote = Remote::start(Kind::Legacy);
    let bench = TestEnvironment::new().server("web", "far", remote.entry());
    let output = bench.run(["cache", "refresh"]);
    assert_eq!(output.code, Some(0), "{output}");
    let state = |bench: &TestEnvironment| {
        let report = bench.run(["cache", "list", "--json"]).stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        report["listings"][0]["state"].clone()
    };
    let renewed = json!({ "url": remote.url, "headers": { "Authorization": "Bearer renewed" } });
    let bench = bench.server("web", "far", renewed);
    assert_eq!(state(&bench), "cached");
    // Another server name can mean another account with other tools, so its cache entry is
    // separate.
    let box_of_other = json!({ "description": "x", "mcpServers": { "other": remote.entry() } });
    let bench = bench.config(json!({ "toolboxes": { "web": box_of_other } }));
    assert_eq!(state(&bench), "missing");
}

#[test]
fn lost_server_is_named_with_a_hint() {
    for kind in [Kind::Legacy, Kind::Modern] {
        let remote = Remote::start(kind);
        let mut entry = remote.entry();
        entry["url"] = format!("{}?key={KEY}", remote.url).into();
        let agent =
            TestEnvironment::new().server("web", "far", entry).agent().relisting_on_change();
        agent.initialize();
        agent.open("web").ok();
        assert!(!agent.call("web__far__echo", json!({})).is_tool_error());
        for (fault, reason, hint) in [
            (ServerFault::BadGateway, "HTTP status 502", "try again later"),
            (ServerFault::HangsUp, "connection lost", "try again later"),
            (ServerFault::Gone, "unreachable", "check that the server is running"),
        ] {
            remote.has(fault);
            let lost = agent.call("web__far__echo", json!({}));
            assert!(lost.is_tool_error(), "{fault:?}: {}", lost.text());
            let read = agent.request("resources/read", json!({ "uri": "note://a" })).error();
            let message = read["message"].as_str().expect("a message").to_owned();
            for said in [lost.text(), message] {
                assert!(said.starts_with("server `far`: "), "{said}");
                assert!(said.contains(reason) && said.contains(hint), "{said}");
                assert!(!said.contains(SECRET) && !said.contains(KEY), "{said}");
            }
            let may_have_come = lost.text().contains("may or may not have had effects");
            assert_eq!(may_have_come, fault != ServerFault::Gone, "{}", lost.text());
        }
    }
}
