//! A short look at the body of a POST: what kind of message it is, of which era, and what the
//! headers are to agree with. What is inside is dealt with by `wire` and `dispatch`.

use bytes::Bytes;
use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::frontend::http::field::{PROTOCOL_VERSION, one};
use crate::frontend::http::response::{Refusal, bad_request};
use crate::observe::is_trace_parent;
use crate::raw::{self, Raw};
use crate::wire::code::{INVALID_REQUEST, PARSE_ERROR};

/// The header, and the member of `_meta`, that names the trace of a request (W3C trace context).
const TRACE: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

/// The revisions that begin with `initialize`.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The facts about a message that are needed before it is taken.
pub(crate) struct Message {
    /// The message, as one line.
    pub(crate) text: Bytes,
    /// The kind of message.
    pub(crate) kind: Kind,
    /// Its id, where it is a request.
    pub(crate) id: Option<Raw>,
    /// The id of our request that it answers, where it is an answer.
    pub(crate) answered: Option<Raw>,
    /// Its method, or nothing.
    pub(crate) method: String,
    /// The name that `Mcp-Name` has to have, where there is one.
    pub(crate) name: Option<String>,
    /// The arguments of a call.
    pub(crate) arguments: Option<Raw>,
    /// The revision that its `_meta` names.
    pub(crate) version: Option<String>,
    /// Its `_meta`.
    pub(crate) meta: Option<Raw>,
    /// `true` if `_meta` has the client's capabilities.
    pub(crate) says_capabilities: bool,
}

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Notification,
    Answer,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "taskId")]
    task: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}

impl Message {
    /// Looks at the body of a POST.
    pub(crate) fn read(body: Bytes) -> Result<Self, Refusal> {
        // Only the oldest revision of this transport knew batches. serde would take an array for a
        // struct.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(bad_request(INVALID_REQUEST, "batches are not supported"));
        }
        let members: Members<'_> = serde_json::from_slice(&body).map_err(|error| {
            bad_request(PARSE_ERROR, &format!("expected one JSON-RPC message: {error}"))
        })?;
        let kind = match (&members.method, members.id) {
            (Some(_), Some(_)) => Kind::Request,
            (Some(_), None) => Kind::Notification,
            (None, _) => Kind::Answer,
        };
        let method = members.method.unwrap_or_default();
        let params: Params<'_> = members.params.and_then(parse).unwrap_or_default();
        let said: Meta<'_> = params.meta.and_then(parse).unwrap_or_default();
        let name = match method.as_str() {
            "tools/call" | "prompts/get" => params.name,
            "resources/read" => params.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => params.task,
            _ => None,
        };
        Ok(Self {
            kind,
            id: members.id.filter(|_| kind == Kind::Request).map(|id| Raw::slice_of(&body, id)),
            answered: members
                .id
                .filter(|_| kind == Kind::Answer)
                .map(|id| Raw::slice_of(&body, id)),
            method,
            name: name.and_then(parse),
            meta: params.meta.map(|meta| Raw::slice_of(&body, meta)),
            arguments: params.arguments.map(|arguments| Raw::slice_of(&body, arguments)),
            version: said.version.and_then(parse),
            says_capabilities: said.capabilities.is_some(),
            text: raw::one_line(body),
        })
    }

    /// Lets a call belong to the trace that the headers name, where it does not name one itself.
    pub(crate) fn continue_trace(&mut self, headers: &HeaderMap) {
        let has_own = || self.meta.as_ref().is_some_and(|meta| meta.member(TRACE).is_some());
        if self.method != "tools/call" || has_own() {
            return;
        }
        let said = |key| one(headers, key).ok().flatten();
        let Some(parent) = said(TRACE).filter(|parent| is_trace_parent(parent)) else { return };
        let continued = || {
            let message = Raw::encode(&serde_json::from_slice::<&RawValue>(&self.text).ok()?);
            let params = message.member("params")?;
            let meta = self.meta.clone().unwrap_or_else(|| raw::object([]));
            let mut meta = meta.with_member(TRACE, &Raw::of_text(parent))?;
            if let Some(state) = said(TRACE_STATE) {
                meta = meta.with_member(TRACE_STATE, &Raw::of_text(state))?;
            }
            message.with_member("params", &params.with_member("_meta", &meta)?)
        };
        if let Some(message) = continued() {
            self.text = message.into_bytes();
        }
    }

    /// Returns `true` if the message belongs to a request that is under way, with whichever process began it.
    pub(crate) fn belongs_to_request(&self) -> bool {
        let belongs = ["notifications/cancelled", "notifications/progress"];
        self.kind == Kind::Answer || belongs.contains(&self.method.as_str())
    }

    /// Returns `true` if the message is of the modern form. A handshake that names no revision in
    /// its `_meta` is not, whatever else is in it, and a discovery always is.
    pub(crate) fn is_modern(&self, headers: &HeaderMap) -> bool {
        match (&self.version, self.method.as_str()) {
            (_, "server/discover") => true,
            (Some(version), _) => !is_legacy(version),
            (None, "initialize") => false,
            (None, _) => {
                one(headers, PROTOCOL_VERSION).is_ok_and(|v| v.is_some_and(|v| !is_legacy(v)))
            }
        }
    }
}

/// Returns `true` if a revision is one of those that begin with `initialize`.
pub(crate) fn is_legacy(version: &str) -> bool {
    LEGACY.contains(&version)
}

fn parse<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests;
