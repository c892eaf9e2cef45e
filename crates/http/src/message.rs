//! The JSON-RPC message in the body of a POST, and the fields that the headers must match. `wire`
//! and `dispatch` handle its content.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;

use crate::header_value::{PROTOCOL_VERSION, single_value};
use crate::response::{HttpError, bad_request};
use mcp_workbench_core::telemetry::is_trace_parent;
use mcp_workbench_wire::code::{INVALID_PARAMS, INVALID_REQUEST};
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::{self, RawJson};

/// Header and `_meta` key of the trace (W3C Trace Context).
const TRACE: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Protocol revisions that start with `initialize`.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

pub(crate) struct PostedMessage {
    pub(crate) message: mcp_workbench_wire::JsonRpcMessage,
    pub(crate) version: Option<String>,
}

impl PostedMessage {
    pub(crate) fn read(body: &Bytes) -> Result<Self, HttpError> {
        // Only revision 2025-03-26 of Streamable HTTP had batches.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(bad_request(INVALID_REQUEST, "batches are not supported"));
        }
        let read = mcp_workbench_wire::JsonRpcMessage::parse_multiline(body).or_else(reject)?;
        let mut message = Self { message: read, version: None };
        message.version = message.meta().and_then(|meta| text(&meta, VERSION));
        Ok(message)
    }

    /// Empty for a response.
    pub(crate) fn method(&self) -> &str {
        match &self.message {
            mcp_workbench_wire::JsonRpcMessage::Request { method, .. }
            | mcp_workbench_wire::JsonRpcMessage::Notification { method, .. } => method,
            mcp_workbench_wire::JsonRpcMessage::Response { .. } => "",
        }
    }

    pub(crate) fn is_listen(&self) -> bool {
        self.method() == "subscriptions/listen"
    }

    pub(crate) fn id(&self) -> Option<&RawJson> {
        match &self.message {
            mcp_workbench_wire::JsonRpcMessage::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    /// For a response, the id of the server request that it answers.
    pub(crate) fn answered_id(&self) -> Option<&RawJson> {
        match &self.message {
            mcp_workbench_wire::JsonRpcMessage::Response { id, .. } => Some(id),
            _ => None,
        }
    }

    fn params(&self) -> Option<&RawJson> {
        match &self.message {
            mcp_workbench_wire::JsonRpcMessage::Request { params, .. }
            | mcp_workbench_wire::JsonRpcMessage::Notification { params, .. } => params.as_ref(),
            mcp_workbench_wire::JsonRpcMessage::Response { .. } => None,
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
    pub(crate) fn continue_trace(&mut self, headers: &HeaderMap) -> Result<(), HttpError> {
        if self.method() != "tools/call" {
            return Ok(());
        }
        let meta = self.meta();
        if meta.as_ref().is_some_and(|meta| meta.member(TRACE).is_some()) {
            return Ok(());
        }
        let said = |key| single_value(headers, key).ok().flatten();
        let parent = said(TRACE).filter(|parent| is_trace_parent(parent));
        let (
            Some(parent),
            mcp_workbench_wire::JsonRpcMessage::Request { id, params: Some(params), .. },
        ) = (parent, &mut self.message)
        else {
            return Ok(());
        };
        let continued = || {
            let mut meta = meta.unwrap_or_else(|| json::object([]));
            meta = meta.with_member(TRACE, &RawJson::from_text(parent))?;
            if let Some(state) = said(TRACE_STATE) {
                meta = meta.with_member(TRACE_STATE, &RawJson::from_text(state))?;
            }
            params.with_member("_meta", &meta)
        };
        *params = continued().map_err(|error| {
            let message = format!("cannot add the trace context to `_meta`: {error}");
            HttpError { id: Some(Box::new(id.clone())), ..bad_request(INVALID_PARAMS, &message) }
        })?;
        Ok(())
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

/// Rejects a malformed message. A response with unreadable names becomes an error, so that the
/// server that waits for it gets an answer.
fn reject(
    malformed: mcp_workbench_wire::MessageParseError,
) -> Result<mcp_workbench_wire::JsonRpcMessage, HttpError> {
    let (code, message) = malformed.to_rpc_error("expected one JSON-RPC message");
    let id = malformed.request_id().cloned().map(Box::new);
    if let mcp_workbench_wire::MessageParseError::UnreadableName(unreadable) = malformed
        && let mcp_workbench_wire::JsonRpcMessage::Response { id, .. } = *unreadable
    {
        let outcome = mcp_workbench_wire::RpcOutcome::Error(error_object(code, &message, None));
        return Ok(mcp_workbench_wire::JsonRpcMessage::Response { id, outcome });
    }
    Err(HttpError { id, ..bad_request(code, &message) })
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
