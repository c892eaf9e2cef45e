//! Servers whose output isn't quite MCP: each request is answered, and with the server's reason.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::TestEnvironment;

/// A server that answers `tools/call` with the line in `ANSWER`, in which `%s` is the id.
const SCRIPT: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"fine","inputSchema":{"type":"object"}}]}' ;;
    *'"fine"'*) result='{"content":[{"type":"text","text":"fine"}]}' ;;
    *'"work"'*) printf "$ANSWER\n" "$id"; continue ;;
    *) continue ;;
  esac
  [ -z "$ID" ] || id=$ID
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

fn shell(script: &str, env: Value) -> Value {
    json!({ "command": "sh", "args": ["-c", script], "env": env, "callTimeoutMs": 600_000 })
}

#[test]
fn call_with_a_malformed_response_fails_with_an_excerpt() {
    for (answer, excerpt) in [
        (
            r#"{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"mean":NaN}}}"#,
            r#""mean":NaN"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"\\351"}]}}"#,
            "escape",
        ),
        (r#"{"jsonrpc":"2.0","result":{"content":[]},"id":%s,}"#, r#""content":[]"#),
        (r#"{"jsonrpc":"2.0","id":%s}"#, r#""jsonrpc":"2.0""#),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"kaboom %s"}}"#, "kaboom"),
    ] {
        let bench =
            TestEnvironment::new().server("box", "odd", shell(SCRIPT, json!({ "ANSWER": answer })));
        let agent = bench.agent();
        agent.initialize();
        agent.open("box");
        let failed = agent.call("box__odd__work", json!({}));
        let said = format!("{failed:?}");
        assert!(said.contains(excerpt) || said.replace('\\', "").contains(excerpt), "{said}");
        assert_eq!(agent.call("box__odd__fine", json!({})).text(), "fine");
    }
}

fn failure(entry: Value) -> Value {
    let bench = TestEnvironment::new().server("box", "odd", entry);
    let agent = bench.agent();
    agent.initialize();
    let opened: Value = serde_json::from_str(&agent.open("box").text()).unwrap();
    assert_eq!(opened["servers_connected"], 0, "{opened}");
    opened["failed_servers"][0].clone()
}

#[test]
fn failed_start_quotes_stdout() {
    let usage = "echo 'usage: server --token TOKEN'; echo '  (no token given)'; exit 2";
    let failed = failure(shell(usage, json!({})));
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("exit code 2"), "{failed}");
    assert!(reason.contains("\n> usage: server --token TOKEN\n> "), "{failed}");
    assert!(reason.contains("(no token given)"), "{failed}");
}

#[test]
fn opening_that_waits_no_longer_still_reports_the_last_failure() {
    let mut hanging = shell("while read -r line; do :; done", json!({}));
    // Longer than an opening waits for servers that it knows.
    hanging["startupTimeoutMs"] = 3500.into();
    let bench = TestEnvironment::new().server("box", "odd", hanging).server(
        "box",
        "good",
        shell(SCRIPT, json!({})),
    );
    let agent = bench.agent();
    agent.initialize();
    for _ in 0..2 {
        let opened: Value = serde_json::from_str(&agent.open("box").text()).unwrap();
        assert_eq!(opened["servers_connected"], 1, "{opened}");
        let reason = opened["failed_servers"][0]["reason"].as_str().unwrap();
        assert_eq!(reason, "not ready within 3500 ms");
    }
}

#[test]
fn responses_under_a_wrong_id_are_the_reason_of_a_failed_start() {
    let mut entry = shell(SCRIPT, json!({ "ID": "0" }));
    entry["startupTimeoutMs"] = 1500.into();
    let failed = failure(entry);
    assert!(
        failed["reason"].as_str().unwrap().contains("response with the unknown id 0"),
        "{failed}"
    );
    assert!(failed["hint"].as_str().unwrap().contains("stdout must hold only MCP"), "{failed}");
}

#[test]
fn content_length_framing_is_the_reason_of_a_failed_start() {
    let framing = "printf 'Content-Length: 52\\r\\n\\r\\n'; while read -r line; do :; done";
    let mut entry = shell(framing, json!({}));
    entry["startupTimeoutMs"] = 1500.into();
    let failed = failure(entry);
    assert!(failed["reason"].as_str().unwrap().contains("> Content-Length: 52"), "{failed}");
}

#[test]
fn cause_at_the_beginning_of_a_stack_trace_is_the_reason_shown() {
    let frame = "    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)";
    let trace = format!(
        "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n\
         Error: Cannot find module '/opt/server/index.js'\n{}{{\n  code: 'MODULE_NOT_FOUND',\n  \
         requireStack: []\n}}\n\nNode.js v22.11.0",
        format!("{frame}\n").repeat(40),
    );
    let failed = failure(shell("printf '%s\\n' \"$TRACE\" >&2; exit 1", json!({ "TRACE": trace })));
    let reason = failed["reason"].as_str().unwrap();
    assert!(
        reason.contains("stderr:\n> Error: Cannot find module '/opt/server/index.js'"),
        "{reason}"
    );
    assert!(!reason.contains("resolveFilename"), "{reason}");
}

struct Request {
    method: String,
    head: String,
    message: Value,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn version(&self) -> Option<&str> {
        let params = &self.message["params"];
        self.header("mcp-protocol-version").or(params["protocolVersion"].as_str())
    }

    fn rpc(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }
}

type Reply = (u16, String);

/// A legacy server over HTTP with the tool `echo`. `reject` decides which requests it rejects.
struct Remote {
    url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Remote {
    fn start(reject: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (seen, reject) = (Arc::default(), Arc::new(reject));
        let all: Arc<Mutex<Vec<Value>>> = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (all, reject) = (Arc::clone(&all), Arc::clone(&reject));
                thread::spawn(move || serve(&stream.unwrap(), &*reject, &all));
            }
        });
        Self { url, seen }
    }

    /// Returns the parameters of all requests with this method.
    fn seen(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        let of_method = seen.iter().filter(|message| message["method"] == method);
        of_method.map(|message| message["params"].clone()).collect()
    }
}

fn serve(stream: &TcpStream, reject: &dyn Fn(&Request) -> Option<Reply>, all: &Mutex<Vec<Value>>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let mut request = Request {
        method: head.split(' ').next().unwrap().to_owned(),
        head: head.to_lowercase(),
        message: Value::Null,
    };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.message = serde_json::from_slice(&body).unwrap_or_default();
    all.lock().unwrap().push(request.message.clone());
    let result = match request.rpc() {
        "initialize" => json!({
            "protocolVersion": request.version(),
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "far", "version": "1" },
        }),
        "tools/list" => {
            json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "echoed" }] }),
        _ => Value::Null,
    };
    let (status, body) = match reject(&request) {
        Some(reply) => reply,
        None if request.method != "POST" => (405, String::new()),
        None if request.message["id"].is_null() => (202, String::new()),
        None if result.is_null() => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            (
                200,
                json!({ "jsonrpc": "2.0", "id": request.message["id"], "error": error })
                    .to_string(),
            )
        }
        None => (
            200,
            json!({ "jsonrpc": "2.0", "id": request.message["id"], "result": result }).to_string(),
        ),
    };
    let session = if request.rpc() == "initialize" { "mcp-session-id: s1\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n{session}\r\n{body}",
        body.len()
    );
    let _ = (&*stream).write_all(answer.as_bytes());
}

fn call(remote: &Remote, changes: Value) -> crate::support::process::Output {
    let mut entry = json!({ "url": remote.url });
    entry.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    TestEnvironment::new().server("web", "far", entry).run(["call", "web", "far", "echo"])
}

#[test]
fn offered_protocol_version_is_tried() {
    let offer =
        "Bad Request: Unsupported protocol version (supported versions: 2025-03-26, 2025-06-18)";
    let text = |request: &Request| {
        let is_known = matches!(request.version(), Some("2025-03-26" | "2025-06-18"));
        (request.method == "POST" && !is_known).then(|| (400, offer.to_owned()))
    };
    let rpc = |request: &Request| {
        let data =
            json!({ "supported": ["2024-11-05", "2025-06-18"], "requested": request.version() });
        let error =
            json!({ "code": -32602, "message": "Unsupported protocol version", "data": data });
        let body = json!({ "jsonrpc": "2.0", "id": request.message["id"], "error": error });
        let is_first = matches!(request.rpc(), "initialize" | "server/discover");
        (is_first && request.version() != Some("2025-06-18")).then(|| (400, body.to_string()))
    };
    for remote in [Remote::start(text), Remote::start(rpc)] {
        let called = call(&remote, json!({}));
        assert_eq!((called.code, called.stdout.trim()), (Some(0), "echoed"), "{called}");
        let last = remote.seen("initialize").pop().unwrap();
        assert_eq!(last["protocolVersion"], "2025-06-18");
    }
}

#[test]
fn protocol_can_pin_a_version() {
    // Says nothing about the versions that it supports.
    let remote = Remote::start(|request| {
        let is_known = request.version() == Some("2025-03-26");
        (request.method == "POST" && !is_known).then(|| (400, "unsupported version".to_owned()))
    });
    assert_eq!(call(&remote, json!({})).code, Some(1));
    let called = call(&remote, json!({ "protocol": "2025-03-26" }));
    assert_eq!((called.code, called.stdout.trim()), (Some(0), "echoed"), "{called}");
}

#[test]
fn lost_session_is_replaced_once_in_whatever_words() {
    for (status, body) in [
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#,
        ),
        (401, r#"{"error":"Session not found"}"#),
        (500, r#"{"error":"Session terminated"}"#),
        (503, "unknown session"),
        (200, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Session not found"}}"#),
    ] {
        let is_lost = Mutex::new(true);
        let remote = Remote::start(move |request| {
            let is_lost =
                request.rpc() == "tools/call" && std::mem::take(&mut *is_lost.lock().unwrap());
            is_lost.then(|| (status, body.replace("ID", &request.message["id"].to_string())))
        });
        let called = call(&remote, json!({}));
        assert_eq!((called.code, called.stdout.trim()), (Some(0), "echoed"), "{status}: {called}");
        assert_eq!(remote.seen("initialize").len(), 2, "{status}");
        assert_eq!(remote.seen("tools/call").len(), 2, "{status}");
    }
}

// invariant: at-most-once
#[test]
fn session_that_is_lost_again_and_again_ends_the_call() {
    let remote = Remote::start(|request| {
        (request.rpc() == "tools/call").then(|| (401, "Session not found".to_owned()))
    });
    let called = call(&remote, json!({}));
    assert_eq!(called.code, Some(1), "{called}");
    assert!(called.stderr.contains("rejected every new session as unknown"), "{called}");
    assert!(!called.stderr.contains("auth login"), "{called}");
    assert!(remote.seen("initialize").len() <= 5);
}

#[test]
fn reason_of_a_token_endpoint_is_shown() {
    for (status, body, reason) in [
        (500, r#"{"oops":"the database is down"}"#, "the database is down"),
        (503, "<html>later</html>", "HTTP status 503"),
        (401, r#"[{"logref":"1","message":"Bad credentials"}]"#, "Bad credentials"),
        (400, "the secret s3cret-s3cret is wrong", "the secret *** is wrong"),
    ] {
        let address = Arc::new(Mutex::new(String::new()));
        let at = Arc::clone(&address);
        let remote = Remote::start(move |request| {
            let base = at.lock().unwrap().clone();
            let path = request.head.split(' ').nth(1).unwrap();
            if path == "/token" {
                return Some((status, body.to_owned()));
            }
            if path.starts_with("/.well-known/oauth-protected-resource") {
                let resource = format!("{base}/mcp");
                return Some((
                    200,
                    json!({ "resource": resource, "authorization_servers": [base] }).to_string(),
                ));
            }
            if path.starts_with("/.well-known/") {
                let metadata = json!({
                    "issuer": base,
                    "authorization_endpoint": format!("{base}/a"),
                    "token_endpoint": format!("{base}/token"),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                });
                return Some((200, metadata.to_string()));
            }
            Some((401, String::new()))
        });
        *address.lock().unwrap() = remote.url.trim_end_matches("/mcp").to_owned();
        let oauth = json!({
            "grant": "client_credentials", "clientId": "me", "clientSecret": "s3cret-s3cret",
        });
        let called = call(&remote, json!({ "oauth": oauth }));
        assert_eq!(called.code, Some(1), "{called}");
        assert!(called.stderr.contains("cannot obtain an access token"), "{called}");
        assert!(called.stderr.contains("/token returned HTTP status"), "{called}");
        assert!(called.stderr.contains(reason), "{called}");
        assert!(!called.stderr.contains("`headers`"), "{called}");
        assert!(!called.to_string().contains("s3cret"), "{called}");
    }
}
