//! Request headers, and the check that the headers of a modern request match its body.

use std::borrow::Cow;
use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{ACCEPT, AsHeaderName, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use crate::header_value::{PROTOCOL_VERSION, single_value};
use crate::message::PostedMessage;
use crate::response::{EVENT_STREAM, HttpError, JSON, bad_request};
use mcp_workbench_wire::code::{HEADER_MISMATCH, INVALID_PARAMS};

pub(crate) static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The value that the specification asks for and nearly every client sends.
const USUAL: &str = "application/json, text/event-stream";
const MODERN: &str = "2026-07-28";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedTypes {
    pub(crate) json: bool,
    pub(crate) events: bool,
}

impl AcceptedTypes {
    /// Parses `Accept`; a client that doesn't send it accepts everything.
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
                    accepts.events |= is_one([EVENT_STREAM, "text/*", "*/*"]);
                }
            }
        }
        if is_said { accepts } else { Self { json: true, events: true } }
    }
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = value.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes()))
}

/// Returns `true` for a weight of zero, which excludes a media type (RFC 9110 §12.4.2).
fn is_refused(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    let weight = weight.and_then(|weight| std::str::from_utf8(weight).ok());
    weight.is_some_and(|weight| weight.parse().is_ok_and(|weight: f32| weight <= 0.0))
}

pub(crate) fn check_mcp_headers(
    message: &PostedMessage,
    headers: &HeaderMap,
) -> Result<(), HttpError> {
    const PREFIX: &str = "request _meta is missing `io.modelcontextprotocol/";
    let Some(version) = &message.version else {
        return Err(bad_request(INVALID_PARAMS, &format!("{PREFIX}protocolVersion`")));
    };
    agree(headers, &PROTOCOL_VERSION, version).map_err(mismatch)?;
    if version != MODERN {
        // Header rules of other revisions are unknown. The dispatcher lists the supported ones.
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

/// `mirrored` maps headers to JSON pointers into the arguments.
pub(crate) fn check_param_headers(
    message: &PostedMessage,
    headers: &HeaderMap,
    mirrored: &[(String, String)],
) -> Result<(), HttpError> {
    if mirrored.is_empty() {
        return Ok(());
    }
    let arguments: Option<Value> = message.arguments().and_then(|arguments| arguments.parse().ok());
    for (header, pointer) in mirrored {
        parameter(headers, header, arguments.as_ref(), pointer).map_err(mismatch)?;
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "used with `map_err`")]
fn mismatch(what: String) -> HttpError {
    bad_request(HEADER_MISMATCH, &format!("header mismatch: {what}"))
}

fn agree(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), String> {
    match single_value(headers, name)? {
        Some(said) if said == expected => Ok(()),
        Some(said) => Err(format!("{name} is `{said}`, but the body has `{expected}`")),
        None => Err(format!("{name} is missing")),
    }
}

/// Checks a header that may be base64-encoded. `None` means that it must be absent.
fn agree_encoded(
    headers: &HeaderMap,
    name: impl AsHeaderName + Display + Copy,
    expected: Option<&str>,
    is_same: impl FnOnce(&str) -> bool,
) -> Result<(), String> {
    let said = single_value(headers, name)?
        .map(|said| decoded(said).ok_or_else(|| format!("{name} has an invalid encoding")));
    match (said.transpose()?, expected) {
        (None, None) => Ok(()),
        (Some(said), Some(_)) if is_same(&said) => Ok(()),
        (Some(said), Some(expected)) => {
            Err(format!("{name} is `{said}`, but the body has `{expected}`"))
        }
        (None, Some(_)) => Err(format!("{name} is missing")),
        (Some(_), None) => Err(format!("{name} is present, but the body has no such value")),
    }
}

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
        // Headers can't repeat these values. The tool's definition is invalid.
        Some(Value::Array(_) | Value::Object(_)) => Ok(()),
    }
}

fn is_same_number(said: &str, expected: &str) -> bool {
    match (said.parse::<i128>(), expected.parse::<i128>()) {
        (Ok(said), Ok(expected)) => said == expected,
        _ => match (said.parse::<f64>(), expected.parse::<f64>()) {
            (Ok(said), Ok(expected)) => said.total_cmp(&expected).is_eq(),
            _ => false,
        },
    }
}

/// Decodes `=?base64?…?=`. Returns `None` if the encoding is invalid.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let Some(inner) = inner else {
        return Some(Cow::Borrowed(value));
    };
    String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests;
