//! The answers to those who are not let in (RFC 6750), and the document that tells how to get a
//! token (protected resource metadata, RFC 9728).

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONNECTION, HOST, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use serde::Serialize;

use crate::frontend::http::ENDPOINT;
use crate::frontend::http::connections::Peer;
use crate::frontend::http::response::{self, Denial, Refusal, Reply};
use crate::name::PROGRAM;
use crate::observe::{DeniedAccess, DeniedFor};
use crate::settings::JwtConfig;
use crate::wire::code::INVALID_REQUEST;

/// Where clients look for what they may know.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// How long clients are to wait where an issuer cannot be asked, in seconds.
const RETRY: &str = "10";

/// Why somebody is not let in. What is said of it does not help anybody to guess a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// There is no token.
    Missing,
    /// The header is not what it should be.
    Malformed,
    /// The token is not good here.
    Invalid,
    /// It was good.
    Expired,
    /// It is good, and does not allow what it has to.
    Scope,
    /// It is good, and is of nobody that is known here.
    Unknown,
    /// It cannot be checked now.
    Unavailable,
    /// The certificate of the client has expired, or its CA is not trusted any more.
    OldCertificate,
    /// The certificate of the client names nobody.
    NamelessCertificate,
    /// The certificate of the client is of another agent than the token.
    OtherCertificate,
}

impl Denied {
    /// Why access is denied; none where something else is wrong.
    fn access(self) -> Option<DeniedFor> {
        match self {
            Self::Missing => Some(DeniedFor::NoToken),
            Self::Malformed => Some(DeniedFor::MalformedToken),
            Self::Invalid => Some(DeniedFor::InvalidToken),
            Self::Expired => Some(DeniedFor::ExpiredToken),
            Self::Scope => Some(DeniedFor::Scope),
            Self::Unknown => Some(DeniedFor::UnknownHolder),
            Self::OldCertificate | Self::NamelessCertificate | Self::OtherCertificate => {
                Some(DeniedFor::Certificate)
            }
            Self::Unavailable => None,
        }
    }

    /// The status, the error in the words of RFC 6750, and the message that it is answered with.
    fn said(self) -> (StatusCode, Option<&'static str>, &'static str) {
        match self {
            Self::Missing => (
                StatusCode::UNAUTHORIZED,
                None,
                "a token is needed: `Authorization: Bearer <token>`",
            ),
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                Some("invalid_request"),
                "expected one header `Authorization: Bearer <token>`",
            ),
            Self::Invalid => {
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), "the token is not valid here")
            }
            Self::Expired => {
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), "the token has expired")
            }
            Self::Scope => (
                StatusCode::FORBIDDEN,
                Some("insufficient_scope"),
                "the token does not allow enough",
            ),
            Self::Unknown => {
                (StatusCode::FORBIDDEN, None, "the token is of nobody who is known here")
            }
            Self::OldCertificate => (
                StatusCode::UNAUTHORIZED,
                None,
                "the certificate is good no more; connect again, with one that is",
            ),
            Self::NamelessCertificate => {
                (StatusCode::FORBIDDEN, None, "the certificate names nobody")
            }
            Self::OtherCertificate => (
                StatusCode::FORBIDDEN,
                None,
                "the token is of another agent than the certificate of this connection",
            ),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, None, "the token cannot be checked now")
            }
        }
    }
}

/// The thing that is asked for, by its name in tokens and metadata.
pub(crate) struct Resource<'a> {
    jwt: Option<&'a JwtConfig>,
    /// The address of `/mcp`, without what makes no sense in a header; empty where it is not known.
    base: Cow<'a, str>,
    /// The toolbox that is asked for alone, as the path has it.
    toolbox: Option<&'a str>,
}

impl<'a> Resource<'a> {
    /// The resource that a request asks for.
    pub(crate) fn of(head: &'a Parts, jwt: Option<&'a JwtConfig>) -> Self {
        Self { jwt, base: base(head, jwt), toolbox: toolbox(head.uri.path()) }
    }

    /// The name of this resource in a token that is good for one toolbox alone.
    pub(crate) fn of_toolbox(&self) -> Option<String> {
        let toolbox = self.toolbox.filter(|_| !self.base.is_empty())?;
        Some(format!("{}/{toolbox}", self.base))
    }

    fn address(&self) -> Cow<'_, str> {
        self.of_toolbox().map_or(Cow::Borrowed(&*self.base), Cow::Owned)
    }

    /// Where what clients may know of it is found: the path goes behind the well-known one.
    fn metadata_address(&self) -> Option<String> {
        let address = self.address();
        let (scheme, rest) = address.split_once("://")?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        Some(format!("{scheme}://{authority}{WELL_KNOWN}{path}"))
    }

    /// The answer to somebody who is not let in.
    pub(crate) fn refuse(&self, denied: Denied) -> Reply {
        let (status, error, message) = denied.said();
        let refusal = Refusal::new(status, INVALID_REQUEST, message);
        let mut reply = match denied.access() {
            Some(why) => {
                let denied = DeniedAccess { agent: None, why };
                Denial { refusal, denied }.reply()
            }
            None => refusal.reply(None),
        };
        let headers = reply.headers_mut();
        if denied == Denied::OldCertificate {
            // The next connection may come with another.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if denied == Denied::Unavailable {
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

/// The document that tells clients how to get a token.
#[derive(Serialize)]
struct Metadata<'a> {
    resource: &'a str,
    authorization_servers: [&'a str; 1],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes_supported: &'a [String],
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'static str,
}

/// The document for the resource behind the well-known path; nothing if that is not ours.
pub(crate) fn metadata(head: &Parts, jwt: &JwtConfig) -> Option<Reply> {
    let path = head.uri.path().strip_prefix(WELL_KNOWN)?;
    let base = base(head, Some(jwt));
    // Behind a proxy our path may be another one.
    let ours = base.split_once("://").and_then(|(_, rest)| Some(rest.split_at(rest.find('/')?).1));
    let below = ours.and_then(|ours| path.strip_prefix(ours)).or(path.strip_prefix(ENDPOINT));
    let toolbox = match (path, below) {
        ("" | "/", _) | (_, Some("")) => None,
        (_, Some(below)) => Some(toolbox_name(below.strip_prefix('/')?)?),
        _ => return None,
    };
    let resource = Resource { jwt: Some(jwt), base, toolbox };
    let metadata = Metadata {
        resource: &resource.address(),
        authorization_servers: [&jwt.issuer],
        scopes_supported: &jwt.required_scopes,
        bearer_methods_supported: ["header"],
        resource_name: "MCP Workbench",
    };
    let text = serde_json::to_vec(&metadata).ok()?;
    Some(response::message(StatusCode::OK, Bytes::from(text)))
}

/// The address of `/mcp` as clients know it.
fn base<'a>(head: &'a Parts, jwt: Option<&'a JwtConfig>) -> Cow<'a, str> {
    let Some(jwt) = jwt else { return Cow::Borrowed("") };
    if let Some(resource) = &jwt.resource {
        return Cow::Borrowed(resource.as_str().trim_end_matches('/'));
    }
    // What called us here is checked already; it must not end the quotes that it stands in.
    let scheme = if is_secured(head) { "https" } else { "http" };
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return Cow::Borrowed("");
    }
    Cow::Owned(format!("{scheme}://{host}{ENDPOINT}"))
}

/// Returns `true` if a request has come over TLS of our own.
fn is_secured(head: &Parts) -> bool {
    head.extensions.get::<Peer>().is_some_and(|peer| peer.secured.is_some())
}

/// The toolbox that a path asks for alone.
fn toolbox(path: &str) -> Option<&str> {
    toolbox_name(path.strip_prefix(ENDPOINT)?.strip_prefix('/')?)
}

/// A toolbox as a path has it, if it can stand in an address.
fn toolbox_name(segment: &str) -> Option<&str> {
    let can_stand = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
    (!segment.is_empty() && segment.chars().all(can_stand)).then_some(segment)
}

#[cfg(test)]
mod tests;
