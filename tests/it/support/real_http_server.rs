//! Real servers over HTTP, and a proxy that records request heads.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::real::{npm_file, pypi, pypi_v1};
use crate::support::{DEADLINE, command};

/// Makes a Node program listen on `FAR_PORT` and print its port.
const NODE: &str = "data:text/javascript,import net from 'node:net';\
    const listen = net.Server.prototype.listen;\
    net.Server.prototype.listen = function (_, ...rest) {\
      this.once('listening', () => console.error('PORT ' + this.address().port));\
      const then = rest.filter((one) => typeof one === 'function');\
      return listen.call(this, Number(process.env.FAR_PORT), '127.0.0.1', ...then);\
    };";

const PYTHON: &str = "import sys\nkind, path, transport, port = sys.argv[1:]\n\
    if kind == 'v1':\n    \
        from mcp.server.fastmcp import FastMCP\n    \
        server, more = FastMCP('far', port=int(port)), {}\n\
    else:\n    \
        from mcp.server.mcpserver import MCPServer\n    \
        server, more = MCPServer('far'), {'port': int(port)}\n\
    @server.tool()\n\
    def echo(message: str) -> str:\n    \
        return 'Echo: ' + message\n\
    server.run(transport=transport, **more)\n";

/// `server-everything` and servers on the official SDKs, over streamable HTTP or with SSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Everything,
    EverythingSse,
    /// The example of the TypeScript SDK that speaks both transports.
    Both,
    Python1Sse,
    Python2Sse,
    Python2,
}

pub(crate) struct RealHttpServer {
    kind: Kind,
    child: Child,
    pub(crate) address: SocketAddr,
}

impl RealHttpServer {
    #[track_caller]
    pub(crate) fn start(kind: Kind) -> Self {
        Self::start_at(kind, 0)
    }

    #[track_caller]
    pub(crate) fn start_at(kind: Kind, port: u16) -> Self {
        let everything = "@modelcontextprotocol/server-everything/dist/index.js";
        let both = "@modelcontextprotocol/sdk/dist/esm/examples/server/sseAndStreamableHttpCompatibleServer.js";
        let node = |file: &str, argument: Option<&str>| {
            let mut node = command("node");
            node.args(["--import", NODE, &npm_file(file)]).args(argument);
            node
        };
        let python = |python: String, kind: &str, transport: &str| {
            let mut python = command(&python);
            python.args(["-c", PYTHON, kind, "", transport, &port.to_string()]);
            python
        };
        let mut program = match kind {
            Kind::Everything => node(everything, Some("streamableHttp")),
            Kind::EverythingSse => node(everything, Some("sse")),
            Kind::Both => node(both, None),
            Kind::Python1Sse => python(pypi_v1("python"), "v1", "sse"),
            Kind::Python2Sse => python(pypi("python"), "v2", "sse"),
            Kind::Python2 => python(pypi("python"), "v2", "streamable-http"),
        };
        program.env("FAR_PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = program.spawn().expect("the server starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let (sender, told) = channel();
        thread::spawn(move || {
            let mut seen = String::new();
            for line in lines.map_while(Result::ok) {
                let port = line.strip_prefix("PORT ").or_else(|| {
                    let at = line.split_once("running on http://127.0.0.1:")?.1;
                    at.split(' ').next()
                });
                if let Some(port) = port.and_then(|port| port.parse::<u16>().ok()) {
                    let _ = sender.send(Ok(port));
                }
                seen.push_str(&line);
                seen.push('\n');
            }
            let _ = sender.send(Err(seen));
        });
        let port = told.recv_timeout(DEADLINE).expect("a server that starts in time");
        let port = port.unwrap_or_else(|said| panic!("{kind:?} is not listening:\n{said}"));
        Self { kind, child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a running server");
        self.child.wait().expect("an exit status");
    }

    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.kill();
        *self = Self::start_at(self.kind, self.address.port());
    }
}

impl Drop for RealHttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A proxy that forwards every URL to one server. Its threads run until the test process exits.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || carry(near, server, &seen));
            }
        });
        Self { address, heads }
    }

    /// The heads of all requests so far, in lowercase.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn carry(near: TcpStream, server: SocketAddr, seen: &Mutex<Vec<String>>) {
    let Ok(mut far) = TcpStream::connect(server) else { return };
    let (from, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    let mut reader = BufReader::new(near);
    let Some(mut head) = head(&mut reader) else { return };
    seen.lock().unwrap().push(head.to_lowercase());
    if head.starts_with("CONNECT ") {
        to.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        thread::spawn(move || copy(from, to));
        return copy(reader, far);
    }
    thread::spawn(move || copy(from, to));
    loop {
        // Requests to a proxy have an absolute URL; the server expects a path.
        let (line, rest) = head.split_once("\r\n").unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let path = words[1].splitn(4, '/').nth(3).unwrap_or_default();
        let onward = format!("{} /{path} {}\r\n{rest}", words[0], words[2]);
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        if reader.read_exact(&mut body).is_err() || far.write_all(onward.as_bytes()).is_err() {
            return;
        }
        let _ = far.write_all(&body);
        match self::head(&mut reader) {
            Some(next) => head = next,
            None => break,
        }
        seen.lock().unwrap().push(head.to_lowercase());
    }
    let _ = far.shutdown(Shutdown::Both);
}

fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
    }
    Some(head)
}

fn copy(mut from: impl Read, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
