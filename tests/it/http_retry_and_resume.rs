//! Servers over HTTP with unusual responses: retries, broken streams and the old transport.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, DEADLINE, TestEnvironment};

struct Asked {
    /// Method and path, such as `POST /mcp`.
    line: String,
    headers: HashMap<String, String>,
    message: Value,
}

/// A server that handles one request per connection with a closure. Its threads end with the test
/// process.
struct Scripted {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn start(path: &str, answer: impl Fn(&Asked, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        let (answer, seen) = (Arc::new(answer), Arc::<Mutex<Vec<String>>>::default());
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, noted) = (Arc::clone(&answer), Arc::clone(&noted));
                thread::spawn(move || {
                    let Some(asked) = read(&stream) else { return };
                    let method = asked.message["method"].as_str().unwrap_or_default();
                    let line = format!("{} {method}", asked.line).trim_end().to_owned();
                    noted.lock().unwrap().push(line);
                    answer(&asked, stream);
                });
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn bench(&self, more: Value) -> TestEnvironment {
        let mut entry = more;
        entry["url"] = json!(self.url);
        TestEnvironment::new().server("web", "far", entry).set("toolMode", json!("proxy"))
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let line = line.rsplit_once(' ')?.0.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { line, headers, message: serde_json::from_slice(&body).unwrap_or_default() })
}

fn refuse(mut stream: TcpStream, status: &str, headers: &str) {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
}

fn stream_of(mut stream: &TcpStream, events: &str) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(format!("{head}{events}").as_bytes());
}

fn answer(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "far", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "do", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
        _ if message["id"].is_null() => return None,
        _ => json!({}),
    };
    Some(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn streamable(asked: &Asked, mut stream: TcpStream) {
    if !asked.line.starts_with("POST") {
        return refuse(stream, "405 Method Not Allowed", "");
    }
    let Some(answer) = answer(&asked.message) else { return refuse(stream, "202 Accepted", "") };
    let body = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
}

fn opened(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

fn call(agent: &Agent) -> crate::support::agent::Response {
    agent.use_tool(["web", "far", "do"], json!({}))
}

#[test]
fn calls_are_retried_only_with_retry_after() {
    const BUSY: &str = "429 Too Many Requests";
    const AWAY: &str = "503 Service Unavailable";
    const BAD: &str = "502 Bad Gateway";
    const LATER: &str = "retry-after: 1\r\n";
    const NEVER: &str = "retry-after: 3600\r\n";
    // Status and headers of a rejection, the number of rejections, of calls sent, and success.
    for (status, headers, refusals, sent, is_done) in [
        (BUSY, LATER, 1, 2, true),
        (AWAY, LATER, 1, 2, true),
        (BUSY, LATER, 9, 3, false),
        (BUSY, NEVER, 1, 1, false),
        (BUSY, "", 1, 1, false),
        (AWAY, "", 1, 1, false),
        (BAD, "", 1, 1, false),
        // A proxy with a 502 doesn't know whether the server processed the call.
        (BAD, LATER, 1, 1, false),
    ] {
        let left = Mutex::new(refusals);
        let server = Scripted::start("/mcp", move |asked, stream| {
            let mut left = left.lock().unwrap();
            if asked.message["method"] == "tools/call" && *left > 0 {
                *left -= 1;
                return refuse(stream, status, headers);
            }
            streamable(asked, stream);
        });
        let agent = opened(&server.bench(json!({ "protocol": "legacy" })));
        let answer = call(&agent);
        let what = format!("{status} {headers:?} {refusals}: {}", answer.text());
        assert_eq!(answer.is_tool_error(), !is_done, "{what}");
        let calls = server.seen().iter().filter(|line| line.ends_with("tools/call")).count();
        assert_eq!(calls, sent, "{what}");
        if is_done {
            assert_eq!(answer.text(), "done", "{what}");
            continue;
        }
        let text = answer.text();
        assert!(
            text.contains("`far`") && text.contains(status),
            "names the server and the status: {what}"
        );
        assert!(text.contains("try again later"), "says what to do: {what}");
        // A 429 guarantees that the call had no effects.
        assert_eq!(text.contains("may or may not have had effects"), status != BUSY, "{what}");
    }
}

#[test]
fn broken_response_stream_resumes_from_the_last_event() {
    for resumed in ["200 OK", "404 Not Found", "405 Method Not Allowed"] {
        let under_way = Mutex::new(Value::Null);
        let server = Scripted::start("/mcp", move |asked, stream| {
            if asked.message["method"] == "tools/call" {
                *under_way.lock().unwrap() = asked.message.clone();
                let note = json!({
                    "jsonrpc": "2.0", "method": "notifications/message",
                    "params": { "level": "info", "data": "begun" },
                });
                return stream_of(&stream, &format!("id: e-1\nretry: 50\ndata: {note}\n\n"));
            }
            if asked.headers.get("last-event-id").is_some_and(|id| id == "e-1") {
                if resumed != "200 OK" {
                    return refuse(stream, resumed, "");
                }
                let rest = answer(&under_way.lock().unwrap()).unwrap();
                return stream_of(&stream, &format!("id: e-2\ndata: {rest}\n\n"));
            }
            streamable(asked, stream);
        });
        let agent = opened(&server.bench(json!({ "protocol": "legacy" })));
        let answer = call(&agent);
        let text = answer.text();
        assert_eq!(answer.is_tool_error(), resumed != "200 OK", "{resumed}: {text}");
        if resumed == "200 OK" {
            assert_eq!(text, "done");
        } else {
            assert!(text.contains("`far`"), "{text}");
            assert!(text.contains("may or may not have had effects"), "{resumed}: {text}");
        }
        let seen = server.seen();
        let calls = seen.iter().filter(|line| line.ends_with("tools/call")).count();
        assert_eq!(calls, 1, "{resumed}: {seen:?}");
    }
}

/// An HTTP+SSE server that can switch to streamable HTTP at the same URL.
#[derive(Clone, Default)]
struct Old {
    stream: Arc<Mutex<Option<TcpStream>>>,
    has_moved: Arc<Mutex<bool>>,
}

impl Old {
    fn start(&self) -> Scripted {
        let own = self.clone();
        Scripted::start("/sse", move |asked, stream| own.answer(asked, stream))
    }

    fn answer(&self, asked: &Asked, stream: TcpStream) {
        if *self.has_moved.lock().unwrap() {
            return streamable(asked, stream);
        }
        match asked.line.as_str() {
            "GET /sse" => {
                // The client posts as soon as it knows the endpoint. The answer needs the stream.
                let mut current = self.stream.lock().unwrap();
                stream_of(&stream, "event: endpoint\ndata: /post\n\n");
                *current = Some(stream);
            }
            "POST /post" => {
                refuse(stream, "202 Accepted", "");
                let stream = self.stream.lock().unwrap();
                if let (Some(mut stream), Some(answer)) = (stream.as_ref(), answer(&asked.message))
                {
                    let _ = stream.write_all(format!("data: {answer}\n\n").as_bytes());
                }
            }
            _ => refuse(stream, "405 Method Not Allowed", ""),
        }
    }

    fn die(&self) {
        let stream = self.stream.lock().unwrap().take().expect("a stream");
        stream.shutdown(Shutdown::Both).unwrap();
    }
}

#[test]
fn detected_transport_is_cached_for_the_next_process() {
    let old = Old::default();
    let server = old.start();
    let bench = server.bench(json!({}));
    let run = || {
        let output = bench.run(["call", "web", "far", "do"]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "done\n"), "{output}");
        server.seen()
    };
    let first = run();
    assert!(first[0].starts_with("POST /sse"), "{first:?}");
    assert!(first.contains(&"GET /sse".to_owned()), "{first:?}");
    let second = run();
    assert_eq!(second[..2], ["GET /sse", "POST /post initialize"], "{second:?}");
    assert!(!second.iter().any(|line| line.starts_with("POST /sse")), "{second:?}");
    // The server now speaks the other transport; detecting that costs one extra request.
    *old.has_moved.lock().unwrap() = true;
    let third = run();
    assert_eq!(third[0], "GET /sse", "{third:?}");
    let fourth = run();
    assert!(!fourth[0].starts_with("GET"), "{fourth:?}");
}

#[test]
fn idle_sse_server_that_disconnects_has_not_failed() {
    let old = Old::default();
    let server = old.start();
    let bench = server.bench(json!({})).set("audit", json!({ "file": "audit.jsonl" }));
    let agent = opened(&bench);
    // Which half of a connection ends first is random, so this repeats.
    for times in 1..=12 {
        assert_eq!(call(&agent).text(), "done");
        old.die();
        let end = Instant::now() + DEADLINE;
        let told = loop {
            let log = agent.stderr();
            let told = log.matches("connection closed while idle").count();
            if told + log.matches("server exited unexpectedly").count() >= times {
                break told;
            }
            assert!(Instant::now() < end, "{log}");
            thread::yield_now();
        };
        assert_eq!(told, times, "{}", agent.stderr());
        let state = loop {
            let shown: Value = serde_json::from_str(&bench.run(["ps", "--json"]).stdout).unwrap();
            let state = shown[0]["servers"][0]["state"].clone();
            if state != "running" {
                break state;
            }
            assert!(Instant::now() < end, "{shown:#}");
        };
        assert_ne!(state, "failed");
    }
    assert_eq!(call(&agent).text(), "done");
}

#[test]
fn stream_that_ends_after_each_event_is_reopened_at_a_limited_rate() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Scripted::start("/mcp", move |asked, stream| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}"#;
        let events = format!("retry: 0\nid: {number}\ndata: {message}\n\n");
        let resumes = asked.headers.contains_key("last-event-id");
        if resumes || asked.message["method"] == "tools/call" {
            stream_of(&stream, &events);
        } else {
            streamable(asked, stream);
        }
    });
    let bench = server
        .bench(json!({ "protocol": "legacy" }))
        .set("limits", json!({ "perServer": { "reconnectsPerMinute": 5 } }));
    let (program, http) = bench.http();
    let agent = Agent::over_http((program, http)).begin(false, json!({}));
    let path = json!({ "toolbox": "web", "server": "far", "tool": "do" });
    let call = agent.send_call("use_tool", json!({ "tool": path, "arguments": {} }));
    let is_reached = || {
        let figures = http.send("GET", "/metrics", &[], "").text();
        let name = "mcp_workbench_limits_reached_total{quota=\"reconnects\"}";
        figures.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0"))
    };
    while !is_reached() {
        thread::yield_now();
    }
    let resumed = server.seen().iter().filter(|line| line.starts_with("GET")).count();
    // One GET asks for the stream of server messages, which this server doesn't offer.
    assert_eq!(resumed, 5 + 1);
    agent.cancel(&call);
}
