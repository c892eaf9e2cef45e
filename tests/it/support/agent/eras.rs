//! Deeds of clients of both eras, each in the way of its era: begin, answer questions, hear of
//! changes.

use serde_json::{Map, Value, json};

use crate::support::agent::{Agent, RequestId, Response};

/// How often a server may ask for one request.
const MAX_ROUNDS: usize = 20;

impl Agent {
    /// Begins as a client of the era with these capabilities: with a handshake or, in the modern
    /// era, by saying it in every request.
    pub(crate) fn begin(self, is_modern: bool, capabilities: Value) -> Self {
        if is_modern {
            return self.modern_with(capabilities);
        }
        self.initialize_with(json!({ "capabilities": capabilities }));
        self
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.link.inbox().meta.is_some()
    }

    /// Calls a tool and sees the call through, whatever is asked meanwhile.
    pub(crate) fn call_through(&self, tool: &str, arguments: Value) -> Response {
        self.see_through("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Makes a request, and again with the answers for as long as more input is required. What is
    /// asked is answered as [`Agent::answering`] says, and can be looked at with
    /// [`Agent::next_request`] in either era.
    #[track_caller]
    pub(crate) fn see_through(&self, method: &str, params: Value) -> Response {
        let mut more = json!({});
        for _ in 0..MAX_ROUNDS {
            let mut params = params.clone();
            for (key, value) in more.as_object().into_iter().flatten() {
                params[key] = value.clone();
            }
            let response = self.request(method, params);
            match self.answers(&response) {
                Some(answers) => more = answers,
                None => return response,
            }
        }
        panic!("the server is never content");
    }

    /// The members that a modern client adds to a request that was answered so; `None` when nothing
    /// is asked.
    #[track_caller]
    pub(crate) fn answers(&self, response: &Response) -> Option<Value> {
        let required = response.result().filter(|r| r["resultType"] == "input_required")?;
        let mut answers = Map::new();
        for (key, question) in required["inputRequests"].as_object().into_iter().flatten() {
            let answer = self.link.update(|inbox| inbox.asked(question));
            answers.insert(key.clone(), answer.expect("an answer to what is asked"));
        }
        let mut more = json!({ "inputResponses": answers });
        if !required["requestState"].is_null() {
            more["requestState"] = required["requestState"].clone();
        }
        Some(more)
    }

    /// Hears of servers' logs from this level on.
    pub(crate) fn hear_logs(&self, level: &str) {
        let has_said = self.link.update(|inbox| {
            let level = level.into();
            inbox.meta.as_mut().map(|m| m.insert("io.modelcontextprotocol/logLevel".into(), level))
        });
        if has_said.is_none() {
            self.request("logging/setLevel", json!({ "level": level })).ok();
        }
    }

    /// Hears of everything that changes, and of these resources. Legacy clients hear of lists
    /// without asking. Returns the subscription of a modern one.
    pub(crate) fn hear_changes(&self, uris: &[&str]) -> Option<RequestId> {
        if self.is_modern() {
            let filter = json!({
                "toolsListChanged": true,
                "promptsListChanged": true,
                "resourcesListChanged": true,
                "resourceSubscriptions": uris,
            });
            let params = json!({ "notifications": filter });
            let listen = self.send_request("subscriptions/listen", params);
            let granted = self.next_notification("notifications/subscriptions/acknowledged");
            let tag = &granted["_meta"]["io.modelcontextprotocol/subscriptionId"];
            assert_eq!(*tag, listen.0);
            let watched = &granted["notifications"]["resourceSubscriptions"];
            assert_eq!(watched.as_array().map_or(0, Vec::len), uris.len(), "{granted}");
            return Some(listen);
        }
        for uri in uris {
            self.request("resources/subscribe", json!({ "uri": uri })).ok();
        }
        None
    }
}
