//! A blocking HTTP/1.1 connection of a well-behaved MCP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Connection {
    address: SocketAddr,
    /// The complete `Authorization` header line, or empty.
    authorization: String,
    stream: BufReader<TcpStream>,
}

/// A response; the body only if it has a `Content-Length`.
pub(crate) struct Answer {
    pub(crate) status: u16,
    session: Option<String>,
    body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, token: Option<&str>) -> Self {
        let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a connection");
        let authorization = authorization.unwrap_or_default();
        Self { address, authorization, stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, method: &str, session: Option<&str>, body: &str) -> Answer {
        let session = session
            .map(|id| format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"));
        let text = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{}{}Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.authorization,
            session.unwrap_or_default(),
            body.len(),
        );
        self.stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
        self.read()
    }

    fn read(&mut self) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a status");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut answer =
            Answer { status: status.expect("a status"), session: None, body: Vec::new() };
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().expect("a length"),
                "mcp-session-id" => answer.session = Some(value.to_owned()),
                _ => {}
            }
        }
        answer.body.resize(length, 0);
        self.stream.read_exact(&mut answer.body).expect("a body");
        answer
    }

    pub(crate) fn begin(&mut self) -> String {
        let begun = self.send(
            "POST",
            None,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#,
        );
        assert_eq!(begun.status, 200, "{}", String::from_utf8_lossy(&begun.body));
        let id = begun.session.expect("a session");
        let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.send("POST", Some(&id), told).status, 202);
        id
    }

    pub(crate) fn call(&mut self, session: &str) -> Duration {
        let start = Instant::now();
        let answer = self.send(
            "POST",
            Some(session),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"use_tool","arguments":{"tool":{"toolbox":"box","server":"srv","tool":"echo"},"arguments":{"text":"hello"}}}}"#,
        );
        let elapsed = start.elapsed();
        let body = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == 200 && body.contains("structuredContent"), "{body}");
        elapsed
    }
}
