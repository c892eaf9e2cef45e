//! An agent with a session over HTTP that reports errors instead of panicking.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(30);

/// A connection to the proxy, shared by many sessions in turn. Reconnects after an error.
pub(crate) struct Line {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    session: Option<String>,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        // The last event of an SSE stream is the response.
        let text = String::from_utf8_lossy(&self.body);
        let data = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(data.unwrap_or(&text)).unwrap_or_default()
    }
}

#[derive(Debug)]
#[allow(dead_code, reason = "tests only print it")]
pub(crate) enum StepError {
    /// The connection failed or timed out. The request may have been executed.
    Broken(io::Error),
    /// The response is an error; the number is the HTTP status.
    Refused(u16, String),
}

impl Line {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Sends a request and reads the response. A failed request is not retried.
    pub(crate) fn send(
        &mut self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, StepError> {
        let sent = self.exchange(method, headers, body);
        if sent.is_err() {
            self.stream = None;
        }
        sent.map_err(StepError::Broken)
    }

    fn exchange(
        &mut self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                empty.insert(BufReader::new(stream))
            }
        };
        let headers: String =
            headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
        let text = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len(),
        );
        stream.get_mut().write_all(text.as_bytes())?;
        let mut line = String::new();
        read_line(stream, &mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let mut answer = Answer { status, session: None, body: Vec::new() };
        let (mut length, mut is_chunked, mut closes) = (0, false, false);
        loop {
            read_line(stream, &mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "transfer-encoding" => is_chunked = value == "chunked",
                "connection" => closes = value == "close",
                "mcp-session-id" => answer.session = Some(value.to_owned()),
                _ => {}
            }
        }
        if is_chunked {
            loop {
                read_line(stream, &mut line)?;
                let size = usize::from_str_radix(line.trim_end(), 16);
                let size = size.map_err(|_junk| io::ErrorKind::InvalidData)?;
                let begin = answer.body.len();
                answer.body.resize(begin + size, 0);
                stream.read_exact(&mut answer.body[begin..])?;
                read_line(stream, &mut line)?;
                if size == 0 {
                    break;
                }
            }
        } else {
            answer.body.resize(length, 0);
            stream.read_exact(&mut answer.body)?;
        }
        if closes {
            self.stream = None;
        }
        Ok(answer)
    }
}

fn read_line(stream: &mut impl BufRead, line: &mut String) -> io::Result<()> {
    line.clear();
    if stream.read_line(line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Call,
    /// Calls a tool with a result of ten thousand bytes.
    Long,
    List,
    Open,
    /// Calls a tool with revision 2026-07-28, without a session.
    Modern,
}

impl Step {
    /// Returns the `n`-th step of an agent. 15 of 20 are short calls.
    pub(crate) fn of(n: usize) -> Self {
        match n % 20 {
            3 => Self::List,
            7 => Self::Open,
            11 | 17 => Self::Modern,
            13 => Self::Long,
            _ => Self::Call,
        }
    }
}

pub(crate) struct Session {
    pub(crate) id: String,
    steps: usize,
}

impl Session {
    pub(crate) fn begin(line: &mut Line) -> Result<Self, StepError> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "load", "version": "1" },
        });
        let begun = line.send("POST", &[], &request("initialize", &params))?;
        let refused = || StepError::Refused(begun.status, begun.json().to_string());
        let id = begun.session.clone().filter(|_| begun.status == 200).ok_or_else(refused)?;
        let mut session = Self { id, steps: 0 };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        line.send("POST", &session.headers(), &told.to_string())?;
        session.take(Step::Open, line)?;
        Ok(session)
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("Mcp-Session-Id", &self.id), ("MCP-Protocol-Version", "2025-11-25")]
    }

    pub(crate) fn next(&mut self, line: &mut Line) -> Result<Duration, StepError> {
        self.steps += 1;
        self.take(Step::of(self.steps), line)
    }

    pub(crate) fn take(&mut self, step: Step, line: &mut Line) -> Result<Duration, StepError> {
        let call = |length: usize| {
            let path = json!({ "toolbox": "box", "server": "srv", "tool": "echo" });
            let arguments = json!({ "text": "x".repeat(length) });
            json!({ "name": "use_tool", "arguments": { "tool": path, "arguments": arguments } })
        };
        let (method, mut params) = match step {
            Step::Call | Step::Modern => ("tools/call", call(100)),
            Step::Long => ("tools/call", call(10_000)),
            Step::List => ("tools/list", json!({})),
            Step::Open => (
                "tools/call",
                json!({ "name": "open_toolbox", "arguments": { "toolbox_name": "box" } }),
            ),
        };
        let began = Instant::now();
        let answer = if step == Step::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let headers = [
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", method),
                ("Mcp-Name", "use_tool"),
            ];
            line.send("POST", &headers, &request(method, &params))?
        } else {
            line.send("POST", &self.headers(), &request(method, &params))?
        };
        let time = began.elapsed();
        let said = answer.json();
        if answer.status == 200 && said["result"].is_object() && said["result"]["isError"] != true {
            Ok(time)
        } else {
            Err(StepError::Refused(answer.status, said.to_string()))
        }
    }
}

fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}
