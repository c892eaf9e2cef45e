//! Messages from the child, sorted by kind. The reader threads fill it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::process::ExitStatus;

use serde_json::{Value, json};

use crate::support::agent::{Link, Meta, Response};

#[derive(Default)]
pub(super) struct Inbox {
    last_id: u64,
    responses: Vec<(Value, Response)>,
    pub(super) notifications: Vec<Value>,
    requests: Vec<Value>,
    /// Number of notifications and requests that a test has taken, by method.
    taken: BTreeMap<String, usize>,
    pub(super) transcript: Vec<String>,
    pub(super) violations: Vec<String>,
    pub(super) log: String,
    pub(super) ended: bool,
    pub(super) log_ended: bool,
    pub(super) status: Option<ExitStatus>,
    pub(super) tolerant: bool,
    pub(super) meta: Option<Meta>,
    pub(super) replies: BTreeMap<String, Reply>,
    /// The lists of a relisting agent, `None` for other agents.
    pub(super) relists: Option<Vec<Vec<Value>>>,
    relisting: BTreeSet<String>,
}

#[derive(Clone)]
pub(super) enum Reply {
    Result(Value),
    Hold,
}

impl Inbox {
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn take_response(&mut self, id: &Value) -> Option<Response> {
        let index = self.responses.iter().position(|(of, _)| of == id)?;
        Some(self.responses.remove(index).1)
    }

    pub(super) fn take_notification(&mut self, method: &str) -> Option<Value> {
        let message = take(&self.notifications, &mut self.taken, method)?;
        Some(message["params"].clone())
    }

    /// Records a request that came within a result. Returns the reply if one is set.
    pub(super) fn asked(&mut self, question: &Value) -> Option<Value> {
        self.requests.push(question.clone());
        match self.replies.get(question["method"].as_str()?)? {
            Reply::Result(result) => Some(result.clone()),
            Reply::Hold => None,
        }
    }

    pub(super) fn take_request(&mut self, method: &str) -> Option<Value> {
        take(&self.requests, &mut self.taken, method)
    }

    /// Sorts a line in and returns the message to send in reply.
    pub(super) fn receive(&mut self, line: &str) -> Option<Answer> {
        self.transcript.push(format!("< {line}"));
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let id = message.get("id").cloned();
        let method = message["method"].as_str();
        match (message["jsonrpc"] == "2.0", id, method) {
            (true, None, Some(method)) => {
                let relist = method == "notifications/tools/list_changed" && self.relists.is_some();
                self.notifications.push(message);
                if relist {
                    let id = format!("relist-{}", self.next_id());
                    self.relisting.insert(id.clone());
                    return Some(Answer::Relist(id.into()));
                }
                None
            }
            (true, Some(id), Some(method)) => {
                let answer = match self.replies.get(method) {
                    Some(Reply::Hold) => None,
                    Some(Reply::Result(result)) => Some(json!({ "result": result })),
                    None if method == "ping" => Some(json!({ "result": {} })),
                    None => {
                        let error = json!({ "code": -32601, "message": "Method not found" });
                        Some(json!({ "error": error }))
                    }
                };
                self.requests.push(message);
                answer.map(|mut answer| {
                    answer["jsonrpc"] = "2.0".into();
                    answer["id"] = id;
                    Answer::Line(answer.to_string())
                })
            }
            (true, Some(id), None) => {
                match Response::new(line, &message) {
                    Some(response) if id.as_str().is_some_and(|id| self.relisting.remove(id)) => {
                        let tools = response.ok()["tools"].as_array().cloned();
                        let relists = self.relists.get_or_insert_default();
                        relists.push(tools.unwrap_or_default());
                    }
                    Some(response) => self.responses.push((id, response)),
                    None => self.violations.push(line.to_owned()),
                }
                None
            }
            (true, None, None) | (false, _, _) => {
                self.violations.push(line.to_owned());
                None
            }
        }
    }
}

pub(super) enum Answer {
    Line(String),
    Relist(Value),
}

fn take(messages: &[Value], taken: &mut BTreeMap<String, usize>, method: &str) -> Option<Value> {
    let count = taken.entry(method.to_owned()).or_default();
    let mut of_method = messages.iter().filter(|message| message["method"] == method);
    let message = of_method.nth(*count)?.clone();
    *count += 1;
    Some(message)
}

pub(super) fn message(id: Option<&Value>, method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    if let Some(id) = id {
        message["id"] = id.clone();
    }
    if !params.is_null() {
        message["params"] = params;
    }
    message
}

pub(super) fn read_messages(stdout: impl Read, link: &Link) {
    for line in BufReader::new(stdout).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        link.take(&line);
    }
    link.update(|inbox| inbox.ended = true);
}

pub(super) fn read_log(stderr: impl Read, link: &Link) {
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { break };
        link.update(|inbox| {
            inbox.log.push_str(&String::from_utf8_lossy(&line));
            inbox.log.push('\n');
        });
    }
    link.update(|inbox| inbox.log_ended = true);
}
