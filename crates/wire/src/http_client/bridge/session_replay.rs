//! The part of a session that has to be repeated to a server that has lost it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use crate::http_client::bridge::client_side::BridgeClient;
use crate::json::RawJson;

const LISTS: [(&str, &str); 3] = [
    ("tools", "notifications/tools/list_changed"),
    ("prompts", "notifications/prompts/list_changed"),
    ("resources", "notifications/resources/list_changed"),
];
/// Subscriptions stored for replay, at most.
const MOST: usize = 1024;

/// The client's messages to replay: `initialize`, `initialized`, log level and subscriptions.
#[derive(Default)]
pub(super) struct SessionReplay {
    initialize: Option<InitializeRequest>,
    initialized: Option<Bytes>,
    /// Requests with a lasting effect, by resource URI. The empty key holds the log level.
    followed: BTreeMap<String, (RawJson, Bytes)>,
}

#[derive(Clone)]
pub(super) struct InitializeRequest {
    pub(super) id: RawJson,
    pub(super) line: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    protocol_version: String,
}

impl SessionReplay {
    /// Records a request if it has to be replayed.
    pub(super) fn record_request(&mut self, method: &str, id: &RawJson, line: &Bytes) {
        #[derive(Deserialize)]
        struct Request {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            uri: String,
        }

        let address = || Some(serde_json::from_slice::<Request>(line).ok()?.params.uri);
        match method {
            "initialize" => {
                *self = Self {
                    initialize: Some(InitializeRequest { id: id.clone(), line: line.clone() }),
                    ..Self::default()
                };
            }
            // Modern requests are stateless.
            _ if self.initialize.is_none() => {}
            "logging/setLevel" => {
                self.followed.insert(String::new(), (id.clone(), line.clone()));
            }
            "resources/subscribe" if self.followed.len() < MOST => {
                if let Some(address) = address() {
                    self.followed.insert(address, (id.clone(), line.clone()));
                }
            }
            "resources/unsubscribe" => {
                if let Some(address) = address() {
                    self.followed.remove(&address);
                }
            }
            _ => {}
        }
    }

    pub(super) fn record_notification(&mut self, method: &str, line: &Bytes) {
        if method == "notifications/initialized" {
            self.initialized = Some(line.clone());
        }
    }

    /// Returns the client's `initialize` request and its result, if the server has responded.
    pub(super) fn hello(&self, client: &BridgeClient) -> Option<(InitializeRequest, RawJson)> {
        Some((self.initialize.clone()?, client.initialize_result()?))
    }

    pub(super) fn initialized(&self) -> Option<Bytes> {
        self.initialized.clone()
    }

    pub(super) fn subscriptions(&self) -> Vec<(RawJson, Bytes)> {
        self.followed.values().cloned().collect()
    }
}

/// Fails if the protocol version has changed: a session can't continue with another one.
pub(super) fn check_same(before: &RawJson, now: &RawJson) -> Result<(), String> {
    let version = |result: &RawJson| {
        result.parse::<Version>().map_or_else(|_| String::new(), |result| result.protocol_version)
    };
    let (before, now) = (version(before), version(now));
    if before == now {
        Ok(())
    } else {
        Err(format!("the protocol version is now {now}, but the session began with {before}"))
    }
}

/// Returns the `list_changed` notifications of the lists that the server declared as changeable.
pub(super) fn lists(result: &RawJson) -> Vec<&'static str> {
    let capabilities = result.member("capabilities");
    let changes = |list: &str| {
        let list = capabilities.as_ref()?.member(list)?;
        Some(list.member("listChanged")?.as_bytes() == b"true")
    };
    let changed = LISTS.into_iter().filter(|(list, _)| changes(list) == Some(true));
    changed.map(|(_, method)| method).collect()
}
