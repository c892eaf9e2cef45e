//! Steps that differ between the two eras: handshake, server requests, logs and list changes.

use serde_json::{Map, Value, json};

use crate::support::agent::{Agent, RequestId, Response};

/// How many times a server can require input for one request.
const MAX_ROUNDS: usize = 20;

impl Agent {
    /// Begins as a client with these capabilities: with a handshake or, in the modern era, by
    /// adding them to every request.
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

    pub(crate) fn call_to_completion(&self, tool: &str, arguments: Value) -> Response {
        self.request_to_completion("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a request, and again with answers as long as the server requires input.
    /// [`Agent::with_reply`] sets the replies. [`Agent::next_request`] returns the server's
    /// requests in either era.
    #[track_caller]
    pub(crate) fn request_to_completion(&self, method: &str, params: Value) -> Response {
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
        panic!("the server keeps requesting input");
    }

    /// The parameters that a modern client adds when it repeats a request. `None` if no input is
    /// required.
    #[track_caller]
    pub(crate) fn answers(&self, response: &Response) -> Option<Value> {
        let required = response.result().filter(|r| r["resultType"] == "input_required")?;
        let mut answers = Map::new();
        for (key, question) in required["inputRequests"].as_object().into_iter().flatten() {
            let answer = self.link.update(|inbox| inbox.asked(question));
            answers.insert(key.clone(), answer.expect("a reply for each request"));
        }
        let mut more = json!({ "inputResponses": answers });
        if !required["requestState"].is_null() {
            more["requestState"] = required["requestState"].clone();
        }
        Some(more)
    }

    /// Subscribes to server logs from this level on.
    pub(crate) fn hear_logs(&self, level: &str) {
        let has_said = self.link.update(|inbox| {
            let level = level.into();
            inbox.meta.as_mut().map(|m| m.insert("io.modelcontextprotocol/logLevel".into(), level))
        });
        if has_said.is_none() {
            self.request("logging/setLevel", json!({ "level": level })).ok();
        }
    }

    /// Subscribes to all list changes and to these resources. Legacy clients get list changes
    /// without a subscription. Returns the request id of a modern subscription.
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
