//! An [`Agent`] over HTTP: the same session, with every message a request of its own.

use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use serde_json::Value;

use crate::support::agent::{Agent, Link};
use crate::support::http::{Http, Program, Response};

const LEGACY: &str = "2025-11-25";

/// Where an agent's messages go.
pub(super) struct Outlet {
    http: Http,
    link: Weak<Link>,
    session: Mutex<Option<String>>,
    /// Shown with every request.
    token: Option<String>,
    /// The connections of requests, by their ids, which a modern client hangs up to cancel.
    open: Mutex<Vec<(Value, TcpStream)>>,
}

impl Agent {
    /// An agent of a program that serves over HTTP.
    pub(crate) fn over_http((program, http): (Program, Http)) -> Self {
        Self::of(Arc::new(program), http, None)
    }

    /// Such an agent that shows this token.
    pub(crate) fn over_http_with((program, http): (Program, Http), token: &str) -> Self {
        Self::of(Arc::new(program), http, Some(token))
    }

    /// Another agent of the same program, that shows this token.
    pub(crate) fn beside_with(&self, token: &str) -> Self {
        let program = self.program.as_ref().expect("an agent over HTTP");
        let outlet = self.link.outlet.as_ref().expect("an agent over HTTP");
        Self::of(Arc::clone(program), outlet.http, Some(token))
    }

    /// Another agent of the same program, which runs until the last of them is gone.
    pub(crate) fn beside(&self) -> Self {
        let program = self.program.as_ref().expect("an agent over HTTP");
        let outlet = self.link.outlet.as_ref().expect("an agent over HTTP");
        Self::of(Arc::clone(program), outlet.http, None)
    }

    /// The log of the program so far.
    pub(crate) fn program_log(&self) -> String {
        self.program.as_ref().expect("an agent over HTTP").0.stderr()
    }

    /// Ends the session.
    pub(crate) fn leave(&self) {
        let outlet = self.link.outlet.as_ref().expect("an agent over HTTP");
        let stream = outlet.send("DELETE", "", &Value::Null);
        assert_eq!(Response::read(BufReader::new(stream)).status, 204);
    }

    fn of(program: Arc<Program>, http: Http, token: Option<&str>) -> Self {
        let link = Arc::new_cyclic(|link| Link {
            outlet: Some(Outlet {
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

impl Outlet {
    /// Posts a message; what comes back goes where the lines of a stdio server go.
    pub(super) fn post(&self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("a message");
        let (Some(link), Some(method)) = (self.link.upgrade(), message["method"].as_str()) else {
            // An answer.
            return self.tell(line);
        };
        if message["id"].is_null() {
            self.tell(line);
            if method == "notifications/initialized" {
                // Whoever leaves before it is answered would find it refused.
                let listening = link.ask("GET", "", &Value::Null);
                thread::spawn(move || link.hear(listening));
            }
            return;
        }
        let line = line.to_owned();
        thread::spawn(move || link.hear(link.ask("POST", &line, &message)));
    }

    /// Posts what is not answered with a message.
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

    /// Hangs up on a request.
    pub(super) fn hang_up(&self, id: &Value) {
        let open = self.open.lock().unwrap();
        let (_, stream) = open.iter().find(|(of, _)| of == id).expect("an open request");
        let _ = stream.shutdown(Shutdown::Both);
        drop(open);
    }
}

impl Link {
    /// Sends a request. Gives what begins to come back.
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

    /// Hears all that comes back.
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
