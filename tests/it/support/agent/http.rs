//! An [`Agent`] over HTTP, where each message is a separate request.

use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use serde_json::Value;

use crate::support::agent::{Agent, Link};
use crate::support::http::{HttpClient, HttpWorkbench, Response};

const LEGACY: &str = "2025-11-25";

pub(super) struct HttpSender {
    http: HttpClient,
    link: Weak<Link>,
    session: Mutex<Option<String>>,
    token: Option<String>,
    /// Connections by request id. A modern client closes one to cancel.
    open: Mutex<Vec<(Value, TcpStream)>>,
}

impl Agent {
    pub(crate) fn over_http((program, http): (HttpWorkbench, HttpClient)) -> Self {
        Self::of(Arc::new(program), http, None)
    }

    pub(crate) fn over_http_with(
        (program, http): (HttpWorkbench, HttpClient),
        token: &str,
    ) -> Self {
        Self::of(Arc::new(program), http, Some(token))
    }

    pub(crate) fn beside_with(&self, token: &str) -> Self {
        let program = self.program.as_ref().expect("an agent over HTTP");
        let outlet = self.link.outlet.as_ref().expect("an agent over HTTP");
        Self::of(Arc::clone(program), outlet.http, Some(token))
    }

    pub(crate) fn beside(&self) -> Self {
        let program = self.program.as_ref().expect("an agent over HTTP");
        let outlet = self.link.outlet.as_ref().expect("an agent over HTTP");
        Self::of(Arc::clone(program), outlet.http, None)
    }

    /// The program that an agent over HTTP talks to.
    pub(crate) fn program(&self) -> &Self {
        &self.program.as_ref().expect("an agent over HTTP").0
    }

    pub(crate) fn leave(&self) {
        let outlet = self.link.outlet.as_ref().expect("an agent over HTTP");
        let stream = outlet.send("DELETE", "", &Value::Null);
        assert_eq!(Response::read(BufReader::new(stream)).status, 204);
    }

    fn of(program: Arc<HttpWorkbench>, http: HttpClient, token: Option<&str>) -> Self {
        let link = Arc::new_cyclic(|link| Link {
            outlet: Some(HttpSender {
                http,
                link: Weak::clone(link),
                session: Mutex::default(),
                token: token.map(|token| format!("Bearer {token}")),
                open: Mutex::default(),
            }),
            ..Link::default()
        });
        Self { pid: program.0.pid(), link, dir: None, program: Some(program) }
    }
}

impl HttpSender {
    /// Posts a message. Responses are handled like the lines of a stdio server.
    pub(super) fn post(&self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("a message");
        let (Some(link), Some(method)) = (self.link.upgrade(), message["method"].as_str()) else {
            // A response to a request of the server.
            return self.tell(line);
        };
        if message["id"].is_null() {
            self.tell(line);
            if method == "notifications/initialized" {
                // Wait for the response head: once the session is deleted, the request would be
                // rejected.
                let listening = link.ask("GET", "", &Value::Null);
                thread::spawn(move || link.hear(listening));
            }
            return;
        }
        let line = line.to_owned();
        thread::spawn(move || link.hear(link.ask("POST", &line, &message)));
    }

    fn tell(&self, line: &str) {
        let stream = self.send("POST", line, &Value::Null);
        assert_eq!(Response::read(BufReader::new(stream)).status, 202, "{line}");
    }

    fn send(&self, method: &str, line: &str, message: &Value) -> TcpStream {
        let meta = &message["params"]["_meta"];
        let version = meta["io.modelcontextprotocol/protocolVersion"].as_str();
        let session = self.session.lock().unwrap().clone();
        let mut headers = Vec::new();
        headers.extend(self.token.as_deref().map(|token| ("Authorization", token)));
        if version.is_some() || session.is_some() {
            headers.push(("MCP-Protocol-Version", version.unwrap_or(LEGACY)));
        }
        if version.is_some() {
            headers.push(("Mcp-Method", message["method"].as_str().expect("a method")));
            let params = &message["params"];
            let name = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str());
            headers.extend(name.map(|name| ("Mcp-Name", name)));
        } else if let Some(session) = &session {
            headers.push(("Mcp-Session-Id", session));
        }
        self.http.write(method, "/mcp", &headers, line)
    }

    pub(super) fn hang_up(&self, id: &Value) {
        let open = self.open.lock().unwrap();
        let (_, stream) = open.iter().find(|(of, _)| of == id).expect("an open request");
        let _ = stream.shutdown(Shutdown::Both);
        drop(open);
    }
}

impl Link {
    /// Sends a request and returns once the response head has arrived.
    fn ask(&self, method: &str, line: &str, message: &Value) -> Response {
        let outlet = self.outlet.as_ref().expect("an agent over HTTP");
        let stream = outlet.send(method, line, message);
        if let Ok(stream) = stream.try_clone() {
            outlet.open.lock().unwrap().push((message["id"].clone(), stream));
        }
        let response = Response::read(BufReader::new(stream));
        if let Some(id) = response.header("mcp-session-id") {
            outlet.session.lock().unwrap().get_or_insert(id.to_owned());
        }
        response
    }

    fn hear(&self, mut response: Response) {
        if response.header("content-type") == Some("application/json") {
            return self.take(&response.text());
        }
        while let Some(event) = response.event() {
            if !event.data.is_empty() {
                self.take(&event.data);
            }
        }
    }
}
