//! Named agents that connect over HTTP, open and search everything, and stay connected.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const DEADLINE: Duration = Duration::from_mins(1);

/// Killed on drop.
pub(crate) struct Agents {
    child: Child,
    address: SocketAddr,
}

impl Agents {
    /// `command` gets the configuration keys for `count` agents with tokens and equal permissions.
    pub(crate) fn serve(count: usize, command: impl FnOnce(Value) -> Command) -> Self {
        let tokens = (0..count).map(|agent| {
            let digest = Sha256::digest(token(agent).as_bytes());
            let sha256 = digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            json!({ "agent": format!("agent{agent}"), "sha256": sha256 })
        });
        let tokens: Vec<_> = tokens.collect();
        let policies = (0..count).map(|agent| (format!("agent{agent}"), json!({})));
        let policies: Map<_, _> = policies.collect();
        let said = json!({
            "auth": { "tokens": tokens },
            "agentPolicies": policies,
            "defaultPolicy": { "allowUnknownTools": true },
            "http": { "maxSessions": count + 1 },
        });
        let mut child = command(said).spawn().expect("the program starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = log.find_map(|line| {
            let line = line.ok()?;
            let (_, rest) = line.split_once("http://")?;
            rest.split_once("/mcp")?.0.parse().ok()
        });
        // Drain stderr, so that the program never blocks on a full pipe.
        thread::spawn(move || log.count());
        Self { child, address: address.expect("an address") }
    }

    pub(crate) fn come(&mut self, agents: Range<usize>) {
        for agent in agents {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "bench", "version": "1" },
            });
            let session = self.post(agent, None, "initialize", &params).expect("a session");
            for (tool, arguments) in [
                ("open_toolbox", json!({ "toolbox": "box" })),
                ("search_tools", json!({ "query": "say again" })),
                ("box__srv0__say_0_7", json!({ "text": "hello" })),
            ] {
                let params = json!({ "name": tool, "arguments": arguments });
                self.post(agent, Some(&session), "tools/call", &params);
            }
        }
    }

    fn post(
        &self,
        agent: usize,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Option<String> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (body, token) = (body.to_string(), token(agent));
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let text = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n{session}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len(),
        );
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a connection");
        stream.write_all(text.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\"result\""), "{answer}");
        let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session"));
        Some(line?.split_once(": ")?.1.trim().to_owned())
    }

    /// The anonymous memory of the program, in KB.
    pub(crate) fn memory(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()));
        let text = text.expect("a file in /proc");
        let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
        let kb = line.and_then(|line| line.split_whitespace().next());
        kb.and_then(|kb| kb.parse().ok()).expect("a number")
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn token(agent: usize) -> String {
    format!("the-token-of-agent-{agent:08}")
}
