//! Requests that a server over HTTP has not answered: why, and what to do about it.

use thiserror::Error;

use crate::backend::handshake::message;
use crate::login::{Place, SignIn};
use crate::raw::Raw;
use crate::wire::remote::Failure;

/// The hint where a server over HTTP does not know who asks, or does not let them, and nobody is to
/// sign in.
pub(crate) const WANTS_TOKEN: &str = "it wants authorization: set a token in `headers`, such as \
     `\"Authorization\": \"Bearer ${TOKEN}\"`";

/// The reason that is given where somebody has to sign in first.
const WANTS_SIGN_IN: &str = "it wants you to sign in";

/// The reason and the hint where somebody has to sign in first, or a token could not be got without
/// anybody.
pub(crate) fn of_sign_in(login: Option<&SignIn>) -> (String, String) {
    match login.and_then(SignIn::why_no_token) {
        Some(why) => {
            let hint = "correct `oauth` in the server's entry, then call again";
            (format!("no token is got for it: {why}"), hint.to_owned())
        }
        None => (WANTS_SIGN_IN.to_owned(), how_to_sign_in(login)),
    }
}

fn how_to_sign_in(login: Option<&SignIn>) -> String {
    let Some(login) = login else { return WANTS_TOKEN.to_owned() };
    let Place { server, account, .. } = login.place();
    // What comes from the configuration goes to a shell.
    let word = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) {
            return text.to_owned();
        }
        format!("'{}'", text.replace('\'', r"'\''"))
    };
    let whose = account.as_deref().map(|account| format!(" --for {}", word(account)));
    let whose = whose.unwrap_or_default();
    format!("run `mcp-workbench auth login {}{whose}`, then call again", word(server))
}

/// The advice where nothing that speaks MCP is at the address.
pub(crate) const OTHER_PATH: &str =
    "check the path of its `url` (often `/mcp`, or `/sse` for the transport before that)";

/// The advice where a server has no certificate that is believed here.
pub(crate) const UNTRUSTED: &str = "if that is an authority of your own, name its certificates to the workbench in \
     `SSL_CERT_FILE` or `SSL_CERT_DIR`";

/// The advice where a server says that what was at the address has gone for good.
pub(crate) const ENDED_TRANSPORT: &str =
    "the server has ended this transport or moved: its new address is often `/mcp`";

/// Why a server over HTTP has not answered a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct Unanswered {
    /// The cause, without the server's address, which may hold a secret.
    pub reason: String,
    /// The advice to the user.
    pub hint: String,
    /// Set if all that is missing is that somebody signs in.
    pub wants_sign_in: bool,
    /// Set if the server may have got the request.
    pub may_have_come: bool,
}

impl Unanswered {
    /// A server loses every session that it has just begun.
    pub(crate) fn of_lost_sessions() -> Self {
        Self {
            reason: "it does not know the session any more, whenever one has begun".to_owned(),
            hint: "there may be several processes at its address, each with sessions of its own: what \
                   stands before them has to keep a session with one"
                .to_owned(),
            wants_sign_in: false,
            may_have_come: false,
        }
    }

    /// Returns what the error of a request says about HTTP; none if it is the server's own. `login` is
    /// where one signs in at it, if one does.
    pub(crate) fn of(error: &Raw, login: Option<&SignIn>) -> Option<Self> {
        let failure = Failure::of(error)?;
        let hint = match failure {
            Failure::SignIn => {
                let (reason, hint) = of_sign_in(login);
                return Some(Self { reason, hint, wants_sign_in: true, may_have_come: false });
            }
            Failure::Unreachable => {
                "see whether the server runs and the `url` of its entry is right, then try again"
            }
            Failure::Untrusted => UNTRUSTED,
            Failure::HttpStatus(401 | 403) => WANTS_TOKEN,
            Failure::HttpStatus(410) => ENDED_TRANSPORT,
            Failure::HttpStatus(429) => "it takes no more requests for now: try again later",
            Failure::HttpStatus(300..500) => OTHER_PATH,
            Failure::HttpStatus(_) | Failure::Broken => {
                "try again later; what the server says in its log may explain it"
            }
        };
        let may_have_come = match failure {
            Failure::Unreachable
            | Failure::Untrusted
            | Failure::SignIn
            | Failure::HttpStatus(300..500) => false,
            Failure::HttpStatus(_) | Failure::Broken => true,
        };
        let (reason, hint) = (message(error), hint.to_owned());
        Some(Self { reason, hint, wants_sign_in: false, may_have_come })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_to_do_and_whether_the_request_may_have_come() {
        let of = |error: &str| Unanswered::of(&Raw::encode(&parsed(error)), None);
        let gone = of(r#"{"code": -32603, "message": "gone", "data": "unreachable"}"#).unwrap();
        assert_eq!((gone.reason.as_str(), gone.may_have_come), ("gone", false));
        assert!(gone.hint.contains("`url`"), "{}", gone.hint);
        let failed =
            of(r#"{"code": -32603, "message": "m", "data": {"httpStatus": 502}}"#).unwrap();
        assert!(failed.may_have_come && failed.hint.starts_with("try again later"));
        let stranger = of(r#"{"code": -32603, "message": "m", "data": {"httpStatus": 401}}"#);
        assert!(stranger.unwrap().hint.contains("Bearer"));
        assert_eq!(of(r#"{"code": -32603, "message": "its own", "data": {"x": 1}}"#), None);
        assert_eq!(of(r#"{"code": -32603, "message": "its own"}"#), None);
    }

    fn parsed(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }
}
