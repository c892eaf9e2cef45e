//! Transport errors, as the JSON-RPC errors that requests are answered with.

use std::error::Error;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use crate::code::INTERNAL_ERROR;
use crate::incoming::error_object;
use crate::json::RawJson;

/// Bytes of an unexpected response body quoted in an error.
const EXCERPT: usize = 200;
/// Shorter header values are not redacted.
const SHORTEST_SECRET: usize = 6;
/// A path segment of at least this length may be a key.
const LONG_PART: usize = 16;

/// Why a request got no response over HTTP. Serialized as the `data` of its error.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HttpTransportError {
    /// The connection could not be established.
    Unreachable,
    /// The server's certificate was rejected.
    Untrusted,
    /// The server responded with this status and without a JSON-RPC message.
    HttpStatus(u16),
    /// The server rejects the credentials until a user has signed in.
    SignIn,
    /// The connection broke, or the body wasn't a valid response.
    Broken,
}

impl HttpTransportError {
    /// Parses the transport error in the `data` of an error object. `None` for an error of the
    /// server itself.
    pub fn from_error_object(error: &RawJson) -> Option<Self> {
        #[derive(Deserialize)]
        struct Members {
            data: HttpTransportError,
        }

        error.parse::<Members>().ok().map(|members| members.data)
    }

    pub(super) fn error(self, message: &str) -> RawJson {
        error_object(INTERNAL_ERROR, message, Some(&RawJson::encode(&self)))
    }
}

/// Returns the error for a request that got no HTTP response.
pub(super) fn connect_error(error: reqwest::Error) -> RawJson {
    let failure = match error.is_connect() {
        true if is_untrusted(&error) => HttpTransportError::Untrusted,
        true => HttpTransportError::Unreachable,
        false => HttpTransportError::Broken,
    };
    let what = match failure {
        HttpTransportError::Broken => "connection lost",
        _ => "unreachable",
    };
    failure.error(&format!("{what}: {}", root_cause_without_url(error)))
}

/// Returns the root cause of a connection error, without the URL, which may hold a secret.
pub(super) fn root_cause_without_url(error: reqwest::Error) -> String {
    root_cause(&error.without_url())
}

fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    if matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
        return true;
    }
    // `source` of an `io::Error` skips the error that it wraps.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.is_some_and(|wrapped| is_untrusted(wrapped)) || error.source().is_some_and(is_untrusted)
}

/// Returns the root cause of an error whose cause doesn't name the URL, such as a failed connect.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    // Drop the number of a system error.
    match text.split_once(" (os error") {
        Some((message, _)) => message.to_lowercase(),
        None => text,
    }
}

/// Returns the error for a response with an HTTP status and no message.
pub(super) fn status(
    status: StatusCode,
    headers: &reqwest::header::HeaderMap,
    body: &[u8],
    secrets: &[String],
) -> RawJson {
    let location = headers.get(LOCATION).filter(|_| status.is_redirection());
    let said = match location.and_then(|location| location.to_str().ok()) {
        Some(location) => format!("redirects to {location}"),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let said = excerpt(&said, secrets);
    let colon = if said.is_empty() { "" } else { ": " };
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let message = if status.is_success() {
        let kind = kind.unwrap_or("no content type");
        format!("the server's response is no MCP message (`{kind}`){colon}{said}")
    } else {
        format!("the server returned HTTP status {status}{colon}{said}")
    };
    HttpTransportError::HttpStatus(status.as_u16()).error(&message)
}

pub(super) fn sign_in(status: StatusCode) -> RawJson {
    HttpTransportError::SignIn.error(&format!("the server requires sign-in (HTTP status {status})"))
}

/// Returns the parts of a URL that may be secret, both encoded and decoded: user information, query
/// values and long path segments.
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

fn decoded(part: &str) -> String {
    let mut pairs = form_urlencoded::parse(part.as_bytes());
    pairs.next().map(|(text, _)| text.into_owned()).unwrap_or_default()
}

/// Returns the beginning of a server's text, on one line and with secrets redacted.
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
    fn secrets_of_the_url_are_redacted() {
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
