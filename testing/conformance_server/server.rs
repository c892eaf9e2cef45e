//! Dispatches requests and sends the server's own requests.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::change::{Listeners, Lists};
use crate::request::{Eras, LEGACY, Level, Request, Session};
use crate::tasks::Tasks;
use crate::wire::{Answer, Fault, Output};
use crate::{capability, completion, prompts, resources, skills, tasks, tool_list, tools};

const TIMEOUT: Duration = Duration::from_mins(1);

/// Methods whose modern results have `ttlMs` and `cacheScope`.
const CACHEABLE: [&str; 9] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/directory/read",
    "skills/list",
    "skills/get",
];

pub(crate) struct Server {
    eras: Eras,
    pub(crate) output: Output,
    session: Mutex<Option<Session>>,
    /// The calls in flight, by request ID as JSON text.
    open: Mutex<HashSet<String>>,
    asked: Mutex<Asked>,
    pub(crate) lists: Mutex<Lists>,
    pub(crate) listeners: Mutex<Listeners>,
    pub(crate) tasks: Tasks,
}

/// Pending server requests by ID: the call that sent each one, and the channel its thread waits on.
#[derive(Default)]
struct Asked {
    count: u64,
    waiting: HashMap<String, (String, Sender<Value>)>,
}

impl Server {
    pub(crate) fn new(eras: Eras) -> Self {
        Self {
            eras,
            output: Output::default(),
            session: Mutex::default(),
            open: Mutex::default(),
            asked: Mutex::default(),
            lists: Mutex::default(),
            listeners: Mutex::default(),
            tasks: Tasks::default(),
        }
    }

    pub(crate) fn receive(self: &Arc<Self>, line: &str) {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else {
            return self.output.answer(&Value::Null, Err(Fault::parse()));
        };
        let id = message["id"].take();
        let params = message["params"].take();
        match (message["method"].as_str(), id.is_null()) {
            (Some(method), false) => self.request(method, id, params),
            (Some("notifications/cancelled"), true) => self.cancel(&params["requestId"]),
            (Some(_), true) => {}
            (None, false) => self.answered(&id, message),
            (None, true) => {
                let fault = Fault::invalid_request("neither a request nor a response");
                self.output.answer(&id, Err(fault));
            }
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: Value, params: Value) {
        let begun = self.begin(method, id.clone(), params);
        match begun {
            Err(fault) => self.output.answer(&id, Err(fault)),
            Ok(None) => {}
            Ok(Some(request)) if matches!(method, "tools/call" | "prompts/get") => {
                self.open.lock().unwrap().insert(id.to_string());
                let server = Arc::clone(self);
                let method = method.to_owned();
                thread::spawn(move || {
                    let answer = server.serve(&method, &request);
                    if server.open.lock().unwrap().remove(&id.to_string()) {
                        server.output.answer(&id, answer);
                    }
                });
            }
            Ok(Some(request)) => self.output.answer(&id, self.serve(method, &request)),
        }
    }

    /// Returns the request to serve, or `None` if it has already been answered.
    fn begin(&self, method: &str, id: Value, params: Value) -> Result<Option<Request>, Fault> {
        let is_modern = Request::carries_version(&params) || method == "server/discover";
        if is_modern && self.eras.has_modern() {
            let request = Request::modern(id, params, &self.eras.versions())?;
            if method == "subscriptions/listen" {
                self.listen(&request)?;
                return Ok(None);
            }
            return Ok(Some(request));
        }
        if method == "initialize" {
            self.output.answer(&id, self.initialize(&params));
            return Ok(None);
        }
        if method == "ping" && self.eras.has_legacy() {
            self.output.answer(&id, Ok(json!({})));
            return Ok(None);
        }
        match (&*self.session.lock().unwrap(), self.eras) {
            (_, Eras::Modern) => Err(Fault::invalid_params("`_meta` has no protocol version")),
            (Some(session), _) => Ok(Some(Request::legacy(id, params, session))),
            (None, _) if method == "server/discover" => Err(Fault::unknown_method(method)),
            (None, _) => Err(Fault::invalid_request("expected `initialize` first")),
        }
    }

    fn serve(self: &Arc<Self>, method: &str, request: &Request) -> Answer {
        let mut result = if request.modern {
            self.serve_modern(method, request)
        } else {
            self.serve_legacy(method, request)
        }?;
        if request.modern {
            if result["resultType"].is_null() {
                result["resultType"] = "complete".into();
            }
            if CACHEABLE.contains(&method) {
                result["ttlMs"] = 0.into();
                result["cacheScope"] = "private".into();
            }
            result["_meta"]["io.modelcontextprotocol/serverInfo"] = info();
        }
        Ok(result)
    }

    fn serve_legacy(self: &Arc<Self>, method: &str, request: &Request) -> Answer {
        match method {
            "logging/setLevel" => {
                let level = Level::from_json(&request.params["level"])?;
                if let Some(session) = &mut *self.session.lock().unwrap() {
                    session.level = level;
                }
                Ok(json!({}))
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                let uri = request.text("uri")?;
                self.subscribe(uri, method == "resources/subscribe");
                Ok(json!({}))
            }
            _ => self.serve_either(method, request),
        }
    }

    fn serve_modern(self: &Arc<Self>, method: &str, request: &Request) -> Answer {
        match method {
            "server/discover" => Ok(json!({
                "supportedVersions": self.eras.versions(),
                "capabilities": capability::ours(true),
            })),
            "tasks/get" | "tasks/update" | "tasks/cancel" => tasks::serve(self, method, request),
            "skills/list" => skills::list(request),
            "skills/get" => skills::get(request),
            "resources/directory/read" => skills::read_directory(request),
            _ => self.serve_either(method, request),
        }
    }

    fn serve_either(self: &Arc<Self>, method: &str, request: &Request) -> Answer {
        match method {
            "tools/list" => Ok(json!({ "tools": tool_list::list(&self.lists.lock().unwrap()) })),
            "tools/call" => tools::call(self, request),
            "prompts/list" => Ok(json!({ "prompts": prompts::list(&self.lists.lock().unwrap()) })),
            "prompts/get" => prompts::get(self, request),
            "resources/list" => Ok(json!({ "resources": resources::list(request.modern) })),
            "resources/templates/list" => {
                Ok(json!({ "resourceTemplates": resources::templates() }))
            }
            "resources/read" => resources::read(self, request),
            "completion/complete" => completion::complete(request),
            _ => Err(Fault::unknown_method(method)),
        }
    }

    fn initialize(&self, params: &Value) -> Answer {
        let wanted = params["protocolVersion"].as_str().unwrap_or_default();
        if !self.eras.has_legacy() {
            return Err(Fault::unsupported_version(wanted, &self.eras.versions()));
        }
        let capabilities = params["capabilities"].clone();
        if wanted.is_empty() || !capabilities.is_object() || !params["clientInfo"].is_object() {
            let message = "`initialize` requires protocolVersion, capabilities and clientInfo";
            return Err(Fault::invalid_params(message));
        }
        *self.session.lock().unwrap() = Some(Session { capabilities, level: Level::DEBUG });
        Ok(json!({
            "protocolVersion": if LEGACY.contains(&wanted) { wanted } else { LEGACY[3] },
            "capabilities": capability::ours(false),
            "serverInfo": info(),
        }))
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.lock().unwrap().is_some()
    }

    /// Sends a server request and waits for the result. Error responses and timeouts become faults.
    pub(crate) fn ask(&self, request: &Request, method: &str, params: Option<&Value>) -> Answer {
        let (answer, answered) = channel();
        let id = {
            let mut asked = self.asked.lock().unwrap();
            asked.count += 1;
            let id = format!("ask-{}", asked.count);
            asked.waiting.insert(id.clone(), (request.id.to_string(), answer));
            id
        };
        self.output.ask(&id, method, params);
        let answer = answered.recv_timeout(TIMEOUT);
        self.asked.lock().unwrap().waiting.remove(&id);
        match answer {
            Ok(mut message) if message["error"].is_null() => Ok(message["result"].take()),
            Ok(message) => {
                Err(Fault::internal(message["error"]["message"].as_str().unwrap_or("an error")))
            }
            Err(_) => Err(Fault::internal("the client did not respond")),
        }
    }

    fn answered(&self, id: &Value, message: Value) {
        let id = id.as_str().unwrap_or_default();
        if let Some((_, waiting)) = self.asked.lock().unwrap().waiting.remove(id) {
            let _ = waiting.send(message);
        }
    }

    fn cancel(&self, id: &Value) {
        let key = id.to_string();
        self.open.lock().unwrap().remove(&key);
        self.asked.lock().unwrap().waiting.retain(|_, (call, _)| *call != key);
        self.listeners.lock().unwrap().forget(id);
    }

    pub(crate) fn log(&self, request: &Request, text: &str) {
        let level = json!("info");
        let wanted = request.level.is_some_and(|least| {
            Level::from_json(&level).is_ok_and(|important| important >= least)
        });
        if wanted {
            let params = json!({ "level": level, "logger": "conformance", "data": text });
            self.output.notify("notifications/message", &params);
        }
    }
}

fn info() -> Value {
    json!({ "name": "conformance-server", "version": "1.0.0" })
}
