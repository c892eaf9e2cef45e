//! The session of a legacy server, and the many ways in which servers say that they don't know it.

use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde::Deserialize;

use crate::code::{INVALID_REQUEST, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, UNAVAILABLE};
use crate::json::RawJson;

/// The error code that servers use for an unknown session. No specification defines it.
const SESSION_NOT_FOUND: i64 = -32001;

/// The session of a legacy server. Its id is sent with every request.
#[derive(Clone, Default)]
pub(super) struct Session {
    pub(super) id: Option<HeaderValue>,
    /// Set once `initialize` has succeeded, also if the server has no session ids.
    pub(super) version: Option<HeaderValue>,
    pub(super) is_lost: bool,
}

/// Whether a rejection says that the session is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionLoss {
    No,
    /// The request certainly wasn't executed.
    BeforeExecution,
    /// The request may have been executed.
    Possible,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RpcError {
    code: Option<i64>,
    message: String,
}

/// Returns whether a response with an error status says that `session` is lost.
pub(super) fn loss(session: &Session, status: StatusCode, body: &[u8]) -> SessionLoss {
    let body: serde_json::Value = serde_json::from_slice(body)
        .unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into());
    let error = body.get("error").unwrap_or(&body);
    if error.get("code").and_then(serde_json::Value::as_i64) == Some(METHOD_NOT_FOUND) {
        return SessionLoss::No;
    }
    let message = error.get("message").or(body.get("message")).unwrap_or(error);
    let text = normalized(&message.as_str().map_or_else(|| message.to_string(), str::to_owned));
    let is_lost = match status {
        StatusCode::NOT_FOUND => session.id.is_some(),
        StatusCode::BAD_REQUEST if session.id.is_some() && text.contains("session id") => true,
        _ => session.is_lost_by(&text),
    };
    // A server that fails in the middle of a request can mention sessions of another kind.
    let is_certain = !status.is_server_error()
        || status == StatusCode::SERVICE_UNAVAILABLE
        || is_about_session(&text);
    match (is_lost, is_certain) {
        (false, _) => SessionLoss::No,
        (true, true) => SessionLoss::BeforeExecution,
        (true, false) => SessionLoss::Possible,
    }
}

/// Returns `true` if an error object that came with a success status says that `session` is lost.
/// Errors of a tool have other codes.
pub(super) fn is_lost_error(session: &Session, error: &RawJson) -> bool {
    let codes = [SESSION_NOT_FOUND, UNAVAILABLE, INVALID_REQUEST, RESOURCE_NOT_FOUND];
    error.parse::<RpcError>().is_ok_and(|error| {
        let text = normalized(&error.message);
        error.code.is_some_and(|code| codes.contains(&code))
            && is_about_session(&text)
            && session.is_lost_by(&text)
    })
}

/// Returns `true` if the text begins with the session or its state. Others can be about another
/// session, such as one of a browser or a database.
fn is_about_session(text: &str) -> bool {
    let text = text.trim_start_matches("error: ").trim_start_matches("bad request: ");
    let beginnings = ["session", "mcp session", "server not initiali", "not initiali"];
    let words = ["unknown ", "invalid ", "no ", "expired ", "no valid ", "no such "];
    let rest = words.iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    beginnings.iter().any(|beginning| rest.starts_with(beginning))
}

impl Session {
    fn is_lost_by(&self, text: &str) -> bool {
        const LOST: [&str; 22] = [
            "not found",
            "could not find",
            "unknown",
            "invalid",
            "not valid",
            "no valid",
            "expired",
            "terminated",
            "closed",
            "ended",
            "lost",
            "stale",
            "missing",
            "no longer",
            "no such",
            "no active",
            "not active",
            "not exist",
            "doesn't exist",
            "unrecogni",
            "not recogni",
            "no session",
        ];
        const NOT_INITIALIZED: [&str; 3] = ["not initiali", "not been initiali", "before initiali"];
        let is_any = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
        self.id.is_some() && text.contains("session") && is_any(&LOST)
            || (self.id.is_some() || self.version.is_some()) && is_any(&NOT_INITIALIZED)
    }
}

/// Returns the text in lower case, with spaces within names such as `sessionId` and `session_id`.
fn normalized(text: &str) -> String {
    text.to_lowercase().replace(['-', '_'], " ").replace("sessionid", "session id")
}

#[cfg(test)]
mod tests;
