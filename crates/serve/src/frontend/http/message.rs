//! The JSON-RPC message in the body of a POST, and the fields that the headers must match. `wire`
//! and `dispatch` handle its content.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;

use crate::frontend::http::header_value::{PROTOCOL_VERSION, single_value};
use crate::frontend::http::response::{HttpError, bad_request};
use crate::json::{self, RawJson};
use crate::telemetry::is_trace_parent;
use crate::wire;
use crate::wire::code::INVALID_REQUEST;

/// Header and `_meta` key of the trace (W3C Trace Context).
const TRACE: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Protocol revisions that start with `initialize`.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

pub(crate) struct PostedMessage {
    pub(crate) message: wire::JsonRpcMessage,
    pub(crate) version: Option<String>,
}

impl PostedMessage {
    pub(crate) fn read(body: &Bytes) -> Result<Self, HttpError> {
        // Only revision 2025-03-26 of Streamable HTTP had batches.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(bad_request(INVALID_REQUEST, "batches are not supported"));
        }
        let read = wire::JsonRpcMessage::parse_multiline(body).map_err(|malformed| {
            let (code, message) = malformed.to_rpc_error("expected one JSON-RPC message");
            bad_request(code, &message)
        })?;
        let mut message = Self { message: read, version: None };
        message.version = message.meta().and_then(|meta| text(&meta, VERSION));
        Ok(message)
    }

    /// Empty for a response.
    pub(crate) fn method(&self) -> &str {
        match &self.message {
            wire::JsonRpcMessage::Request { method, .. }
            | wire::JsonRpcMessage::Notification { method, .. } => method,
            wire::JsonRpcMessage::Response { .. } => "",
        }
    }

    pub(crate) fn is_listen(&self) -> bool {
        self.method() == "subscriptions/listen"
    }

    pub(crate) fn id(&self) -> Option<&RawJson> {
        match &self.message {
            wire::JsonRpcMessage::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    /// For a response, the id of the server request that it answers.
    pub(crate) fn answered_id(&self) -> Option<&RawJson> {
        match &self.message {
            wire::JsonRpcMessage::Response { id, .. } => Some(id),
            _ => None,
        }
    }

    fn params(&self) -> Option<&RawJson> {
        match &self.message {
            wire::JsonRpcMessage::Request { params, .. }
            | wire::JsonRpcMessage::Notification { params, .. } => params.as_ref(),
            wire::JsonRpcMessage::Response { .. } => None,
        }
    }

    pub(crate) fn meta(&self) -> Option<RawJson> {
        self.params()?.member("_meta")
    }

    pub(crate) fn says_capabilities(&self) -> bool {
        self.meta().and_then(|meta| meta.member(CAPABILITIES)).is_some_and(|said| !is_null(&said))
    }

    /// The value that the `Mcp-Name` header must have, if the method requires one.
    pub(crate) fn name(&self) -> Option<String> {
        let key = match self.method() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return None,
        };
        text(self.params()?, key)
    }

    pub(crate) fn arguments(&self) -> Option<RawJson> {
        self.params()?.member("arguments")
    }

    /// Copies the trace context from the headers into a tool call that has none.
    pub(crate) fn continue_trace(&mut self, headers: &HeaderMap) {
        if self.method() != "tools/call" {
            return;
        }
        let meta = self.meta();
        if meta.as_ref().is_some_and(|meta| meta.member(TRACE).is_some()) {
            return;
        }
        let said = |key| single_value(headers, key).ok().flatten();
        let Some(parent) = said(TRACE).filter(|parent| is_trace_parent(parent)) else { return };
        let wire::JsonRpcMessage::Request { params: Some(params), .. } = &mut self.message else {
            return;
        };
        let continued = || {
            let mut meta = meta.unwrap_or_else(|| json::object([]));
            meta = meta.with_member(TRACE, &RawJson::from_text(parent))?;
            if let Some(state) = said(TRACE_STATE) {
                meta = meta.with_member(TRACE_STATE, &RawJson::from_text(state))?;
            }
            params.with_member("_meta", &meta)
        };
        if let Some(continued) = continued() {
            *params = continued;
        }
    }

    /// `true` for messages that must reach the process handling the request in flight.
    pub(crate) fn belongs_to_request(&self) -> bool {
        self.answered_id().is_some()
            || matches!(self.method(), "notifications/cancelled" | "notifications/progress")
    }

    /// `true` if the message is of the modern era. `server/discover` always is. An `initialize`
    /// without a revision in `_meta` never is, even if the header names a modern one.
    pub(crate) fn is_modern(&self, headers: &HeaderMap) -> bool {
        match (&self.version, self.method()) {
            (_, "server/discover") => true,
            (Some(version), _) => !is_legacy(version),
            (None, "initialize") => false,
            (None, _) => single_value(headers, &PROTOCOL_VERSION)
                .is_ok_and(|v| v.is_some_and(|v| !is_legacy(v))),
        }
    }
}

pub(crate) fn is_legacy(version: &str) -> bool {
    LEGACY.contains(&version)
}

fn is_null(value: &RawJson) -> bool {
    value.as_bytes() == b"null"
}

fn text(object: &RawJson, key: &str) -> Option<String> {
    object.member(key)?.decode_string().map(Cow::into_owned)
}

#[cfg(test)]
mod tests;
