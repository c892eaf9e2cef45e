//! The part of a session that a server which has lost it has to hear again.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use crate::raw::Raw;
use crate::wire::remote::bridge::passing::Far;

/// The lists of a legacy server, and what says that one has changed.
const LISTS: [(&str, &str); 3] = [
    ("tools", "notifications/tools/list_changed"),
    ("prompts", "notifications/prompts/list_changed"),
    ("resources", "notifications/resources/list_changed"),
];
/// The most addresses that a client follows whose requests are kept.
const MOST: usize = 1024;

/// Everything that the client has said to the server as such.
#[derive(Default)]
pub(super) struct Greeting {
    initialize: Option<Hello>,
    initialized: Option<Bytes>,
    /// Requests that hold until they are taken back, by what they are about.
    followed: BTreeMap<String, (Raw, Bytes)>,
}

/// The `initialize` request.
#[derive(Clone)]
pub(super) struct Hello {
    pub(super) id: Raw,
    pub(super) line: Bytes,
}

/// The revision that an answer names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    protocol_version: String,
}

impl Greeting {
    /// Takes note of a request.
    pub(super) fn asked(&mut self, method: &str, id: &Raw, line: &Bytes) {
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
                    initialize: Some(Hello { id: id.clone(), line: line.clone() }),
                    ..Self::default()
                };
            }
            // A modern request says by itself what it needs.
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

    /// Takes note of a notification.
    pub(super) fn told(&mut self, method: &str, line: &Bytes) {
        if method == "notifications/initialized" {
            self.initialized = Some(line.clone());
        }
    }

    /// The greeting and the answer to it, if the server has answered.
    pub(super) fn hello(&self, far: &Far) -> Option<(Hello, Raw)> {
        Some((self.initialize.clone()?, far.greeted()?))
    }

    pub(super) fn initialized(&self) -> Option<Bytes> {
        self.initialized.clone()
    }

    pub(super) fn followed(&self) -> Vec<(Raw, Bytes)> {
        self.followed.values().cloned().collect()
    }
}

/// Fails where a session that began with one answer cannot go on with another.
pub(super) fn check_same(before: &Raw, now: &Raw) -> Result<(), String> {
    let version = |result: &Raw| {
        result.parse::<Version>().map_or_else(|_| String::new(), |result| result.protocol_version)
    };
    let (before, now) = (version(before), version(now));
    if before == now {
        Ok(())
    } else {
        Err(format!("it speaks revision {now} now, and the session began with {before}"))
    }
}

/// The notifications that tell a client to list again whatever it may have listed.
pub(super) fn lists(result: &Raw) -> Vec<&'static str> {
    let capabilities = result.member("capabilities");
    let changes = |list: &str| {
        let list = capabilities.as_ref()?.member(list)?;
        Some(list.member("listChanged")?.as_bytes() == b"true")
    };
    let changed = LISTS.into_iter().filter(|(list, _)| changes(list) == Some(true));
    changed.map(|(_, method)| method).collect()
}
