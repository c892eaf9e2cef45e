//! The JSON-RPC envelope of one line: which kind of message it is, with everything inside it raw.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::raw::Raw;

/// One message, parsed no further than the members of JSON-RPC 2.0.
#[derive(Debug)]
pub(crate) enum Message {
    /// Wants an answer.
    Request { id: Raw, method: String, params: Option<Raw> },
    /// Wants none.
    Notification { method: String, params: Option<Raw> },
    /// Answers a request of ours.
    Answer { id: Raw, outcome: Outcome },
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The `result` member.
    Result(Raw),
    /// The `error` member.
    Error(Raw),
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Keeps a `null` result apart from a missing one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Why a line is not a message.
#[derive(Debug)]
pub(crate) enum Malformed {
    /// It is not JSON, or nothing like an object.
    NotJson(serde_json::Error),
    /// It is a batch, or an object without a method, a result or an error.
    NoMessage,
}

impl Message {
    pub(crate) fn parse(line: &Bytes) -> Result<Self, Malformed> {
        let members: Members<'_> = serde_json::from_slice(line).map_err(Malformed::NotJson)?;
        // serde also takes an array for a struct, which would let a batch through as nonsense.
        if line.trim_ascii_start().first() != Some(&b'{') {
            return Err(Malformed::NoMessage);
        }
        let raw = |value: &RawValue| Raw::slice_of(line, value);
        let params = members.params.map(raw);
        match (members.method, members.id, members.result, members.error) {
            (Some(method), Some(id), _, _) => {
                Ok(Self::Request { id: raw(id), method: method.into_owned(), params })
            }
            (Some(method), None, _, _) => {
                Ok(Self::Notification { method: method.into_owned(), params })
            }
            (None, Some(id), _, Some(error)) => {
                Ok(Self::Answer { id: raw(id), outcome: Outcome::Error(raw(error)) })
            }
            (None, Some(id), Some(result), None) => {
                Ok(Self::Answer { id: raw(id), outcome: Outcome::Result(raw(result)) })
            }
            (None, _, _, _) => Err(Malformed::NoMessage),
        }
    }
}

/// Looks for the `"id"` member of a message of which only the edges are left, as raw text.
///
/// Some write it before what is long, some at the very end. An `"id"` within the parameters or the
/// result is not the message's own, and taken for it would answer somebody else's request.
pub(crate) fn id_at_edges(head: &[u8], tail: &[u8]) -> Option<Raw> {
    id_in_head(&String::from_utf8_lossy(head))
        .or_else(|| id_in_tail(&String::from_utf8_lossy(tail)))
}

/// The value of the first `"id"` that is a member of the outermost object.
fn id_in_head(head: &str) -> Option<Raw> {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    for (at, c) in head.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' if !is_quoted && depth == 1 => {
                if let Some((id, _)) = id_at(&head[at..]) {
                    return Some(id);
                }
                is_quoted = true;
            }
            '"' => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The value of the last `"id"`, if nothing but the end of the outermost object follows it, or
/// members that hold no objects and lists.
fn id_in_tail(tail: &str) -> Option<Raw> {
    let (id, rest) = id_at(&tail[tail.rfind("\"id\"")?..])?;
    let rest = rest.trim_end().strip_suffix('}')?;
    (!rest.contains(['{', '}', '[', ']'])).then_some(id)
}

/// The value of an `"id"` that the text begins with, and what follows it.
fn id_at(text: &str) -> Option<(Raw, &str)> {
    let value = text.strip_prefix("\"id\"")?.trim_start().strip_prefix(':')?.trim_start();
    let end = match value.strip_prefix('"') {
        Some(inner) => inner.find('"')? + 2,
        // A number that nothing follows may have been cut.
        None => value.find(|c: char| !c.is_ascii_digit() && c != '-')?,
    };
    let (id, rest) = value.split_at(end);
    let id: serde_json::Value = serde_json::from_str(id).ok()?;
    Some((Raw::encode(&id), rest))
}

#[cfg(test)]
mod tests;
