//! Protocol negotiation: which revisions a server speaks, and how it describes itself.
//!
//! Legacy revisions start with `initialize`, 2026-07-28 with `server/discover`. Only the response
//! tells which one a server supports, and an unsupported hello may be rejected, ignored, or end the
//! server. So one hello is sent first. If it is rejected, or unanswered for a while, the other one
//! follows, and the first successful response wins. The connection drops later responses.

use std::time::Duration;

use rmcp::model::{Implementation, ProtocolVersion};
use serde::Deserialize;
use tokio::time::timeout;

use crate::catalog::{ServerCapabilities, shorten};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::{LEGACY_VERSIONS, Protocol};
use mcp_workbench_wire::UNREADABLE_NAME;
use mcp_workbench_wire::code::UNSUPPORTED_PROTOCOL_VERSION;
use mcp_workbench_wire::http_client::HttpTransportError;
use mcp_workbench_wire::json::{Member, RawJson};
use mcp_workbench_wire::server::{PendingRequest, RequestError, RpcOutcome, ServerConnection};

/// How long a server may take to close after it rejected a hello.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Protocol generation of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: a session begins with `initialize`.
    Legacy,
    /// 2026-07-28: every request carries its own metadata.
    Modern,
}

impl Era {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Legacy => "initialize",
            Self::Modern => "server/discover",
        }
    }
}

#[derive(Debug)]
pub struct HandshakeResult {
    pub(crate) era: Era,
    pub(crate) capabilities: ServerCapabilities,
    pub instructions: Option<String>,
    /// The server's `Implementation` (MCP).
    pub info: Option<RawJson>,
    /// Members of `_meta` that every request to the server needs.
    pub meta: Vec<Member>,
}

#[derive(Debug)]
pub enum HandshakeError {
    Refused(HandshakeRejection),
    /// The response was malformed or too long.
    InvalidResponse(String),
    SignIn,
    Closed,
}

#[derive(Debug)]
pub struct HandshakeRejection {
    pub(crate) message: String,
    /// The failure below the message layer, if the server sent no message.
    pub(crate) failure: Option<HttpTransportError>,
    /// `true` if the server rejected 2026-07-28 but lists it as supported.
    speaks_ours: bool,
    /// The newest known version with `initialize` that the rejection names.
    offered: Option<&'static str>,
}

impl HandshakeRejection {
    fn new(error: &RawJson) -> Self {
        #[derive(Deserialize)]
        struct Unsupported {
            code: i64,
            data: Supported,
        }
        #[derive(Deserialize)]
        struct Supported {
            supported: Vec<String>,
        }

        let unsupported = error.parse::<Unsupported>().ok();
        let speaks_ours = unsupported.is_some_and(|error| {
            let ours = ProtocolVersion::V_2026_07_28;
            error.code == UNSUPPORTED_PROTOCOL_VERSION
                && error.data.supported.iter().any(|version| version == ours.as_str())
        });
        Self {
            message: message(error),
            failure: HttpTransportError::from_error_object(error),
            speaks_ours,
            offered: offered_version(&error.as_str()),
        }
    }
}

/// Returns the newest known version with `initialize` that a rejection names, other than the one
/// that was sent.
fn offered_version(rejection: &str) -> Option<&'static str> {
    if !rejection.to_ascii_lowercase().contains("version") {
        return None;
    }
    let mut known = LEGACY_VERSIONS.into_iter().filter(|version| *version != NEWEST);
    known.find(|version| rejection.contains(version))
}

/// The version that `initialize` requests first.
const NEWEST: &str = LEGACY_VERSIONS[0];

/// Negotiates the protocol. With `Protocol::Auto`, tries `first`, and the other era if that is
/// rejected or unanswered for `patience`.
pub async fn negotiate(
    connection: &ServerConnection,
    protocol: Protocol,
    first: Era,
    capabilities: &RawJson,
    patience: Duration,
) -> Result<HandshakeResult, HandshakeError> {
    match handshake_in_both_eras(connection, protocol, first, capabilities, patience).await {
        // The server may have been upgraded since the request, so retry once.
        Err(HandshakeError::Refused(HandshakeRejection { speaks_ours: true, .. })) => {
            handshake_in_both_eras(connection, protocol, first, capabilities, patience).await
        }
        handshake => handshake,
    }
}

async fn handshake_in_both_eras(
    connection: &ServerConnection,
    protocol: Protocol,
    first: Era,
    capabilities: &RawJson,
    patience: Duration,
) -> Result<HandshakeResult, HandshakeError> {
    let (first, second) = match protocol {
        Protocol::Auto => (first, Some(first.other())),
        Protocol::Legacy | Protocol::Pinned(_) => (Era::Legacy, None),
        Protocol::Modern => (Era::Modern, None),
    };
    let version = match protocol {
        Protocol::Pinned(version) => version,
        _ => NEWEST,
    };
    let mut asked = send_hello(connection, first, version, capabilities).await?;
    let Some(second) = second else {
        let answer = asked.response().await;
        return read_or_offer(connection, first, protocol, answer, capabilities).await;
    };
    let mut refusal = match timeout(patience, asked.response()).await {
        Ok(answer) => {
            match read_or_offer(connection, first, protocol, answer, capabilities).await {
                Err(HandshakeError::Refused(refusal)) => Some(refusal),
                read => return read,
            }
        }
        Err(_) => None,
    };
    let is_unreachable = |refusal: &HandshakeRejection| {
        matches!(
            refusal.failure,
            Some(HttpTransportError::Unreachable | HttpTransportError::Untrusted)
        )
    };
    if let Some(refusal) = refusal.take_if(|refusal| is_unreachable(refusal)) {
        return Err(HandshakeError::Refused(refusal));
    }
    // A server that closes on an unknown hello gets no second one.
    if timeout(STDERR_DRAIN_TIMEOUT, connection.closed()).await.is_ok() {
        return Err(refusal.map_or(HandshakeError::Closed, HandshakeError::Refused));
    }
    let offered = refusal.as_ref().and_then(|refusal| refusal.offered).unwrap_or(version);
    let mut also_asked = send_hello(connection, second, offered, capabilities).await?;
    if let Some(refusal) = refusal {
        let answer = also_asked.response().await;
        return match read_or_offer(connection, second, protocol, answer, capabilities).await {
            // Report the rejection by the era that servers commonly speak.
            Err(HandshakeError::Refused(_)) if first == Era::Legacy => {
                Err(HandshakeError::Refused(refusal))
            }
            // It rejected the first hello and may have closed because of the second.
            Err(HandshakeError::Closed) => Err(HandshakeError::Refused(refusal)),
            read => read,
        };
    }
    let (mut has_first, mut has_second) = (false, false);
    loop {
        let (era, answer) = tokio::select! {
            answer = asked.response(), if !has_first => { has_first = true; (first, answer) }
            answer = also_asked.response(), if !has_second => { has_second = true; (second, answer) }
        };
        match read(connection, era, answer, capabilities) {
            Err(HandshakeError::Refused(_)) if !(has_first && has_second) => {}
            read => {
                // A handshake can't be cancelled; only stop waiting for it.
                asked.forget();
                also_asked.forget();
                return read;
            }
        }
    }
}

/// Reads a response. If a legacy server rejects the version and offers an older one, sends
/// `initialize` again with that, unless the configuration pins a version.
async fn read_or_offer(
    connection: &ServerConnection,
    era: Era,
    protocol: Protocol,
    answer: Result<RpcOutcome, RequestError>,
    capabilities: &RawJson,
) -> Result<HandshakeResult, HandshakeError> {
    let rejection = match read(connection, era, answer, capabilities) {
        Err(HandshakeError::Refused(rejection)) if era == Era::Legacy => rejection,
        read => return read,
    };
    let Some(offered) = rejection.offered.filter(|_| !matches!(protocol, Protocol::Pinned(_)))
    else {
        return Err(HandshakeError::Refused(rejection));
    };
    tracing::debug!(offered, "the server rejected the protocol version and offers another one");
    let mut asked = send_hello(connection, era, offered, capabilities).await?;
    match read(connection, era, asked.response().await, capabilities) {
        Err(HandshakeError::Refused(_) | HandshakeError::Closed) => {
            Err(HandshakeError::Refused(rejection))
        }
        read => read,
    }
}

/// `version` is the version that `initialize` requests.
async fn send_hello(
    connection: &ServerConnection,
    era: Era,
    version: &'static str,
    capabilities: &RawJson,
) -> Result<PendingRequest, HandshakeError> {
    let sent = match era {
        Era::Legacy => {
            let version = RawJson::from_text(version);
            let ourselves = RawJson::encode(&implementation());
            let params = [
                ("protocolVersion", &version),
                ("capabilities", capabilities),
                ("clientInfo", &ourselves),
            ];
            connection.send_request(era.method(), &params, &[], false).await
        }
        Era::Modern => {
            connection.send_request(era.method(), &[], &modern_meta(capabilities), false).await
        }
    };
    sent.map_err(|_| HandshakeError::Closed)
}

fn read(
    connection: &ServerConnection,
    era: Era,
    answer: Result<RpcOutcome, RequestError>,
    capabilities: &RawJson,
) -> Result<HandshakeResult, HandshakeError> {
    let result = match answer {
        Ok(RpcOutcome::Result(result)) => result,
        Ok(RpcOutcome::Error(error)) => {
            return Err(HandshakeError::Refused(HandshakeRejection::new(&error)));
        }
        Err(RequestError::Oversized(length)) => {
            return Err(HandshakeError::InvalidResponse(format!(
                "response of {length} bytes exceeds `limits.maxMessageBytes`"
            )));
        }
        Err(RequestError::UnreadableName(_)) => {
            return Err(HandshakeError::InvalidResponse(format!(
                "invalid response to `{}`: {UNREADABLE_NAME}",
                era.method()
            )));
        }
        Err(RequestError::Malformed(why)) => {
            return Err(HandshakeError::InvalidResponse(format!(
                "malformed response to `{}`: {}",
                era.method(),
                untrusted_text::single_line(&why)
            )));
        }
        Err(RequestError::NotSent | RequestError::Closed) => return Err(HandshakeError::Closed),
    };
    if !is_object(&result) {
        let quoted = shorten(&untrusted_text::single_line(&result.as_str()), MAX_MESSAGE);
        return Err(HandshakeError::InvalidResponse(format!(
            "malformed response to `{}`: expected an object, found {quoted}",
            era.method()
        )));
    }
    let meta = match era {
        Era::Legacy => {
            connection.notify("notifications/initialized", None);
            Vec::new()
        }
        Era::Modern => modern_meta(capabilities),
    };
    // Servers send `null` for members that they don't have.
    let in_meta = || result.member("_meta")?.member("io.modelcontextprotocol/serverInfo");
    let info = result.member("serverInfo").filter(is_object);
    let info = info.or_else(|| in_meta().filter(is_object)).map(|info| info.to_detached());
    let instructions = result.member("instructions");
    let instructions = instructions.and_then(|text| Some(text.decode_string_lossy()?.into_owned()));
    let capabilities = ServerCapabilities::read(result.member("capabilities").as_ref());
    Ok(HandshakeResult { era, capabilities, instructions, info, meta })
}

fn is_object(value: &RawJson) -> bool {
    value.as_bytes().starts_with(b"{")
}

/// Maximum characters quoted from a server's error.
const MAX_MESSAGE: usize = 1000;

/// Returns the message of an error object, or the whole object if it has none, on one line.
pub(crate) fn message(error: &RawJson) -> String {
    let message = error.member("message");
    let said = message.as_ref().and_then(RawJson::decode_string_lossy);
    shorten(&untrusted_text::single_line(&said.unwrap_or_else(|| error.as_str())), MAX_MESSAGE)
}

fn implementation() -> Implementation {
    Implementation::new("mcp-workbench", env!("CARGO_PKG_VERSION")).with_title("MCP Workbench")
}

/// The `_meta` members that identify the client in a modern request (2026-07-28, basic/index,
/// `_meta`).
pub(crate) fn modern_meta(capabilities: &RawJson) -> Vec<Member> {
    [
        ("protocolVersion", RawJson::encode(&ProtocolVersion::V_2026_07_28)),
        ("clientInfo", RawJson::encode(&implementation())),
        ("clientCapabilities", capabilities.clone()),
    ]
    .map(|(key, value)| (format!("io.modelcontextprotocol/{key}").into(), value))
    .into()
}

#[cfg(test)]
mod tests;
