//! Responses to unauthorized requests (`WWW-Authenticate`, RFC 6750 §3), and the protected resource
//! metadata that tells clients how to get a token (RFC 9728).

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONNECTION, HOST, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use serde::Serialize;

use crate::connections::connection_info::ConnectionInfo;
use crate::paths::{ENDPOINT, WELL_KNOWN};
use crate::response::{self, AccessDenied, HttpError, HttpResponse};
use mcp_workbench_core::telemetry::{AccessDenial, AccessDenialReason};
use mcp_workbench_names::PROGRAM;
use mcp_workbench_settings::JwtConfig;
use mcp_workbench_wire::code::INVALID_REQUEST;

/// The well-known path of the metadata (RFC 9728 §3).
/// `Retry-After` in seconds while the issuer is unreachable.
const RETRY: &str = "10";

/// Reasons to reject a request. Their messages contain nothing that helps to guess a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    Missing,
    Malformed,
    Invalid,
    Expired,
    InsufficientScope,
    UnknownHolder,
    /// The signing keys can't be fetched at the moment.
    Unavailable,
    ExpiredCertificate,
    UnnamedCertificate,
    CertificateMismatch,
}

impl AuthError {
    fn access(self) -> Option<AccessDenialReason> {
        match self {
            Self::Missing => Some(AccessDenialReason::NoToken),
            Self::Malformed => Some(AccessDenialReason::MalformedToken),
            Self::Invalid => Some(AccessDenialReason::InvalidToken),
            Self::Expired => Some(AccessDenialReason::ExpiredToken),
            Self::InsufficientScope => Some(AccessDenialReason::Scope),
            Self::UnknownHolder => Some(AccessDenialReason::UnknownAgent),
            Self::ExpiredCertificate | Self::UnnamedCertificate | Self::CertificateMismatch => {
                Some(AccessDenialReason::Certificate)
            }
            Self::Unavailable => None,
        }
    }

    /// Returns the status, the `error` code of RFC 6750 §3.1 and the message.
    fn response_parts(self) -> (StatusCode, Option<&'static str>, &'static str) {
        match self {
            Self::Missing => (
                StatusCode::UNAUTHORIZED,
                None,
                "missing token: send `Authorization: Bearer <token>`",
            ),
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                Some("invalid_request"),
                "expected one `Authorization: Bearer <token>` header",
            ),
            Self::Invalid => {
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), "the token is invalid")
            }
            Self::Expired => {
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), "the token has expired")
            }
            Self::InsufficientScope => (
                StatusCode::FORBIDDEN,
                Some("insufficient_scope"),
                "the token lacks a required scope",
            ),
            Self::UnknownHolder => {
                (StatusCode::FORBIDDEN, None, "the token does not identify a known agent")
            }
            Self::ExpiredCertificate => (
                StatusCode::UNAUTHORIZED,
                None,
                "the client certificate is no longer valid; reconnect with a valid one",
            ),
            Self::UnnamedCertificate => {
                (StatusCode::FORBIDDEN, None, "the client certificate does not name an agent")
            }
            Self::CertificateMismatch => (
                StatusCode::FORBIDDEN,
                None,
                "the token and the client certificate belong to different agents",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                None,
                "the token cannot be verified at the \
                                                         moment; retry later",
            ),
        }
    }
}

/// The protected resource of a request (RFC 9728): `/mcp`, or one toolbox of it.
pub(crate) struct ProtectedResource<'a> {
    jwt: Option<&'a JwtConfig>,
    /// The URL of `/mcp` without a trailing slash. Empty if it is unknown or unsafe in a header.
    base: Cow<'a, str>,
    /// The toolbox segment of the path, still percent-encoded.
    toolbox: Option<&'a str>,
}

impl<'a> ProtectedResource<'a> {
    pub(crate) fn of(head: &'a Parts, jwt: Option<&'a JwtConfig>) -> Self {
        Self { jwt, base: base(head, jwt), toolbox: toolbox(head.uri.path()) }
    }

    /// Returns the audience of a token that is valid only for this toolbox.
    pub(crate) fn of_toolbox(&self) -> Option<String> {
        let toolbox = self.toolbox.filter(|_| !self.base.is_empty())?;
        Some(format!("{}/{toolbox}", self.base))
    }

    fn address(&self) -> Cow<'_, str> {
        self.of_toolbox().map_or(Cow::Borrowed(&*self.base), Cow::Owned)
    }

    /// Returns the metadata URL: the well-known path is inserted before the path of the resource
    /// (RFC 9728 §3.1).
    fn metadata_address(&self) -> Option<String> {
        let address = self.address();
        let (scheme, rest) = address.split_once("://")?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        Some(format!("{scheme}://{authority}{WELL_KNOWN}{path}"))
    }

    pub(crate) fn refuse(&self, denied: AuthError) -> HttpResponse {
        let (status, error, message) = denied.response_parts();
        let refusal = HttpError::new(status, INVALID_REQUEST, message);
        let mut reply = match denied.access() {
            Some(reason) => {
                let denied = AccessDenial { agent: None, reason };
                AccessDenied { refusal, denied }.reply()
            }
            None => refusal.into_response(None),
        };
        let headers = reply.headers_mut();
        if denied == AuthError::ExpiredCertificate {
            // The client can present another certificate only on a new connection.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if denied == AuthError::Unavailable {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY));
        } else if let Ok(challenge) = HeaderValue::from_str(&self.challenge(error, message)) {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        reply
    }

    fn challenge(&self, error: Option<&str>, message: &str) -> String {
        let mut said = vec![format!("realm=\"{PROGRAM}\"")];
        if let Some(error) = error {
            said.push(format!("error=\"{error}\", error_description=\"{message}\""));
        }
        if let Some(jwt) = self.jwt {
            if !jwt.required_scopes.is_empty() {
                said.push(format!("scope=\"{}\"", jwt.required_scopes.join(" ")));
            }
            said.extend(self.metadata_address().map(|url| format!("resource_metadata=\"{url}\"")));
        }
        format!("Bearer {}", said.join(", "))
    }
}

#[derive(Serialize)]
struct ProtectedResourceMetadata<'a> {
    resource: &'a str,
    authorization_servers: [&'a str; 1],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes_supported: &'a [String],
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'static str,
}

/// Returns the metadata document for a well-known path, or `None` if the path names no resource of
/// this server.
pub(crate) fn metadata(head: &Parts, jwt: &JwtConfig) -> Option<HttpResponse> {
    let path = head.uri.path().strip_prefix(WELL_KNOWN)?;
    let base = base(head, Some(jwt));
    // A proxy may publish `/mcp` under another path.
    let ours = base.split_once("://").and_then(|(_, rest)| Some(rest.split_at(rest.find('/')?).1));
    let below = ours.and_then(|ours| path.strip_prefix(ours)).or(path.strip_prefix(ENDPOINT));
    let toolbox = match (path, below) {
        ("" | "/", _) | (_, Some("" | "/")) => None,
        (_, Some(below)) => Some(toolbox_name(without_slash(below.strip_prefix('/')?))?),
        _ => return None,
    };
    let resource = ProtectedResource { jwt: Some(jwt), base, toolbox };
    let metadata = ProtectedResourceMetadata {
        resource: &resource.address(),
        authorization_servers: [&jwt.issuer],
        scopes_supported: &jwt.required_scopes,
        bearer_methods_supported: ["header"],
        resource_name: "MCP Workbench",
    };
    let text = serde_json::to_vec(&metadata).ok()?;
    Some(response::json(StatusCode::OK, Bytes::from(text)))
}

fn base<'a>(head: &'a Parts, jwt: Option<&'a JwtConfig>) -> Cow<'a, str> {
    let Some(jwt) = jwt else { return Cow::Borrowed("") };
    if let Some(resource) = &jwt.resource {
        return Cow::Borrowed(resource.as_str().trim_end_matches('/'));
    }
    // `Host` was checked before, but the URL goes into a quoted string: reject characters that
    // could end it.
    let scheme = if is_secured(head) { "https" } else { "http" };
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return Cow::Borrowed("");
    }
    Cow::Owned(format!("{scheme}://{host}{ENDPOINT}"))
}

fn is_secured(head: &Parts) -> bool {
    head.extensions.get::<ConnectionInfo>().is_some_and(|peer| peer.secured.is_some())
}

fn toolbox(path: &str) -> Option<&str> {
    toolbox_name(without_slash(path.strip_prefix(ENDPOINT)?.strip_prefix('/')?))
}

/// Many clients add a slash to a URL.
fn without_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

/// Accepts only characters that are safe in a URL and in a quoted header value.
fn toolbox_name(segment: &str) -> Option<&str> {
    let can_stand = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
    (!segment.is_empty() && segment.chars().all(can_stand)).then_some(segment)
}

#[cfg(test)]
mod tests;
