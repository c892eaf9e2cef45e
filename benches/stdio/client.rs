//! A stdio client with as little overhead as possible.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The default capacity of a Linux pipe.
const BUFFER: usize = 64 * 1024;

/// Kills the child on drop.
pub(crate) struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    last_id: u64,
    /// List the tools again after every `list_changed`.
    pub(crate) follows: bool,
}

/// The params of a `tools/call` request, up to the end of the line.
pub(crate) struct Call(String);

impl Call {
    pub(crate) fn new(tool: &str, arguments: &str) -> Self {
        Self(format!("\"name\":\"{tool}\",\"arguments\":{arguments}}}}}\n"))
    }
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        Self {
            child,
            stdin,
            stdout: BufReader::with_capacity(BUFFER, stdout),
            line: Vec::new(),
            last_id: 0,
            follows: false,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn initialize(&mut self) {
        self.request(
            "initialize",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#,
        );
        self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    }

    pub(crate) fn request(&mut self, method: &str, params: &str) {
        let id = self.ask(method, params);
        while self.receive() != id {}
    }

    fn ask(&mut self, method: &str, params: &str) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        );
        self.write(line.as_bytes());
        id
    }

    /// Sends a call and returns its ID. The ID is also the progress token, as with real clients.
    pub(crate) fn send(&mut self, call: &Call) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let mut line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
             \"params\":{{\"_meta\":{{\"progressToken\":{id}}},"
        );
        line.push_str(&call.0);
        self.write(line.as_bytes());
        id
    }

    /// Waits for the next response and returns its ID. [`Self::answer`] returns its text.
    pub(crate) fn receive(&mut self) -> u64 {
        const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
        const CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed""#;
        loop {
            self.line.clear();
            let read = self.stdout.read_until(b'\n', &mut self.line);
            assert!(read.expect("a readable pipe") > 0, "the child exited");
            if let Some(rest) = self.line.strip_prefix(HEAD) {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
                return digits.fold(0, |id, digit| id * 10 + u64::from(digit - b'0'));
            }
            if self.follows && self.line.starts_with(CHANGED) {
                self.ask("tools/list", "{}");
            }
        }
    }

    pub(crate) fn call(&mut self, call: &Call) {
        let id = self.send(call);
        while self.receive() != id {}
    }

    pub(crate) fn answer(&self) -> String {
        String::from_utf8_lossy(&self.line).into_owned()
    }

    fn write(&mut self, line: &[u8]) {
        self.stdin.write_all(line).expect("a child that reads");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
