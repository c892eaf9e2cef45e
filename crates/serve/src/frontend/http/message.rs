//! The body of a POST: which kind of message it is, of which era, and what the headers are to agree
//! with. What is inside is dealt with by `wire` and `dispatch`.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;

use crate::frontend::http::field::{PROTOCOL_VERSION, one};
use crate::frontend::http::response::{Refusal, bad_request};
use crate::observe::is_trace_parent;
use crate::raw::{self, Raw};
use crate::wire;
use crate::wire::code::INVALID_REQUEST;

/// The header, and the member of `_meta`, that names the trace of a request (W3C trace context).
const TRACE: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

/// The members of `_meta` in which a modern client tells of itself.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The revisions that begin with `initialize`.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The body of a POST.
pub(crate) struct Message {
    /// The message itself.
    pub(crate) read: wire::Message,
    /// The revision that its `_meta` names.
    pub(crate) version: Option<String>,
}

impl Message {
    /// Reads the body of a POST.
    pub(crate) fn read(body: &Bytes) -> Result<Self, Refusal> {
        // Only the oldest revision of this transport knew batches.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(bad_request(INVALID_REQUEST, "batches are not supported"));
        }
        let read = wire::Message::on_lines(body).map_err(|malformed| {
            let (code, message) = malformed.error("expected one JSON-RPC message");
            bad_request(code, &message)
        })?;
        let mut message = Self { read, version: None };
        message.version = message.meta().and_then(|meta| text(&meta, VERSION));
        Ok(message)
    }

    /// Its method; nothing for an answer.
    pub(crate) fn method(&self) -> &str {
        match &self.read {
            wire::Message::Request { method, .. } | wire::Message::Notification { method, .. } => {
                method
            }
            wire::Message::Answer { .. } => "",
        }
    }

    /// Returns `true` for the request of modern agents that lasts for as long as they listen.
    pub(crate) fn listens(&self) -> bool {
        self.method() == "subscriptions/listen"
    }

    /// Its id, where it is a request.
    pub(crate) fn id(&self) -> Option<&Raw> {
        match &self.read {
            wire::Message::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    /// The id of our request that it answers, where it is an answer.
    pub(crate) fn answered(&self) -> Option<&Raw> {
        match &self.read {
            wire::Message::Answer { id, .. } => Some(id),
            _ => None,
        }
    }

    fn params(&self) -> Option<&Raw> {
        match &self.read {
            wire::Message::Request { params, .. } | wire::Message::Notification { params, .. } => {
                params.as_ref()
            }
            wire::Message::Answer { .. } => None,
        }
    }

    /// Its `_meta`.
    pub(crate) fn meta(&self) -> Option<Raw> {
        self.params()?.member("_meta")
    }

    /// Returns `true` if `_meta` has the client's capabilities.
    pub(crate) fn says_capabilities(&self) -> bool {
        self.meta().and_then(|meta| meta.member(CAPABILITIES)).is_some_and(|said| !is_null(&said))
    }

    /// The name that `Mcp-Name` has to have, where there is one.
    pub(crate) fn name(&self) -> Option<String> {
        let key = match self.method() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return None,
        };
        text(self.params()?, key)
    }

    /// The arguments of a call.
    pub(crate) fn arguments(&self) -> Option<Raw> {
        self.params()?.member("arguments")
    }

    /// Lets a call belong to the trace that the headers name, where it does not name one itself.
    pub(crate) fn continue_trace(&mut self, headers: &HeaderMap) {
        if self.method() != "tools/call" {
            return;
        }
        let meta = self.meta();
        if meta.as_ref().is_some_and(|meta| meta.member(TRACE).is_some()) {
            return;
        }
        let said = |key| one(headers, key).ok().flatten();
        let Some(parent) = said(TRACE).filter(|parent| is_trace_parent(parent)) else { return };
        let wire::Message::Request { params: Some(params), .. } = &mut self.read else { return };
        let continued = || {
            let mut meta = meta.unwrap_or_else(|| raw::object([]));
            meta = meta.with_member(TRACE, &Raw::of_text(parent))?;
            if let Some(state) = said(TRACE_STATE) {
                meta = meta.with_member(TRACE_STATE, &Raw::of_text(state))?;
            }
            params.with_member("_meta", &meta)
        };
        if let Some(continued) = continued() {
            *params = continued;
        }
    }

    /// Returns `true` if the message belongs to a request that is under way, with whichever process began it.
    pub(crate) fn belongs_to_request(&self) -> bool {
        self.answered().is_some()
            || matches!(self.method(), "notifications/cancelled" | "notifications/progress")
    }

    /// Returns `true` if the message is of the modern form. A handshake that names no revision in
    /// its `_meta` is not, whatever else is in it, and a discovery always is.
    pub(crate) fn is_modern(&self, headers: &HeaderMap) -> bool {
        match (&self.version, self.method()) {
            (_, "server/discover") => true,
            (Some(version), _) => !is_legacy(version),
            (None, "initialize") => false,
            (None, _) => {
                one(headers, &PROTOCOL_VERSION).is_ok_and(|v| v.is_some_and(|v| !is_legacy(v)))
            }
        }
    }
}

/// Returns `true` if a revision is one of those that begin with `initialize`.
pub(crate) fn is_legacy(version: &str) -> bool {
    LEGACY.contains(&version)
}

fn is_null(value: &Raw) -> bool {
    value.as_bytes() == b"null"
}

/// The member of an object that is a text.
fn text(object: &Raw, key: &str) -> Option<String> {
    object.member(key)?.text().map(Cow::into_owned)
}

#[cfg(test)]
mod tests;
