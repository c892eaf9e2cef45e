//! Transport errors of servers over HTTP, with a hint on how to fix each.

use thiserror::Error;

use crate::backend::handshake::message;
use mcp_workbench_login::{LoginTarget, OAuthLogin};
use mcp_workbench_wire::http_client::HttpTransportError;
use mcp_workbench_wire::json::RawJson;

/// Hint if the server requires authorization but no login is configured.
pub(crate) const WANTS_TOKEN: &str =
    "set an access token in `headers`, such as `\"Authorization\": \"Bearer ${TOKEN}\"`";

const TOO_MANY_SCOPES: &str = "the server demands too many different scopes: ask its operator which \
     scopes it needs, set them as `oauth.scopes` in the server's entry, and sign in again";

const WANTS_SIGN_IN: &str = "sign-in required";

/// Returns the reason and hint if the user has to sign in or no token could be obtained.
pub(crate) fn of_sign_in(login: Option<&OAuthLogin>) -> (String, String) {
    match login.and_then(OAuthLogin::why_no_token) {
        Some(why) => {
            let hint = "fix `oauth` in the server's entry, then try again";
            (format!("cannot obtain an access token: {why}"), hint.to_owned())
        }
        None => (WANTS_SIGN_IN.to_owned(), how_to_sign_in(login)),
    }
}

/// Returns the reason and hint of a 401 or 403 that isn't known to need a sign-in. `reason` is the
/// server's; a token that could not be obtained is a better one.
pub(crate) fn of_unauthorized(reason: String, login: Option<&OAuthLogin>) -> (String, String) {
    if let Some(failure) = login.and_then(OAuthLogin::exchange_failure) {
        return (failure.reason, failure.hint);
    }
    match login.and_then(OAuthLogin::failed_renewal) {
        Some(why) => {
            let hint = "the authorization server may be down: try again later; else check `oauth` \
                        in the server's entry";
            (format!("cannot obtain an access token: {why}"), hint.to_owned())
        }
        None => (reason, WANTS_TOKEN.to_owned()),
    }
}

fn how_to_sign_in(login: Option<&OAuthLogin>) -> String {
    let Some(login) = login else { return WANTS_TOKEN.to_owned() };
    let LoginTarget { server, account, .. } = login.target();
    // The command is pasted into a shell, and the names come from the configuration.
    let word = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) {
            return text.to_owned();
        }
        format!("'{}'", text.replace('\'', r"'\''"))
    };
    let whose = account.as_deref().map(|account| format!(" --agent {}", word(account)));
    let whose = whose.unwrap_or_default();
    format!("run `mcp-workbench auth login {}{whose}`, then try again", word(server))
}

pub(crate) const OTHER_PATH: &str =
    "check the path of its `url` (usually `/mcp`, or `/sse` for the older transport)";

pub(crate) const UNTRUSTED: &str =
    "for a private certificate authority, set `SSL_CERT_FILE` or `SSL_CERT_DIR` for the workbench";

pub(crate) const ENDED_TRANSPORT: &str =
    "the server has moved or removed this transport: try `/mcp` as the path of its `url`";

/// Reason why a request to a server over HTTP failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct RemoteError {
    /// Does not contain the server's URL, which may hold a secret.
    pub reason: String,
    pub hint: String,
    pub wants_sign_in: bool,
    pub may_have_been_received: bool,
}

impl RemoteError {
    /// Every session is rejected right after it has begun.
    pub(crate) fn of_lost_sessions() -> Self {
        Self {
            reason: "rejected every new session as unknown".to_owned(),
            hint:
                "if several instances share this URL, enable sticky sessions on the load balancer"
                    .to_owned(),
            wants_sign_in: false,
            may_have_been_received: false,
        }
    }

    /// Converts an RPC error that the HTTP client created; `None` if the error is the server's own.
    pub(crate) fn from_rpc_error(error: &RawJson, login: Option<&OAuthLogin>) -> Option<Self> {
        let failure = HttpTransportError::from_error_object(error)?;
        let hint = match failure {
            HttpTransportError::SignIn => {
                let (reason, hint) = of_sign_in(login);
                return Some(Self {
                    reason,
                    hint,
                    wants_sign_in: true,
                    may_have_been_received: false,
                });
            }
            HttpTransportError::Unreachable => {
                "check that the server is running and that its `url` is correct, then try again"
            }
            HttpTransportError::Untrusted => UNTRUSTED,
            HttpTransportError::HttpStatus(403)
                if login.is_some_and(OAuthLogin::demands_too_many_scopes) =>
            {
                TOO_MANY_SCOPES
            }
            HttpTransportError::HttpStatus(401 | 403) => {
                let (reason, hint) = of_unauthorized(message(error), login);
                return Some(Self {
                    reason,
                    hint,
                    wants_sign_in: false,
                    may_have_been_received: false,
                });
            }
            HttpTransportError::HttpStatus(410) => ENDED_TRANSPORT,
            HttpTransportError::HttpStatus(429) => "rate limit reached: try again later",
            HttpTransportError::HttpStatus(300..500) => OTHER_PATH,
            HttpTransportError::HttpStatus(_) | HttpTransportError::Broken => {
                "try again later; the server's own log may have the cause"
            }
        };
        let may_have_come = match failure {
            HttpTransportError::Unreachable
            | HttpTransportError::Untrusted
            | HttpTransportError::SignIn
            | HttpTransportError::HttpStatus(300..500) => false,
            HttpTransportError::HttpStatus(_) | HttpTransportError::Broken => true,
        };
        let (reason, hint) = (message(error), hint.to_owned());
        Some(Self { reason, hint, wants_sign_in: false, may_have_been_received: may_have_come })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_hints_and_tell_if_the_request_was_received() {
        let of = |error: &str| RemoteError::from_rpc_error(&RawJson::encode(&parsed(error)), None);
        let gone = of(r#"{"code": -32603, "message": "gone", "data": "unreachable"}"#).unwrap();
        assert_eq!((gone.reason.as_str(), gone.may_have_been_received), ("gone", false));
        assert!(gone.hint.contains("`url`"), "{}", gone.hint);
        let failed =
            of(r#"{"code": -32603, "message": "m", "data": {"httpStatus": 502}}"#).unwrap();
        assert!(failed.may_have_been_received && failed.hint.starts_with("try again later"));
        let stranger = of(r#"{"code": -32603, "message": "m", "data": {"httpStatus": 401}}"#);
        assert!(stranger.unwrap().hint.contains("Bearer"));
        assert_eq!(of(r#"{"code": -32603, "message": "its own", "data": {"x": 1}}"#), None);
        assert_eq!(of(r#"{"code": -32603, "message": "its own"}"#), None);
    }

    fn parsed(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }
}
