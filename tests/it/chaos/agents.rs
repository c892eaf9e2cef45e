//! Misbehaving agents: every input is answered or ignored, and the next call succeeds.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{DEADLINE, TestEnvironment, fake};

/// The minimum of `maxMessageBytes`.
const MAX_MESSAGE: usize = 64 * 1024;

type Message = BTreeMap<String, Box<RawValue>>;

struct Rude {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Rude {
    fn start(bench: &TestEnvironment) -> Self {
        let mut command = bench.serve();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (found, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The test may have dropped the receiver.
                let _ = found.send(line);
            }
        });
        Self { child, stdin, lines }
    }

    fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stdin.write_all(bytes.as_ref()).unwrap();
    }

    /// Returns the next response line; skips notifications.
    #[track_caller]
    fn answer(&self) -> String {
        loop {
            let line = self.lines.recv_timeout(DEADLINE).expect("an answer");
            // Raw members: they may exceed number ranges and nesting limits.
            let message: Message = serde_json::from_str(&line).expect("a message");
            assert_eq!(message["jsonrpc"].get(), r#""2.0""#, "{line}");
            if message.contains_key("id") {
                return line;
            }
        }
    }

    /// Asserts that the next response is an error with this code and exactly this ID text.
    #[track_caller]
    fn refused(&self, id: &str, code: i64) {
        let line = self.answer();
        let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"#);
        assert!(line.starts_with(&begin), "{line}");
    }

    #[track_caller]
    fn is_served(&mut self) {
        self.write(call("\"alive\"", "{\"still\":true}") + "\n");
        let line = self.answer();
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":"alive","result":"#), "{line}");
        assert!(line.contains(r#""structuredContent":{"still":true}"#), "{line}");
    }
}

impl Drop for Rude {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call(id: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"all__srv__echo","arguments":{arguments}}}}}"#
    )
}

fn greeted() -> Rude {
    let bench = TestEnvironment::new()
        .set("limits", json!({"maxMessageBytes": MAX_MESSAGE}))
        .server("all", "srv", fake(json!({"tools": ["echo"]})));
    let mut agent = Rude::start(&bench);
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test-agent", "version": "1.0.0"},
    }});
    // A byte at a time.
    for byte in format!("{hello}\r\n").bytes() {
        agent.write([byte]);
    }
    assert!(agent.answer().contains(r#""id":"hello","result""#));
    agent.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    agent.is_served();
    agent
}

#[test]
fn invalid_messages_are_rejected_without_ending_the_session() {
    let mut agent = greeted();
    let deep = "[".repeat(30_000) + &"]".repeat(30_000);
    for line in [
        "hello?",
        "\0",
        "}{",
        "\"text\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}",
        &deep[..30_001],
    ] {
        agent.write(format!("{line}\n"));
        agent.refused("null", -32700);
    }
    agent.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":\"\xff\"}\n");
    agent.refused("1", -32700);
    agent.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}\n");
    agent.refused("1", -32600);
    for line in ["{}", "[]", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", "{\"id\":7}"] {
        agent.write(format!("{line}\r\n"));
        agent.refused("null", -32600);
    }
    agent.is_served();
    // Notifications and stray responses are ignored.
    agent.write("\n\r\n \t \n\n");
    for line in [
        r#"{"jsonrpc":"2.0","id":999,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":999,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unheard/of","params":1e400}"#,
        &format!(r#"{{"jsonrpc":"2.0","method":"notifications/deep","params":{deep}}}"#),
    ] {
        agent.write(format!("{line}\n"));
    }
    agent.is_served();
}

#[test]
fn oversized_message_is_rejected_with_its_original_id() {
    let mut agent = greeted();
    let blob = "m".repeat(MAX_MESSAGE);
    for id in ["17", "\"\\u0061\"", "123456789012345678901234567890", "1.0", "-0"] {
        agent.write(call(id, &format!("{{\"id\":4,\"blob\":\"{blob}\"}}")) + "\n");
        agent.refused(id, -32600);
        agent.write(format!(
            "{{\"method\":\"tools/call\",\"params\":{{\"id\":4,\"blob\":\"{blob}\"}},\"id\":{id}}}\r\n"
        ));
        agent.refused(id, -32600);
    }
    agent.write(blob + &"[".repeat(MAX_MESSAGE) + "\n");
    agent.refused("null", -32600);
    agent.is_served();
}

#[test]
fn ids_and_arguments_keep_their_spelling() {
    let mut agent = greeted();
    for id in ["0", "-1", "\"\"", "\"\\u0061\\ud800\"", "123456789012345678901234567890", "1e3"] {
        let arguments =
            r#"{ "a":-0, "b" : 1e400,"c":[1.0,"\ud800\u0000"],"a":123456789012345678901234567890}"#;
        agent.write(call(id, arguments) + "\n");
        let line = agent.answer();
        assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{line}");
    }
    // The server may reject deep nesting, but the call must be answered.
    for depth in [10, 120, 130, 10_000] {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        agent.write(call("\"deep\"", &deep) + "\n");
        let line = agent.answer();
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":"deep","#), "{line}");
    }
    agent.is_served();
}

#[test]
fn calls_with_a_duplicate_id_are_all_answered() {
    let mut agent = greeted();
    let lines: Vec<_> = (0..50).map(|n| call("1", &format!("{{\"n\":{n}}}")) + "\n").collect();
    agent.write(lines.concat());
    let mut seen: Vec<i64> = (0..50)
        .map(|_| {
            let answer: Value = serde_json::from_str(&agent.answer()).unwrap();
            assert_eq!(answer["id"], 1);
            answer["result"]["structuredContent"]["n"].as_i64().expect("an echo")
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    agent.is_served();
}
