//! A small HTTP client that shows statuses, headers and streamed events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, DEADLINE};

const USUAL: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];

#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpClient(pub(crate) SocketAddr);

impl HttpClient {
    /// Posts a message to `/mcp`. `headers` are added to the usual ones or replace them.
    pub(crate) fn post(self, headers: &[(&str, &str)], message: &Value) -> Response {
        self.send("POST", "/mcp", headers, &message.to_string())
    }

    pub(crate) fn modern(self, method: &str, params: Value, headers: &[(&str, &str)]) -> Response {
        self.modern_at("/mcp", method, params, headers)
    }

    pub(crate) fn modern_at(
        self,
        path: &str,
        method: &str,
        mut params: Value,
        headers: &[(&str, &str)],
    ) -> Response {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        let capabilities = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        if capabilities.is_null() {
            *capabilities = json!({});
        }
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let usual = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        let headers: Vec<_> = usual.into_iter().chain(headers.iter().copied()).collect();
        self.send("POST", path, &headers, &message.to_string())
    }

    /// Sends a request on a new connection and reads the response head.
    pub(crate) fn send(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        Response::read(BufReader::new(self.write(method, path, headers, body)))
    }

    pub(crate) fn write(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let host = self.0.to_string();
        let usual = USUAL.into_iter().chain([("Host", host.as_str())]);
        let is_given =
            |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let usual = usual.filter(|(name, _)| !is_given(name));
        let lines = usual.chain(headers.iter().copied());
        let lines: String =
            lines.map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\n{lines}Content-Length: {}\r\n\r\n{body}",
            body.len(),
        );
        let mut stream = TcpStream::connect(self.0).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.write_all(text.as_bytes()).expect("the server reads");
        stream
    }
}

pub(crate) fn request(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The parameters of a `use_tool` call of the fake server.
pub(crate) fn tool(name: &str, arguments: Value) -> Value {
    let path = json!({ "toolbox": "box", "server": "fake", "tool": name });
    json!({ "name": "use_tool", "arguments": { "tool": path, "arguments": arguments } })
}

pub(crate) struct Session {
    pub(crate) http: HttpClient,
    pub(crate) id: String,
}

impl Session {
    pub(crate) fn begin(http: HttpClient) -> Self {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test-agent", "version": "1.0.0" },
        });
        let answer = http.post(&[], &request(0, "initialize", params));
        assert_eq!(answer.status, 200);
        let id = answer.header("mcp-session-id").expect("a session").to_owned();
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
        let session = Self { http, id };
        let told = session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!((told.status, told.text().as_str()), (202, ""));
        session
    }

    pub(crate) fn headers(&self) -> [(&str, &str); 2] {
        [("Mcp-Session-Id", &self.id), ("MCP-Protocol-Version", "2025-11-25")]
    }

    pub(crate) fn post(&self, message: &Value) -> Response {
        self.http.post(&self.headers(), message)
    }

    pub(crate) fn cancel(&self, id: u32) -> Response {
        let method = "notifications/cancelled";
        self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": id } }))
    }

    pub(crate) fn get(&self, after: Option<&str>) -> Response {
        let after = after.map(|after| ("Last-Event-ID", after));
        let headers: Vec<_> = self.headers().into_iter().chain(after).collect();
        self.http.send("GET", "/mcp", &headers, "")
    }
}

/// A workbench that serves over HTTP. Dropping it sends SIGTERM; closing its stdin doesn't stop it.
pub(crate) struct HttpWorkbench(pub(crate) Agent);

impl Drop for HttpWorkbench {
    fn drop(&mut self) {
        self.0.signal(Signal::TERM);
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<Body>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<String>,
    pub(crate) data: String,
}

impl Event {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("a message")
    }
}

impl Response {
    pub(crate) fn read(mut stream: BufReader<TcpStream>) -> Self {
        let mut line = || {
            let mut line = String::new();
            stream.read_line(&mut line).expect("a header line");
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = Vec::new();
        while let Some((name, value)) = line().split_once(": ") {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let is = |name: &str, said: &str| headers.iter().any(|(n, v)| n == name && v == said);
        let body = Body { is_chunked: is("transfer-encoding", "chunked"), stream, left: 0 };
        let body = BufReader::new(body);
        Self { status: status.expect("a status"), headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).expect("a body");
        text
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.text()).expect("a message")
    }

    /// The response, on its own or as the last message of a stream.
    pub(crate) fn last(self) -> Value {
        if self.header("content-type") == Some("application/json") {
            return self.json();
        }
        self.messages().pop().expect("an answer")
    }

    /// The next event, skipping comments. `None` at the end of the stream.
    pub(crate) fn event(&mut self) -> Option<Event> {
        let mut event = Event::default();
        let mut is_one = false;
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).expect("an event line") == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(':').map(|(field, value)| (field, value.trim_start())) {
                Some(("id", value)) => event.id = Some(value.to_owned()),
                Some(("retry", value)) => event.retry = Some(value.to_owned()),
                Some(("data", value)) => value.clone_into(&mut event.data),
                Some(("", _)) => continue,
                Some(_) => {}
                None if is_one => return Some(event),
                None => continue,
            }
            is_one = true;
        }
    }

    pub(crate) fn messages(mut self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"), "{self:?}");
        std::iter::from_fn(|| self.event())
            .filter(|event| !event.data.is_empty())
            .map(|event| event.json())
            .collect()
    }
}

/// A body, chunked or until the connection is closed.
#[derive(Debug)]
struct Body {
    stream: BufReader<TcpStream>,
    is_chunked: bool,
    /// Bytes left of the current chunk.
    left: u64,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.is_chunked {
            return self.stream.read(buffer);
        }
        while self.left == 0 {
            let mut size = String::new();
            if self.stream.read_line(&mut size)? == 0 {
                return Ok(0);
            }
            // Skips the empty line after each chunk.
            if !size.trim_end().is_empty() {
                self.left = u64::from_str_radix(size.trim_end(), 16).expect("a size");
                if self.left == 0 {
                    return Ok(0);
                }
            }
        }
        let read = (&mut self.stream).take(self.left).read(buffer)?;
        self.left -= read as u64;
        Ok(read)
    }
}
