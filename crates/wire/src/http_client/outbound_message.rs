//! A message to the server, with the facts that decide how it is sent.

use bytes::{Bytes, BytesMut};
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::envelope::JsonRpcMessage;
use crate::json::RawJson;

pub(super) struct OutboundMessage {
    pub(super) body: Bytes,
    /// Set for requests only.
    pub(super) id: Option<RawJson>,
    /// Empty for a response.
    pub(super) method: String,
    pub(super) params: Option<RawJson>,
    /// Protocol version in `_meta`. `None` for a legacy message.
    pub(super) modern: Option<HeaderValue>,
}

impl OutboundMessage {
    /// Returns `None` if `parts` aren't a message, which a connection never sends.
    pub(super) fn new(parts: &[Bytes]) -> Option<Self> {
        #[derive(Default, Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
            version: String,
        }

        let mut body = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
        for part in parts {
            body.extend_from_slice(part);
        }
        let body = body.freeze();
        let (id, method, params) = match JsonRpcMessage::parse(&body).ok()? {
            JsonRpcMessage::Request { id, method, params } => (Some(id), method, params),
            JsonRpcMessage::Notification { method, params } => (None, method, params),
            JsonRpcMessage::Response { .. } => (None, String::new(), None),
        };
        let version = params.as_ref().and_then(|params| {
            let params: Params<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
            serde_json::from_str::<Meta>(params.meta?.get()).ok()
        });
        let modern = version.and_then(|meta| HeaderValue::try_from(meta.version).ok());
        Some(Self { body, id, method, params, modern })
    }

    pub(super) fn is_handshake(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }

    pub(super) fn cancels(&self) -> Option<Bytes> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Box<RawValue>,
        }

        let params = self.params.as_ref().filter(|_| self.method == "notifications/cancelled")?;
        let cancelled: Cancelled = params.parse().ok()?;
        Some(Bytes::copy_from_slice(cancelled.request_id.get().as_bytes()))
    }
}
