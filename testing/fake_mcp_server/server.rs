//! Dispatches requests, and holds the state that calls share.

use std::collections::{BTreeMap, HashMap};
use std::process::exit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::behavior::Call;
use crate::script::{Protocol, Script};
use crate::start::append;
use crate::wire::{Answer, Message, Output, RpcError};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN: &str = "2026-07-28";
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const UNSUPPORTED_VERSION: i64 = -32022;
const LIST_CHANGED: &str = "notifications/tools/list_changed";

pub(crate) struct Server {
    script: Script,
    pub(crate) output: Output,
    pub(crate) grandchildren: Vec<u32>,
    tools: Mutex<Vec<Value>>,
    answers: Mutex<BTreeMap<String, Value>>,
    calls: Mutex<BTreeMap<String, usize>>,
    answered: AtomicUsize,
    lists: AtomicUsize,
    cancelled: Mutex<Vec<Value>>,
    reasons: Mutex<Vec<Value>>,
    /// The calls in flight, by request ID as JSON text. Sending cancels the call.
    in_flight: Mutex<HashMap<String, Sender<()>>>,
    /// The number of calls that have reached `gather`.
    gathered: Mutex<u64>,
    came: Condvar,
    questions: AtomicU64,
    asked: Mutex<HashMap<String, Sender<Value>>>,
    /// IDs of open `subscriptions/listen` requests that asked for tool list changes.
    listeners: Mutex<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    #[serde(rename = "_meta")]
    meta: Map<String, Value>,
    protocol_version: String,
    cursor: Option<String>,
    name: String,
    arguments: Option<Box<RawValue>>,
    input_responses: Option<Value>,
    request_id: Value,
    reason: Option<Value>,
    notifications: Value,
}

impl Server {
    pub(crate) fn new(script: Script, grandchildren: Vec<u32>) -> Self {
        Self {
            output: Output::default(),
            grandchildren,
            tools: Mutex::new(script.tools()),
            answers: Mutex::new(script.answers.clone()),
            calls: Mutex::default(),
            answered: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            cancelled: Mutex::default(),
            reasons: Mutex::default(),
            in_flight: Mutex::default(),
            gathered: Mutex::default(),
            came: Condvar::new(),
            questions: AtomicU64::new(0),
            asked: Mutex::default(),
            listeners: Mutex::default(),
            script,
        }
    }

    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) {
        if self.script.lean
            && let Some(call) = LeanCall::parse(line)
        {
            return self.output.bytes(&call.answer());
        }
        let Ok(message) = serde_json::from_slice::<Message>(line) else {
            let error = RpcError::new(-32700, "Parse error");
            return self.output.answer("null", &Err(error));
        };
        let params = match &message.params {
            None => Ok(Params::default()),
            Some(raw) => serde_json::from_str(raw.get()),
        };
        match (message.method.as_deref(), message.id, params) {
            (Some(method), Some(id), Ok(params)) => {
                let raw = message.params.unwrap_or_else(|| raw("{}"));
                self.request(method, id.get(), params, raw);
            }
            (Some(_), Some(id), Err(error)) => {
                let error = RpcError::new(INVALID_PARAMS, error.to_string());
                self.output.answer(id.get(), &Err(error));
            }
            (Some("notifications/cancelled"), None, Ok(params)) => {
                self.cancel(params.request_id, params.reason);
            }
            (Some(_) | None, None, _) => {}
            (None, Some(id), _) => {
                let answer = json!({ "result": message.result, "error": message.error });
                let asked = serde_json::from_str::<String>(id.get())
                    .ok()
                    .and_then(|id| self.asked.lock().unwrap().remove(&id));
                if let Some(waiting) = asked {
                    let _ = waiting.send(without_nulls(answer));
                }
            }
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: &str, params: Params, raw: Box<RawValue>) {
        let protocol = self.script.protocol;
        let carries_era = params.meta.contains_key("io.modelcontextprotocol/protocolVersion");
        let modern = carries_era && protocol != Protocol::Legacy;
        if let Some(file) = &self.script.request_file {
            append(file, method);
        }
        let answer = match method {
            _ if self.script.raw_answers.contains_key(method) => {
                Ok(self.script.raw_answers[method].clone())
            }
            _ if self.script.repeat.iter().any(|repeated| repeated == method) => {
                Ok(repeated(&raw, modern))
            }
            "initialize" if self.script.hang_on_initialize => return,
            "initialize" if self.script.die_on_initialize => exit(1),
            "initialize" if self.script.initialize_delay_ms > 0 => {
                return self.initialize_late(id, params);
            }
            "initialize" => self.initialize(&params),
            "server/discover" if self.script.die_on_discover => exit(1),
            "server/discover" if self.script.silent_on_discover => return,
            "server/discover" if protocol != Protocol::Legacy => Ok(self.discover()),
            _ if protocol == Protocol::Modern && !carries_era => Err(RpcError::new(
                INVALID_PARAMS,
                "the request has no protocol version in its `_meta`",
            )),
            "ping" if !modern => Ok("{}".to_owned()),
            "tools/list" if self.script.die_on_list => exit(3),
            "tools/list" => {
                thread::sleep(Duration::from_millis(self.script.list_delay_ms));
                self.lists.fetch_add(1, Ordering::SeqCst);
                let answer = self.list(params.cursor.as_deref(), modern);
                self.output.answer(id, &answer);
                if self.script.change_on_list {
                    self.change_tools(|_| {});
                }
                return;
            }
            "tools/call" => return self.call(id, params, raw, modern),
            "subscriptions/listen" if modern => return self.listen(id, &params),
            _ => match self.answers.lock().unwrap().get(method) {
                Some(answer) => Ok(answer.to_string()),
                None => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
            },
        };
        self.output.answer(id, &answer);
    }

    fn initialize_late(self: &Arc<Self>, id: &str, params: Params) {
        let (server, id) = (Arc::clone(self), id.to_owned());
        thread::spawn(move || {
            // The scripted delay.
            thread::sleep(Duration::from_millis(server.script.initialize_delay_ms));
            server.output.answer(&id, &server.initialize(&params));
        });
    }

    fn initialize(&self, params: &Params) -> Answer {
        if let Some(error) = &self.script.initialize_error {
            return Err(error.clone());
        }
        let wanted = params.protocol_version.as_str();
        if self.script.protocol == Protocol::Modern {
            return Err(RpcError {
                data: Some(json!({ "supported": [MODERN], "requested": wanted })),
                ..RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
            });
        }
        let version = if LEGACY.contains(&wanted) { wanted } else { LEGACY[3] };
        Ok(without_nulls(json!({
            "protocolVersion": version,
            "capabilities": self.script.capabilities(),
            "serverInfo": self.info(),
            "instructions": self.script.instructions,
        }))
        .to_string())
    }

    fn discover(&self) -> String {
        let mut versions = vec![MODERN];
        if self.script.protocol == Protocol::Dual {
            versions.splice(0..0, LEGACY);
        }
        without_nulls(json!({
            "resultType": "complete",
            "supportedVersions": versions,
            "capabilities": self.script.capabilities(),
            "instructions": self.script.instructions,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": self.info() },
        }))
        .to_string()
    }

    fn info(&self) -> Value {
        json!({ "name": self.script.name, "version": self.script.version })
    }

    fn list(&self, cursor: Option<&str>, modern: bool) -> Answer {
        let tools = self.tools.lock().unwrap();
        let start = match cursor {
            None => 0,
            Some(_) if self.script.repeat_cursor => 0,
            Some(cursor) => match cursor.parse::<usize>() {
                Ok(start) if start <= tools.len() => start,
                _ => return Err(RpcError::new(INVALID_PARAMS, "Invalid cursor")),
            },
        };
        let size = self.script.page_size.unwrap_or(usize::MAX);
        let end = start.saturating_add(size).min(tools.len());
        let mut result = json!({ "tools": tools[start..end] });
        if self.script.repeat_cursor {
            result["nextCursor"] = "again".into();
        } else if end < tools.len() {
            result["nextCursor"] = end.to_string().into();
        }
        if modern {
            result["resultType"] = "complete".into();
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        Ok(result.to_string())
    }

    /// Runs a call on its own thread, so that a slow one doesn't block the others.
    fn call(self: &Arc<Self>, id: &str, params: Params, raw_params: Box<RawValue>, modern: bool) {
        let name = params.name;
        let known = |tool: &Value| tool["name"].as_str() == Some(name.as_str());
        if !self.tools.lock().unwrap().iter().any(known) {
            let error = RpcError::new(INVALID_PARAMS, format!("Unknown tool: {name}"));
            return self.output.answer(id, &Err(error));
        }
        *self.calls.lock().unwrap().entry(name.clone()).or_default() += 1;
        let arguments = params.arguments.unwrap_or_else(|| raw("{}"));
        let parsed = serde_json::from_str(arguments.get()).unwrap_or_default();
        let act = match self.script.act(&name, &parsed) {
            Ok(act) => act,
            Err(error) => {
                let error = RpcError::new(INVALID_PARAMS, error);
                return self.output.answer(id, &Err(error));
            }
        };
        let (cancel, cancelled) = channel();
        self.in_flight.lock().unwrap().insert(id.to_owned(), cancel);
        let call = Call {
            id: id.to_owned(),
            params: raw_params,
            arguments,
            modern,
            token: params.meta.get("progressToken").cloned(),
            input_responses: params.input_responses,
            cancelled,
        };
        let server = Arc::clone(self);
        thread::spawn(move || {
            if let Some(answer) = call.run(act, &server) {
                server.in_flight.lock().unwrap().remove(&call.id);
                server.output.answer(&call.id, &answer);
                server.count_answer();
            }
        });
    }

    fn count_answer(&self) {
        let answered = self.answered.fetch_add(1, Ordering::SeqCst) + 1;
        if self.script.exit_after_calls == Some(answered) {
            exit(0);
        }
    }

    fn cancel(&self, id: Value, reason: Option<Value>) {
        self.reasons.lock().unwrap().extend(reason);
        let key = id.to_string();
        self.listeners.lock().unwrap().retain(|open| *open != id);
        self.cancelled.lock().unwrap().push(id);
        if let Some(cancel) = self.in_flight.lock().unwrap().remove(&key) {
            let _ = cancel.send(());
        }
    }

    fn listen(&self, id: &str, params: &Params) {
        let id: Value = serde_json::from_str(id).unwrap_or_default();
        let wants_tools = params.notifications["toolsListChanged"] == true;
        let accepted = if wants_tools { json!({ "toolsListChanged": true }) } else { json!({}) };
        self.output.notify(
            "notifications/subscriptions/acknowledged",
            &json!({ "_meta": subscription(&id), "notifications": accepted }),
        );
        if wants_tools {
            self.listeners.lock().unwrap().push(id);
        }
    }

    pub(crate) fn change_tools(&self, change: impl FnOnce(&mut Vec<Value>)) {
        change(&mut self.tools.lock().unwrap());
        if self.script.protocol != Protocol::Modern {
            self.output.notify(LIST_CHANGED, &Value::Null);
        }
        for id in self.listeners.lock().unwrap().iter() {
            self.output.notify(LIST_CHANGED, &json!({ "_meta": subscription(id) }));
        }
    }

    pub(crate) fn grow(&self, new: &[Value]) {
        let is_new = |entry: &Value| new.iter().any(|one| one["name"] == entry["name"]);
        self.change_tools(|list| {
            list.retain(|entry| !is_new(entry));
            list.extend(new.iter().cloned());
        });
    }

    pub(crate) fn turn(&self, answers: BTreeMap<String, Value>, changed: &[String]) {
        self.answers.lock().unwrap().extend(answers);
        for list in changed {
            self.output.notify(&format!("notifications/{list}/list_changed"), &Value::Null);
        }
    }

    pub(crate) fn gather(&self, count: u64) {
        let mut gathered = self.gathered.lock().unwrap();
        *gathered += 1;
        self.came.notify_all();
        let _all = self.came.wait_while(gathered, |gathered| *gathered < count).unwrap();
    }

    pub(crate) fn ask_in_vain(&self, method: &str, params: &Value) {
        let number = self.questions.fetch_add(1, Ordering::SeqCst) + 1;
        let id = format!("ask-{number}");
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.output.line(&request.to_string());
        self.output.notify("notifications/cancelled", &json!({ "requestId": id }));
    }

    /// Sends a server request; the receiver gets `{result}` or `{error}`.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> Receiver<Value> {
        let number = self.questions.fetch_add(1, Ordering::SeqCst) + 1;
        let id = format!("ask-{number}");
        let (answer, answered) = channel();
        self.asked.lock().unwrap().insert(id.clone(), answer);
        let request = without_nulls(
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
        );
        self.output.line(&request.to_string());
        answered
    }

    pub(crate) fn counts(&self) -> Value {
        let mut counts = json!({
            "calls": *self.calls.lock().unwrap(),
            "cancelled": *self.cancelled.lock().unwrap(),
            "lists": self.lists.load(Ordering::SeqCst),
        });
        let reasons = self.reasons.lock().unwrap();
        if !reasons.is_empty() {
            counts["reasons"] = json!(*reasons);
        }
        counts
    }
}

/// A call reduced to its ID and arguments, parsed in one pass without copying.
#[derive(Deserialize)]
struct LeanCall<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: LeanParams<'a>,
}

#[derive(Deserialize)]
struct LeanParams<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

impl<'a> LeanCall<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let call: Self = serde_json::from_slice(line).ok()?;
        (call.method == "tools/call").then_some(call)
    }

    fn answer(&self) -> Vec<u8> {
        let arguments = self.params.arguments.get().as_bytes();
        let mut line = Vec::with_capacity(arguments.len() + 100);
        line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        line.extend_from_slice(self.id.get().as_bytes());
        line.extend_from_slice(br#","result":{"content":[],"structuredContent":"#);
        line.extend_from_slice(arguments);
        line.extend_from_slice(b"}}\n");
        line
    }
}

fn repeated(params: &RawValue, modern: bool) -> String {
    let era = if modern { r#","resultType":"complete""# } else { "" };
    format!(r#"{{"repeated":{params}{era}}}"#)
}

fn subscription(id: &Value) -> Value {
    json!({ "io.modelcontextprotocol/subscriptionId": id })
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("a JSON literal")
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    value
}
