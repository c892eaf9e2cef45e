//! Shutdown over HTTP: accepted requests are answered, new ones are rejected.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http::{HttpClient, HttpWorkbench, Session, request, tool};
use crate::support::{TestEnvironment, fake};

fn bench() -> TestEnvironment {
    let script = json!({ "tools": ["echo", "sleep"] });
    TestEnvironment::new().server("box", "fake", fake(script)).set("toolMode", json!("proxy"))
}

fn serve(timeout: &str) -> (HttpWorkbench, HttpClient) {
    let (program, http) = bench().http_with(["--shutdown-timeout", timeout]);
    program.0.close_stdin();
    (program, http)
}

fn long(ms: u32) -> Value {
    let mut params = tool("sleep", json!({ "ms": ms, "progressEveryMs": 20 }));
    params["_meta"] = json!({ "progressToken": 1 });
    params
}

#[test]
fn zero_timeout_exits_without_waiting_for_clients() {
    let (program, http) = serve("0s");
    let session = Session::begin(http);
    let mut stream = session.get(None);
    let mut call = session.post(&request(1, "tools/call", long(60_000)));
    assert!(stream.event().is_some() && call.event().is_some());
    program.0.signal(Signal::TERM);
    assert_eq!(program.0.wait_exit(Duration::from_secs(3)).code(), Some(0));
}

// invariant: shutdown-is-complete
#[test]
fn second_signal_exits_immediately() {
    let (program, http) = serve("1h");
    let session = Session::begin(http);
    let mut call = session.post(&request(1, "tools/call", long(60_000)));
    assert!(call.event().is_some());
    program.0.signal(Signal::TERM);
    program.0.wait_stderr("draining: rejecting new requests");
    program.0.signal(Signal::TERM);
    assert_eq!(program.0.wait_exit(Duration::from_secs(3)).code(), Some(0));
}

#[test]
fn exits_immediately_without_running_calls() {
    let (program, http) = serve("1h");
    let session = Session::begin(http);
    let mut stream = session.get(None);
    assert!(stream.event().is_some());
    let mut listening = http.modern("subscriptions/listen", json!({ "notifications": {} }), &[]);
    assert!(listening.event().is_some());
    program.0.signal(Signal::INT);
    assert_eq!(program.0.wait_exit(Duration::from_secs(3)).code(), Some(0));
    assert_eq!(stream.event(), None);
}

// invariant: shutdown-is-complete
#[test]
fn draining_rejects_new_requests() {
    let (program, http) = serve("1h");
    assert_eq!(http.send("GET", "/ready", &[], "").status, 200);
    let session = Session::begin(http);
    let mut call = session.post(&request(1, "tools/call", long(60_000)));
    assert!(call.event().is_some());
    program.0.signal(Signal::TERM);
    program.0.wait_stderr("draining: rejecting new requests");

    let ready = http.send("GET", "/ready", &[], "");
    assert_eq!((ready.status, ready.json()), (503, json!({ "status": "draining" })));
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" },
    });
    for refused in [
        http.post(&[], &request(0, "initialize", params)),
        session.post(&request(2, "tools/list", json!({}))),
        http.modern("tools/list", json!({}), &[]),
    ] {
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("2")));
        assert_eq!(refused.json()["error"]["code"], -32000);
    }
    // A cancellation of a running call still gets through.
    assert_eq!(session.cancel(1).status, 202);
    assert_eq!(program.0.wait_exit(Duration::from_secs(3)).code(), Some(0));
}

// invariant: shutdown-is-complete
/// Clients of both eras call until they get a 503. Every call before that must be answered.
#[test]
fn a_drain_under_load_loses_no_call() {
    const CLIENTS: usize = 12;
    let (program, http) = serve("30s");
    // Keeps the drain from ending before every client has been rejected.
    let last = Session::begin(http);
    let mut held = last.post(&request(1, "tools/call", long(60_000)));
    assert!(held.event().is_some());
    let (answered, under_way) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |client: usize| {
        let session = (client.is_multiple_of(2)).then(|| Session::begin(http));
        loop {
            under_way.fetch_add(1, Ordering::SeqCst);
            // Some responses are streams, and some calls outlast the signal.
            let (ms, tells) = ([0, 30, 120][client % 3], client % 4 < 2);
            let mut params = tool("sleep", json!({ "ms": ms, "progressEveryMs": 10 }));
            if tells {
                params["_meta"] = json!({ "progressToken": client });
            }
            let answer = match &session {
                Some(session) => session.post(&request(7, "tools/call", params)),
                None => http.modern("tools/call", params, &[("Mcp-Name", "use_tool")]),
            };
            if answer.status == 503 {
                return;
            }
            assert_eq!(answer.status, 200);
            let last = if answer.header("content-type") == Some("text/event-stream") {
                answer.messages().pop().expect("an answer")
            } else {
                answer.json()
            };
            assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(7), &Value::Null));
            answered.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || work(client));
        }
        while answered.load(Ordering::SeqCst) < 5 * CLIENTS {
            thread::yield_now();
        }
        program.0.signal(Signal::TERM);
    });
    let (answered, under_way) = (answered.into_inner(), under_way.into_inner());
    assert_eq!(under_way - answered, CLIENTS, "each client was rejected once");
    assert_eq!(last.cancel(1).status, 202);
    assert_eq!(program.0.wait_exit(Duration::from_secs(5)).code(), Some(0));
}

#[test]
fn drain_delay_accepts_requests_while_not_ready() {
    let (program, http) = bench().http_with(["--shutdown-timeout", "1s", "--drain-delay", "1h"]);
    program.0.close_stdin();
    let session = Session::begin(http);
    program.0.signal(Signal::TERM);
    program.0.wait_stderr("requests are accepted for another 3600s");

    let ready = http.send("GET", "/ready", &[], "");
    assert_eq!((ready.status, ready.json()), (503, json!({ "status": "draining" })));
    let answer = session.post(&request(2, "tools/list", json!({})));
    assert_eq!(answer.status, 200, "existing sessions work while draining");
    assert_eq!(Session::begin(http).post(&request(2, "ping", json!({}))).status, 200);
    program.0.signal(Signal::TERM);
    assert_eq!(program.0.wait_exit(Duration::from_secs(3)).code(), Some(0));
}
