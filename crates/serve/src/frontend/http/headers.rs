//! The headers of a request, and the check that those of a modern one agree with its body.

use std::borrow::Cow;
use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{ACCEPT, AsHeaderName, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use crate::frontend::http::field::{PROTOCOL_VERSION, one};
use crate::frontend::http::message::Message;
use crate::frontend::http::response::{EVENTS, JSON, Refusal, bad_request};
use crate::wire::code::{HEADER_MISMATCH, INVALID_PARAMS};

/// The session that a request belongs to.
pub(crate) static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The last event that a client has got of a stream.
pub(crate) static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The header of nearly every client: the specification asks for both types.
const USUAL: &str = "application/json, text/event-stream";
/// The one modern revision.
const MODERN: &str = "2026-07-28";

/// The types of answers that a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepts {
    /// One message.
    pub(crate) json: bool,
    /// A stream of messages.
    pub(crate) events: bool,
}

impl Accepts {
    /// Reads the header; a client that sends none takes anything.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut accepts = Self { json: false, events: false };
        let mut is_said = false;
        for value in headers.get_all(ACCEPT) {
            is_said = true;
            if value == USUAL {
                accepts = Self { json: true, events: true };
                continue;
            }
            for range in value.as_bytes().split(|byte| *byte == b',') {
                let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
                let range = parts.next().unwrap_or_default();
                if !parts.any(is_refused) {
                    let is_one = |of: [&str; 3]| {
                        of.iter().any(|of| of.as_bytes().eq_ignore_ascii_case(range))
                    };
                    accepts.json |= is_one([JSON, "application/*", "*/*"]);
                    accepts.events |= is_one([EVENTS, "text/*", "*/*"]);
                }
            }
        }
        if is_said { accepts } else { Self { json: true, events: true } }
    }
}

/// Returns `true` if the body is said to be JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = value.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes()))
}

/// Returns `true` if a parameter of a type says that it is not taken: a weight of zero (RFC 9110, 12.4.2).
fn is_refused(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    let weight = weight.and_then(|weight| std::str::from_utf8(weight).ok());
    weight.is_some_and(|weight| weight.parse().is_ok_and(|weight: f32| weight <= 0.0))
}

/// Holds a modern request's headers against its body.
pub(crate) fn check(message: &Message, headers: &HeaderMap) -> Result<(), Refusal> {
    const PREFIX: &str = "request _meta is missing `io.modelcontextprotocol/";
    let Some(version) = &message.version else {
        return Err(bad_request(INVALID_PARAMS, &format!("{PREFIX}protocolVersion`")));
    };
    agree(headers, &PROTOCOL_VERSION, version).map_err(mismatch)?;
    if version != MODERN {
        // What it asks of headers is not known, or nothing; `dispatch` says what is supported.
        return Ok(());
    }
    if !message.says_capabilities() {
        return Err(bad_request(INVALID_PARAMS, &format!("{PREFIX}clientCapabilities`")));
    }
    agree(headers, &METHOD, message.method()).map_err(mismatch)?;
    if let Some(name) = message.name() {
        agree_encoded(headers, &NAME, Some(&name), |said| said == name).map_err(mismatch)?;
    }
    Ok(())
}

/// Holds the headers that repeat arguments of a call against the arguments, each of which a JSON
/// pointer leads to.
pub(crate) fn check_arguments(
    message: &Message,
    headers: &HeaderMap,
    mirrored: &[(String, String)],
) -> Result<(), Refusal> {
    if mirrored.is_empty() {
        return Ok(());
    }
    let arguments: Option<Value> = message.arguments().and_then(|arguments| arguments.parse().ok());
    for (header, pointer) in mirrored {
        parameter(headers, header, arguments.as_ref(), pointer).map_err(mismatch)?;
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped with")]
fn mismatch(what: String) -> Refusal {
    bad_request(HEADER_MISMATCH, &format!("header mismatch: {what}"))
}

/// Checks that a header is there and says exactly this.
fn agree(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), String> {
    match one(headers, name)? {
        Some(said) if said == expected => Ok(()),
        Some(said) => Err(format!("{name} is `{said}`, the body says `{expected}`")),
        None => Err(format!("{name} is missing")),
    }
}

/// Checks that a header, which may be encoded, is there when it should be and says what it should.
fn agree_encoded(
    headers: &HeaderMap,
    name: impl AsHeaderName + Display + Copy,
    expected: Option<&str>,
    is_same: impl FnOnce(&str) -> bool,
) -> Result<(), String> {
    let said = one(headers, name)?
        .map(|said| decoded(said).ok_or_else(|| format!("{name} is badly encoded")));
    match (said.transpose()?, expected) {
        (None, None) => Ok(()),
        (Some(said), Some(_)) if is_same(&said) => Ok(()),
        (Some(said), Some(expected)) => {
            Err(format!("{name} is `{said}`, the body says `{expected}`"))
        }
        (None, Some(_)) => Err(format!("{name} is missing")),
        (Some(_), None) => Err(format!("{name} is there, but nothing in the body for it")),
    }
}

/// Holds the header that repeats an argument against the argument.
fn parameter(
    headers: &HeaderMap,
    name: &str,
    arguments: Option<&Value>,
    pointer: &str,
) -> Result<(), String> {
    match arguments.and_then(|arguments| arguments.pointer(pointer)) {
        None | Some(Value::Null) => agree_encoded(headers, name, None, |_| false),
        Some(Value::String(text)) => agree_encoded(headers, name, Some(text), |said| said == text),
        Some(Value::Bool(flag)) => {
            let text = flag.to_string();
            agree_encoded(headers, name, Some(&text), |said| said == text)
        }
        Some(Value::Number(number)) => {
            let text = number.to_string();
            agree_encoded(headers, name, Some(&text), |said| is_same_number(said, &text))
        }
        // No header can repeat it; a tool that wants that is itself wrong.
        Some(Value::Array(_) | Value::Object(_)) => Ok(()),
    }
}

/// Returns `true` if two texts are the same number, however they are spelled.
fn is_same_number(said: &str, expected: &str) -> bool {
    match (said.parse::<i128>(), expected.parse::<i128>()) {
        (Ok(said), Ok(expected)) => said == expected,
        _ => match (said.parse::<f64>(), expected.parse::<f64>()) {
            (Ok(said), Ok(expected)) => said.total_cmp(&expected).is_eq(),
            _ => false,
        },
    }
}

/// The text of a header value that may be encoded; nothing when it is badly encoded.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let Some(inner) = inner else {
        return Some(Cow::Borrowed(value));
    };
    String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests;
