//! Two hundred hostile clients. Each has a thread at idle priority: real ones would run on other
//! machines and not compete for the CPU.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
/// 1 MiB, which the message size limit allows.
const BIG: usize = 1 << 20;
const PIPELINED: usize = 10;
const GREETING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"crowd","version":"1"}}}"#;

pub(crate) struct Kind {
    pub(crate) does: &'static str,
    pub(crate) connections: usize,
    /// The pause between two attacks on a connection.
    every: Duration,
    act: fn(&mut Client) -> Option<()>,
}

pub(crate) const KINDS: [Kind; 7] = [
    kind("send an endless body byte by byte", 40, 250, Client::drip),
    kind("send a request with an invalid token", 40, 1000, Client::ask_wrongly),
    kind("start a session", 20, 200, Client::begin),
    kind("call with 1 MiB of arguments", 20, 4000, Client::call_with_much),
    kind("open a stream, close it after 2 s", 40, 2000, Client::listen),
    kind("disconnect during a call", 20, 500, Client::hang_up),
    kind("send 10 pipelined calls", 20, 1000, Client::pipeline),
];

const fn kind(
    does: &'static str,
    connections: usize,
    every_ms: u64,
    act: fn(&mut Client) -> Option<()>,
) -> Kind {
    Kind { does, connections, every: Duration::from_millis(every_ms), act }
}

pub(crate) struct HostileClients {
    is_over: Arc<AtomicBool>,
    done: Arc<[AtomicUsize; KINDS.len()]>,
    clients: Vec<JoinHandle<()>>,
}

impl HostileClients {
    pub(crate) fn gather(address: SocketAddr, token: &'static str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let done = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
        let gathered = {
            let (is_over, done) = (Arc::clone(&is_over), Arc::clone(&done));
            thread::spawn(move || {
                give_way();
                clients(address, token, &is_over, &done)
            })
        };
        let clients = gathered.join().expect("no panic");
        Self { is_over, done, clients }
    }

    pub(crate) fn forget(&self) {
        self.done.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    pub(crate) fn leave(self) -> [usize; KINDS.len()] {
        let done = self.done.each_ref().map(|count| count.load(Ordering::Relaxed));
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("no panic");
        }
        done
    }
}

/// Moves this thread, and the threads that it will start, to the idle scheduling class.
fn give_way() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let status = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
    assert!(status.is_ok_and(|status| status.success()), "`chrt` of util-linux failed");
}

fn clients(
    address: SocketAddr,
    token: &'static str,
    is_over: &Arc<AtomicBool>,
    done: &Arc<[AtomicUsize; KINDS.len()]>,
) -> Vec<JoinHandle<()>> {
    let clients = KINDS.iter().enumerate().flat_map(|(at, kind)| {
        (0..kind.connections).map(move |number| {
            let (is_over, done) = (Arc::clone(is_over), Arc::clone(done));
            thread::spawn(move || {
                // Spreads the clients over the interval.
                let share = u32::try_from(number).expect("a small number");
                let all = u32::try_from(kind.connections).expect("a small number");
                thread::sleep(kind.every * share / all);
                let mut client = Client { address, token, stream: None };
                while !is_over.load(Ordering::Relaxed) {
                    match (kind.act)(&mut client) {
                        Some(()) => _ = done[at].fetch_add(1, Ordering::Relaxed),
                        None => client.stream = None,
                    }
                    thread::sleep(kind.every);
                }
            })
        })
    });
    clients.collect()
}

/// A client. Attacks return `None` if the connection was closed or refused.
struct Client {
    address: SocketAddr,
    token: &'static str,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    fn stream(&mut self) -> Option<&mut BufReader<TcpStream>> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, TIMEOUT).ok()?;
            stream.set_read_timeout(Some(TIMEOUT)).ok()?;
            stream.set_write_timeout(Some(TIMEOUT)).ok()?;
            stream.set_nodelay(true).ok()?;
            self.stream = Some(BufReader::new(stream));
        }
        self.stream.as_mut()
    }

    fn write(&mut self, text: &str) -> Option<()> {
        self.stream()?.get_mut().write_all(text.as_bytes()).ok()
    }

    /// Returns a request with `body` as the first part of a body of `length` bytes.
    fn request(&self, token: &str, more: &str, body: &str, length: usize) -> String {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nAuthorization: Bearer {token}\r\n\
             {more}Content-Length: {length}\r\n\r\n{body}",
            self.address,
        )
    }

    fn modern(&self, method: &str, params: &str) -> String {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}},{params}}}}}"#
        );
        let name = if method == "tools/call" { "Mcp-Name: use_tool\r\n" } else { "" };
        let more = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
        self.request(self.token, &more, &body, body.len())
    }

    fn call(&self, server: &str, tool: &str, arguments: &str) -> String {
        let path = format!(r#"{{"toolbox":"box","server":"{server}","tool":"{tool}"}}"#);
        let arguments = format!(r#"{{"tool":{path},"arguments":{arguments}}}"#);
        self.modern("tools/call", &format!(r#""name":"use_tool","arguments":{arguments}"#))
    }

    fn read(&mut self) -> Option<()> {
        let stream = self.stream()?;
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim_end().parse().ok()?;
            }
        }
        stream.read_exact(&mut vec![0; length]).ok()
    }

    fn drip(&mut self) -> Option<()> {
        if self.stream.is_none() {
            let beginning = self.request(self.token, "", "", BIG);
            self.write(&beginning)?;
        }
        self.write("{")
    }

    fn ask_wrongly(&mut self) -> Option<()> {
        let request = self.request("a-wrong-token", "", GREETING, GREETING.len());
        self.write(&request)?;
        self.read()
    }

    fn begin(&mut self) -> Option<()> {
        let request = self.request(self.token, "", GREETING, GREETING.len());
        self.write(&request)?;
        self.read()
    }

    fn call_with_much(&mut self) -> Option<()> {
        let text = "x".repeat(BIG);
        let request = self.call("long", "echo", &format!(r#"{{"text":"{text}"}}"#));
        self.write(&request)?;
        self.read()
    }

    fn listen(&mut self) -> Option<()> {
        // Closes the stream that the previous call opened.
        self.stream = None;
        let wanted = r#""notifications":{"toolsListChanged":true}"#;
        let request = self.modern("subscriptions/listen", wanted);
        self.write(&request)
    }

    fn hang_up(&mut self) -> Option<()> {
        let request = self.call("slow", "sleep", r#"{"ms":2000}"#);
        self.write(&request)?;
        thread::sleep(Duration::from_millis(100));
        self.stream = None;
        Some(())
    }

    fn pipeline(&mut self) -> Option<()> {
        let request = self.call("srv", "echo", r#"{"text":"hello"}"#);
        self.write(&request.repeat(PIPELINED))?;
        (0..PIPELINED).try_for_each(|_| self.read())
    }
}
