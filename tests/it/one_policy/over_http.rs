//! An agent over HTTP in this process, with one request per message.
//!
//! It speaks HTTP/1.0: the end of the connection ends the body.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use crate::one_policy::agent::{Agent, Ends};

#[derive(Clone)]
struct Way {
    address: SocketAddr,
    path: String,
    token: Option<String>,
    session: Arc<Mutex<Option<String>>>,
    ends: Ends,
}

impl Agent {
    pub(crate) fn over_http(
        address: SocketAddr,
        toolbox: Option<&str>,
        token: Option<String>,
        tasks: &TaskTracker,
    ) -> Self {
        let (agent, mut said) = Self::new();
        let path = toolbox.map_or("/mcp".to_owned(), |toolbox| format!("/mcp/{toolbox}"));
        let way = Way { address, path, token, session: Arc::default(), ends: agent.ends() };
        let spawner = tasks.clone();
        tasks.spawn(async move {
            while let Some(message) = said.recv().await {
                // The log level must be set before the next message.
                let is_awaited = message["method"] == "logging/setLevel";
                if message.get("id").is_some() && !is_awaited {
                    let way = way.clone();
                    spawner.spawn(async move { way.exchange("POST", &message).await });
                    continue;
                }
                way.exchange("POST", &message).await;
                if message["method"] == "notifications/initialized" {
                    let way = way.clone();
                    spawner.spawn(async move { way.exchange("GET", &Value::Null).await });
                }
            }
        });
        agent
    }
}

impl Way {
    /// Sends a message and takes everything that comes back. An HTTP error becomes the response.
    async fn exchange(&self, method: &str, message: &Value) {
        let mut stream = TcpStream::connect(self.address).await.expect("a listener");
        let request = self.request(method, message);
        stream.write_all(request.as_bytes()).await.expect("a written request");
        let mut reader = BufReader::new(stream);
        let (status, is_stream) = self.read_head(&mut reader).await;
        if is_stream {
            let mut lines = reader.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let data = line.strip_prefix("data:").map(str::trim).unwrap_or_default();
                if !data.is_empty() {
                    self.ends.take(serde_json::from_str(data).expect("JSON"));
                }
            }
            return;
        }
        let mut body = String::new();
        let _ = reader.read_to_string(&mut body).await;
        let answer =
            serde_json::from_str(&body).ok().filter(|answer: &Value| answer["id"] == message["id"]);
        let refused = || json!({"id": message["id"], "status": status, "body": body});
        if !message["id"].is_null() {
            self.ends.take(answer.unwrap_or_else(refused));
        }
    }

    fn request(&self, method: &str, message: &Value) -> String {
        let Self { address, path, token, session, ends: _ } = self;
        let mut head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n",
        );
        let mut add = |name: &str, value: &str| head += &[name, ": ", value, "\r\n"].concat();
        if let Some(token) = token {
            add("Authorization", &format!("Bearer {token}"));
        }
        let params = &message["params"];
        let version = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        if let Some(version) = version {
            add("MCP-Protocol-Version", version);
            add("Mcp-Method", message["method"].as_str().unwrap_or_default());
            let name = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str());
            if let Some(name) = name {
                add("Mcp-Name", name);
            }
        } else if let Some(session) = session.lock().expect("whole").as_deref() {
            add("MCP-Protocol-Version", "2025-11-25");
            add("Mcp-Session-Id", session);
        }
        let body = if message.is_null() { String::new() } else { message.to_string() };
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
    }

    async fn read_head(&self, reader: &mut (impl AsyncBufRead + Unpin)) -> (String, bool) {
        let (mut status, mut is_stream) = (String::new(), false);
        let _ = reader.read_line(&mut status).await;
        loop {
            let mut line = String::new();
            let _ = reader.read_line(&mut line).await;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("mcp-session-id") {
                *self.session.lock().expect("whole") = Some(value.to_owned());
            }
            is_stream |= value.starts_with("text/event-stream");
        }
        (status.trim_end().to_owned(), is_stream)
    }
}
