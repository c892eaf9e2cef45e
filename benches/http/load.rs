//! Many sessions at once over HTTP, on few connections, as a benchmark and a test make them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take; one that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// A connection that is used for one request after the other.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

/// The head of a response, and its body if that has an end.
struct Answer {
    status: u16,
    session: Option<String>,
    body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a connection");
        Self { address, stream: BufReader::new(stream) }
    }

    fn send(&mut self, method: &str, session: Option<&str>, body: &str) -> Answer {
        let session = session
            .map(|id| format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"));
        let text = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.address,
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

    /// Begins a session; its id.
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

    /// Listens to what belongs to no request of a session.
    fn listen(&mut self, session: &str) {
        let listening = self.send("GET", Some(session), "");
        assert_eq!(listening.status, 200);
    }

    /// Calls the tool of the server; how long that takes.
    fn call(&mut self, session: &str) -> Duration {
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

/// Sessions that are held.
pub(crate) struct Load {
    address: SocketAddr,
    /// Their ids.
    pub(crate) sessions: Vec<String>,
    /// The connections of those that listen.
    listening: Vec<Connection>,
}

impl Load {
    /// Begins as many sessions.
    pub(crate) fn begin(address: SocketAddr, sessions: usize) -> Self {
        let mut connection = Connection::open(address);
        let sessions = (0..sessions).map(|_| connection.begin()).collect();
        Self { address, sessions, listening: Vec::new() }
    }

    /// Lets so many of them listen, each on a connection of its own.
    pub(crate) fn listen(&mut self, count: usize) {
        for session in self.sessions.iter().take(count) {
            let mut connection = Connection::open(self.address);
            connection.listen(session);
            self.listening.push(connection);
        }
    }

    /// Makes calls in all sessions, so many in each, from so many clients at once; what they take,
    /// sorted.
    pub(crate) fn call(&self, calls: usize, clients: usize) -> Vec<Duration> {
        let share = self.sessions.len().div_ceil(clients);
        let mut times: Vec<Duration> = thread::scope(|scope| {
            let clients: Vec<_> = self
                .sessions
                .chunks(share)
                .map(|sessions| {
                    scope.spawn(move || {
                        let mut connection = Connection::open(self.address);
                        let all = (0..calls).flat_map(|_| sessions);
                        all.map(|session| connection.call(session)).collect::<Vec<_>>()
                    })
                })
                .collect();
            let done = clients.into_iter().map(|client| client.join().expect("its calls"));
            done.flatten().collect()
        });
        times.sort_unstable();
        times
    }
}
