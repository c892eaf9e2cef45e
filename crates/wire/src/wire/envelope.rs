//! The JSON-RPC envelope of one line: which kind of message it is, with everything inside it raw.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::raw::outline::Outline;
use crate::raw::scan::{self, Cursor, Invalid, Strings};
use crate::raw::{self, Raw};
use crate::wire::code::{INVALID_REQUEST, PARSE_ERROR};

/// One message, parsed no further than the members of JSON-RPC 2.0.
#[derive(Debug)]
pub enum Message {
    /// Wants an answer.
    Request {
        /// The id that its answer has to have.
        id: Raw,
        /// The method of the request.
        method: String,
        /// Its `params`, as written.
        params: Option<Raw>,
    },
    /// Wants none.
    Notification {
        /// The method of the notification.
        method: String,
        /// Its `params`, as written.
        params: Option<Raw>,
    },
    /// Answers a request of ours.
    Answer {
        /// The id of the request.
        id: Raw,
        /// The content of the answer.
        outcome: Outcome,
    },
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The `result` member.
    Result(Raw),
    /// The `error` member.
    Error(Raw),
}

/// Where the members of JSON-RPC stand in a line.
#[derive(Default)]
struct Members {
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    /// The members of `params`.
    outline: Option<Arc<Outline>>,
}

impl Members {
    fn find(line: &[u8], strings: Strings) -> Result<Self, Invalid> {
        let mut members = Self::default();
        let mut cursor = Cursor::in_whole(line, strings)?;
        while let Some(key) = cursor.advance()? {
            let at = cursor.at();
            let key = key.unescaped().ok_or(Invalid { at, expected: "a key that is text" })?;
            let value = if *key == *b"params" {
                let (end, outline) = Outline::of_value(line, at, strings)?;
                members.outline = outline;
                cursor.pass_to(end)
            } else {
                cursor.pass()?
            };
            let place = match &*key {
                b"id" => &mut members.id,
                b"method" => &mut members.method,
                b"params" => &mut members.params,
                b"result" => &mut members.result,
                b"error" => &mut members.error,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(Invalid { at, expected: "another key, for this was there already," });
            }
        }
        cursor.finish()?;
        // A result may be `null`; of anything else, that says that it is missing.
        for place in [&mut members.id, &mut members.method, &mut members.params, &mut members.error]
        {
            place.take_if(|place| &line[place.clone()] == b"null");
        }
        Ok(members)
    }
}

/// Why a text is not a message.
#[derive(Debug)]
pub enum Malformed {
    /// It is not JSON, or nothing like an object.
    NotJson(Invalid),
    /// It is a batch, or an object without a method, a result or an error.
    NoMessage,
}

impl Malformed {
    /// The code and the text of the error that answers it. `expected` is what one should have sent, and is
    /// said where it is no JSON.
    pub fn error(&self, expected: &str) -> (i64, String) {
        match self {
            Self::NotJson(error) => (PARSE_ERROR, format!("{expected}: {error}")),
            Self::NoMessage => (
                INVALID_REQUEST,
                "expected a JSON-RPC request, notification or response".to_owned(),
            ),
        }
    }
}

impl Message {
    /// Reads a message that may stand on several lines. What is taken out of it stands on one.
    pub fn on_lines(text: &Bytes) -> Result<Self, Malformed> {
        let message = Self::parse(text)?;
        if raw::is_one_line(text) {
            return Ok(message);
        }
        Self::parse(&raw::one_line(text.clone()))
    }

    /// Reads the message of one line.
    pub(crate) fn parse(line: &Bytes) -> Result<Self, Malformed> {
        let strings = Strings::of(line);
        if strings == Strings::Any
            && let Err(error) = std::str::from_utf8(line)
        {
            return Err(Malformed::NotJson(Invalid {
                at: error.valid_up_to(),
                expected: "a character of UTF-8",
            }));
        }
        if line.trim_ascii_start().first() == Some(&b'[') {
            let checked = scan::check(line);
            return Err(checked.map_or_else(Malformed::NotJson, |()| Malformed::NoMessage));
        }
        let members = Members::find(line, strings).map_err(Malformed::NotJson)?;
        let raw = |place: Range<usize>| Raw::part_of(line, place);
        let params = members.params.map(|place| match members.outline {
            Some(outline) => raw(place).outlined(outline),
            None => raw(place),
        });
        let method = members.method.map(|place| {
            let at = place.start;
            let text = scan::Key::of_string(&line[place]).and_then(scan::Key::text);
            text.map(Cow::into_owned).ok_or(Malformed::NotJson(Invalid { at, expected: "a text" }))
        });
        match (method.transpose()?, members.id, members.result, members.error) {
            (Some(method), Some(id), _, _) => Ok(Self::Request { id: raw(id), method, params }),
            (Some(method), None, _, _) => Ok(Self::Notification { method, params }),
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
/// It is a member of the message itself, among its first or its last few bytes; what is called so
/// within its parameters or its result is something else.
pub(crate) fn id_at_edges(head: &[u8], tail: &[u8]) -> Option<Raw> {
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let mut members = depths(&head, 0).filter(|(_, depth)| *depth == 1);
    let at_head = members.find_map(|(at, _)| Some(id_member(head.get(at..)?)?.0));
    at_head.or_else(|| {
        let tail = tail.trim_end();
        tail.rmatch_indices(ID).find_map(|(at, _)| {
            // What stands before a key tells it from the end of one that is longer.
            let before = tail[..at].bytes().last()?;
            if !matches!(before, b'{' | b',' | b' ' | b'\t' | b'\r') {
                return None;
            }
            let (id, rest) = id_member(&tail[at..])?;
            let end = depths(rest, 1).find(|(_, depth)| *depth == 0)?.0;
            (end + 1 == rest.len()).then_some(id)
        })
    })
}

const ID: &str = "\"id\"";

/// The value of the `"id"` member that `text` begins with, and what follows it.
fn id_member(text: &str) -> Option<(Raw, &str)> {
    let value = text.strip_prefix(ID)?.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter::<&RawValue>();
    let id = values.next()?.ok()?;
    let rest = &value[values.byte_offset()..];
    let is_id = matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'));
    // What ends with the text may have been cut.
    (is_id && !rest.is_empty()).then(|| (Raw::encode(&id), rest))
}

/// How deep in objects and arrays the bytes of `text` lie that are not within strings, when it
/// begins at `depth`. Of a string there is its first quote.
fn depths(text: &str, mut depth: i32) -> impl Iterator<Item = (usize, i32)> {
    let (mut is_string, mut is_escaped) = (false, false);
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        let was_string = is_string;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => depth -= 1,
            _ => {}
        }
        (!was_string).then_some((at, depth))
    })
}

#[cfg(test)]
mod tests;
