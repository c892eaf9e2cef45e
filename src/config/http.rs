//! Serving over HTTP (`http`): how much agents may cost before they say anything of use.

use std::time::Duration;

use schemars::JsonSchema;

use crate::config::check::bounded;
use crate::config::limits;
use crate::config::reader::{Fields, Located, Reader};

/// Bounds on what agents may cost over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// How many sessions there may be (`maxSessions`).
    pub max_sessions: usize,
    /// How long a session is kept that nobody uses (`sessionIdleMs`).
    pub session_idle: Duration,
    /// How many connections there may be at once (`maxConnections`).
    pub max_connections: usize,
    /// How many bytes the head of a request may have (`maxHeaderBytes`).
    pub max_header_bytes: usize,
    /// How long a connection may go without the whole head of a request (`headTimeoutMs`).
    pub head_timeout: Duration,
    /// How long the whole body of a request may take (`bodyTimeoutMs`).
    pub body_timeout: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_sessions: limits::DEFAULT_SESSIONS,
            session_idle: Duration::from_millis(limits::DEFAULT_SESSION_IDLE_MS),
            max_connections: limits::DEFAULT_CONNECTIONS,
            max_header_bytes: limits::DEFAULT_HEADER_BYTES,
            head_timeout: Duration::from_millis(limits::DEFAULT_HEAD_TIMEOUT_MS),
            body_timeout: Duration::from_millis(limits::DEFAULT_BODY_TIMEOUT_MS),
        }
    }
}

/// Bounds on what agents may cost over HTTP.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub(super) struct RawHttp {
    /// How many sessions there may be. For one more, the one that was idle for longest ends.
    #[schemars(range(min = limits::SESSIONS.0, max = limits::SESSIONS.1))]
    #[schemars(extend("default" = limits::DEFAULT_SESSIONS))]
    pub(super) max_sessions: Option<Located<u64>>,

    /// How long a session is kept that nobody uses, in milliseconds.
    #[schemars(range(min = limits::SESSION_IDLE_MS.0, max = limits::SESSION_IDLE_MS.1))]
    #[schemars(extend("default" = limits::DEFAULT_SESSION_IDLE_MS))]
    pub(super) session_idle_ms: Option<Located<u64>>,

    /// How many connections there may be at once; more wait until one ends.
    #[schemars(range(min = limits::CONNECTIONS.0, max = limits::CONNECTIONS.1))]
    #[schemars(extend("default" = limits::DEFAULT_CONNECTIONS))]
    pub(super) max_connections: Option<Located<u64>>,

    /// How many bytes the request line and the headers of a request may have together.
    #[schemars(range(min = limits::HEADER_BYTES.0, max = limits::HEADER_BYTES.1))]
    #[schemars(extend("default" = limits::DEFAULT_HEADER_BYTES))]
    pub(super) max_header_bytes: Option<Located<u64>>,

    /// How long a connection may go without the whole head of a request, in milliseconds; one that
    /// is not used for so long is closed.
    #[schemars(range(min = limits::HTTP_TIMEOUT_MS.0, max = limits::HTTP_TIMEOUT_MS.1))]
    #[schemars(extend("default" = limits::DEFAULT_HEAD_TIMEOUT_MS))]
    pub(super) head_timeout_ms: Option<Located<u64>>,

    /// How long the whole body of a request may take, in milliseconds.
    #[schemars(range(min = limits::HTTP_TIMEOUT_MS.0, max = limits::HTTP_TIMEOUT_MS.1))]
    #[schemars(extend("default" = limits::DEFAULT_BODY_TIMEOUT_MS))]
    pub(super) body_timeout_ms: Option<Located<u64>>,
}

impl RawHttp {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut number = |key| fields.take(key).and_then(|node| reader.number(&node));
        Self {
            max_sessions: number("maxSessions"),
            session_idle_ms: number("sessionIdleMs"),
            max_connections: number("maxConnections"),
            max_header_bytes: number("maxHeaderBytes"),
            head_timeout_ms: number("headTimeoutMs"),
            body_timeout_ms: number("bodyTimeoutMs"),
        }
    }

    pub(super) fn checked(self, reader: &mut Reader<'_>) -> HttpConfig {
        let Self {
            max_sessions,
            session_idle_ms,
            max_connections,
            max_header_bytes,
            head_timeout_ms,
            body_timeout_ms,
        } = self;
        let by_default = HttpConfig::default();
        let mut size = |number, (least, most), by_default| {
            bounded(number, least..=most, reader).unwrap_or(by_default)
        };
        let max_sessions = size(max_sessions, limits::SESSIONS, by_default.max_sessions);
        let max_connections =
            size(max_connections, limits::CONNECTIONS, by_default.max_connections);
        let max_header_bytes =
            size(max_header_bytes, limits::HEADER_BYTES, by_default.max_header_bytes);
        let mut time = |number, (least, most), by_default| {
            bounded(number, least..=most, reader).map_or(by_default, Duration::from_millis)
        };
        HttpConfig {
            max_sessions,
            session_idle: time(session_idle_ms, limits::SESSION_IDLE_MS, by_default.session_idle),
            max_connections,
            max_header_bytes,
            head_timeout: time(head_timeout_ms, limits::HTTP_TIMEOUT_MS, by_default.head_timeout),
            body_timeout: time(body_timeout_ms, limits::HTTP_TIMEOUT_MS, by_default.body_timeout),
        }
    }
}
