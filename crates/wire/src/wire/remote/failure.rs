//! Failures below the messages, as the errors that requests are answered with.

use std::error::Error;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use crate::raw::Raw;
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::incoming::error_object;

/// How much of what a server says instead of a message is passed on.
const EXCERPT: usize = 200;
/// Shorter values of headers are not looked for in what a server says.
const SHORTEST_SECRET: usize = 6;
/// A part of a path that is as long as this may be a key.
const LONG_PART: usize = 16;

/// Why a request got no answer over HTTP; stands in the `data` of its error.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// No connection came about.
    Unreachable,
    /// The server has shown no certificate that is believed here.
    Untrusted,
    /// The server answered with this status and no message.
    HttpStatus(u16),
    /// The server refuses who asks until a person has signed in.
    SignIn,
    /// The connection ended, or what came over it was no answer.
    Broken,
}

impl Failure {
    /// Reads a failure of HTTP from the error of a request; none when the error is the server's
    /// own.
    pub fn of(error: &Raw) -> Option<Self> {
        #[derive(Deserialize)]
        struct Members {
            data: Failure,
        }

        error.parse::<Members>().ok().map(|members| members.data)
    }

    pub(super) fn error(self, message: &str) -> Raw {
        error_object(INTERNAL_ERROR, message, Some(&Raw::encode(&self)))
    }
}

/// Nothing could be sent, or nothing came back.
pub(super) fn unsent(error: reqwest::Error) -> Raw {
    let failure = match error.is_connect() {
        true if is_untrusted(&error) => Failure::Untrusted,
        true => Failure::Unreachable,
        false => Failure::Broken,
    };
    failure.error(&format!("the server cannot be reached: {}", innermost(error)))
}

/// The innermost message of an error of the connection. The address is left out, for it may hold a
/// secret.
pub(super) fn innermost(error: reqwest::Error) -> String {
    why(&error.without_url())
}

/// Returns `true` if it is the server's certificate that is wrong.
fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    if matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
        return true;
    }
    // What such an error wraps is not its source.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.is_some_and(|wrapped| is_untrusted(wrapped)) || error.source().is_some_and(is_untrusted)
}

/// The innermost message of an error that has no address in its depth, such as one of connecting.
pub(super) fn why(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The server answered with a status and no message.
pub(super) fn status(
    status: StatusCode,
    headers: &reqwest::header::HeaderMap,
    body: &[u8],
    secrets: &[String],
) -> Raw {
    let location = headers.get(LOCATION).filter(|_| status.is_redirection());
    let said = match location.and_then(|location| location.to_str().ok()) {
        Some(location) => format!("it redirects to {location}"),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let said = excerpt(&said, secrets);
    let colon = if said.is_empty() { "" } else { ": " };
    let message = format!("the server answered with HTTP status {status}{colon}{said}");
    Failure::HttpStatus(status.as_u16()).error(&message)
}

/// The server answered 401 or 403, and a person has to sign in before it answers otherwise.
pub(super) fn sign_in(status: StatusCode) -> Raw {
    Failure::SignIn.error(&format!("the server wants a sign-in (HTTP status {status})"))
}

/// The parts of an address that may be secret, as they are written and as they are meant: who asks,
/// what stands in the query, and long parts of the path.
pub(super) fn secrets_of(url: &Url) -> Vec<String> {
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    let query = url.query().unwrap_or_default().split('&');
    let query = query.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    let path = url.path().split('/').filter(|part| part.len() >= LONG_PART);
    let parts = [user, password].into_iter().chain(query).chain(path);
    let mut secrets: Vec<String> =
        parts.flat_map(|part| [part.to_owned(), decoded(part)]).collect();
    secrets.push(STANDARD.encode(format!("{}:{}", decoded(user), decoded(password))));
    secrets
}

/// A part of an address without what it is escaped with.
fn decoded(part: &str) -> String {
    let mut pairs = form_urlencoded::parse(part.as_bytes());
    pairs.next().map(|(text, _)| text.into_owned()).unwrap_or_default()
}

/// The beginning of what a server says, on one line and without what we told it in headers.
fn excerpt(said: &str, secrets: &[String]) -> String {
    let mut said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for secret in secrets {
        for part in secret.split_whitespace().filter(|part| part.len() >= SHORTEST_SECRET) {
            said = said.replace(part, "[...]");
        }
    }
    said.retain(|character| !character.is_control());
    said.truncate(said.floor_char_boundary(EXCERPT));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_an_address_is_not_told() {
        let url = "https://wb%40me:pa%24sword@example.com/s/0123456789abcdef/mcp?key=s3cr%2Fet&x";
        let secrets = secrets_of(&Url::parse(url).unwrap());
        let basic = STANDARD.encode("wb@me:pa$sword");
        for secret in ["pa$sword", "pa%24sword", "s3cr/et", "s3cr%2Fet", "0123456789abcdef", &basic]
        {
            let told = excerpt(&format!("who asks as {secret} is unknown"), &secrets);
            assert_eq!(told, "who asks as [...] is unknown");
        }
        let told = excerpt(&format!("GET {url} failed"), &secrets);
        assert!(told.contains("example.com"), "{told}");
    }
}
