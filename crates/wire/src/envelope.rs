//! The JSON-RPC envelope: determines the kind of a message and leaves its contents raw.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::code::{INVALID_REQUEST, PARSE_ERROR};
use crate::json::outline::Outline;
use crate::json::scan::{self, Cursor, JsonSyntaxError, StringHint};
use crate::json::{self, RawJson};
use crate::line::KEPT_EDGE;

/// A message, parsed only down to the members of JSON-RPC 2.0.
#[derive(Debug)]
pub enum JsonRpcMessage {
    Request {
        /// The id, as written.
        id: RawJson,
        method: String,
        /// The `params` member, as written.
        params: Option<RawJson>,
    },
    Notification {
        method: String,
        /// The `params` member, as written.
        params: Option<RawJson>,
    },
    /// A response to one of this side's requests.
    Response { id: RawJson, outcome: RpcOutcome },
}

/// The `result` or `error` member of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcOutcome {
    Result(RawJson),
    Error(RawJson),
}

/// The ranges of the JSON-RPC members in a line.
#[derive(Default)]
struct EnvelopeMembers {
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    has_null_id: bool,
    outline: Option<Arc<Outline>>,
    /// The position of the first value whose name is repeated.
    repeated: Option<usize>,
}

impl EnvelopeMembers {
    fn find(line: &[u8], strings: StringHint) -> Result<Self, JsonSyntaxError> {
        let mut members = Self::default();
        let mut is_id_repeated = false;
        let mut cursor = Cursor::in_whole(line, strings)?;
        while let Some(key) = cursor.advance()? {
            let at = cursor.at();
            // A name with an unpaired surrogate is none of these; `parse` rejects it.
            let key = key.unescaped().unwrap_or_default();
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
                members.repeated.get_or_insert(at);
                is_id_repeated |= *key == *b"id";
            }
        }
        cursor.finish()?;
        members.id.take_if(|_| is_id_repeated);
        let is_null = |place: &Range<usize>| &line[place.clone()] == b"null";
        members.has_null_id = members.id.as_ref().is_some_and(is_null);
        // Except for `result`, a `null` member counts as missing.
        for place in [&mut members.id, &mut members.method, &mut members.params, &mut members.error]
        {
            place.take_if(|place| is_null(place));
        }
        Ok(members)
    }

    /// Returns the error for a message that can't be used, with its id if it is a request.
    fn refusal(self, line: &Bytes, error: JsonSyntaxError) -> MessageParseError {
        let id = self.id.filter(|_| self.method.is_some());
        let id = id.map(|place| RawJson::from_range(line, place));
        let is_simple = |id: &RawJson| {
            let text = id.as_bytes();
            matches!(text.first(), Some(b'"' | b'-' | b'0'..=b'9'))
                && !id.as_str().contains(char::REPLACEMENT_CHARACTER)
        };
        match id.filter(is_simple) {
            Some(id) => MessageParseError::UnusableRequest(id, error),
            None => MessageParseError::NotJson(error),
        }
    }
}

#[derive(Debug)]
pub enum MessageParseError {
    /// The text isn't valid JSON or isn't an object.
    NotJson(JsonSyntaxError),
    /// The request with this id repeats a member, or isn't valid UTF-8.
    UnusableRequest(RawJson, JsonSyntaxError),
    /// The text is a batch, or an object that isn't a request, notification or response.
    NoMessage,
    /// The name of a member, at any depth, has an unpaired surrogate. Edits and checks of such a
    /// message would fail, or disagree with its receiver.
    UnreadableName(Box<JsonRpcMessage>),
    /// The method of the request with this id isn't valid Unicode.
    UnreadableMethod(RawJson),
    /// The text is a request with the id `null`. A notification with such an id is accepted.
    NullId,
    /// The text is an error response without an id.
    ErrorWithoutId(RawJson),
}

impl MessageParseError {
    /// Returns the code and message of the error response. `expected` describes valid input and
    /// starts the message for invalid JSON.
    pub fn to_rpc_error(&self, expected: &str) -> (i64, String) {
        match self {
            Self::NotJson(error) | Self::UnusableRequest(_, error) => {
                (PARSE_ERROR, format!("{expected}: {error}"))
            }
            Self::NoMessage | Self::ErrorWithoutId(_) => (
                INVALID_REQUEST,
                "expected a JSON-RPC request, notification or response".to_owned(),
            ),
            Self::NullId => (
                INVALID_REQUEST,
                "the id of a request must be a string or a number, not null".to_owned(),
            ),
            Self::UnreadableName(_) => (INVALID_REQUEST, UNREADABLE_NAME.to_owned()),
            Self::UnreadableMethod(_) => {
                (INVALID_REQUEST, "the method has an unpaired surrogate".to_owned())
            }
        }
    }

    /// Returns the id of the rejected request, if it could be read.
    pub fn request_id(&self) -> Option<&RawJson> {
        match self {
            Self::UnreadableMethod(id) | Self::UnusableRequest(id, _) => Some(id),
            Self::UnreadableName(message) => match &**message {
                JsonRpcMessage::Request { id, .. } => Some(id),
                _ => None,
            },
            Self::NotJson(_) | Self::NoMessage | Self::NullId | Self::ErrorWithoutId(_) => None,
        }
    }

    /// Describes the error with an excerpt of `line`, from shortly before the place of the error.
    pub(crate) fn describe(&self, line: &[u8]) -> String {
        let (_, message) = self.to_rpc_error("malformed JSON");
        let at = match self {
            Self::NotJson(error) | Self::UnusableRequest(_, error) => error.at.min(line.len()),
            _ => 0,
        };
        let from = at.saturating_sub(EXCERPT / 2);
        let shown = String::from_utf8_lossy(&line[from..line.len().min(from + EXCERPT)]);
        let (before, after) =
            (if from > 0 { "…" } else { "" }, if line.len() > from + EXCERPT { "…" } else { "" });
        format!("{message}, in `{before}{}{after}`", shown.trim())
    }
}

/// Bytes of a malformed message that an error quotes.
const EXCERPT: usize = 120;

/// Why a message with an unreadable name is rejected.
pub const UNREADABLE_NAME: &str = "the name of a member has an unpaired surrogate (\\ud800 to \\udfff), which is not valid Unicode";

impl JsonRpcMessage {
    /// Parses a message that may span several lines. Its parts are joined to one line.
    pub fn parse_multiline(text: &Bytes) -> Result<Self, MessageParseError> {
        let message = Self::parse(text)?;
        if json::is_one_line(text) {
            return Ok(message);
        }
        Self::parse(&json::join_lines(text.clone()))
    }

    /// Parses a message like [`Self::parse`], but accepts unreadable names. For code that looks only
    /// at the kind and id of a message that its receiver parses again.
    pub fn parse_envelope(line: &Bytes) -> Result<Self, MessageParseError> {
        match Self::parse(line) {
            Err(MessageParseError::UnreadableName(message)) => Ok(*message),
            parsed => parsed,
        }
    }

    /// Parses a message from one line.
    pub(crate) fn parse(line: &Bytes) -> Result<Self, MessageParseError> {
        let strings = StringHint::of(line);
        if strings == StringHint::Any
            && let Err(error) = std::str::from_utf8(line)
        {
            let error = JsonSyntaxError { at: error.valid_up_to(), expected: "valid UTF-8" };
            let readable = Bytes::from(String::from_utf8_lossy(line).into_owned());
            return Err(match EnvelopeMembers::find(&readable, strings) {
                Ok(members) => members.refusal(&readable, error),
                Err(_) => MessageParseError::NotJson(error),
            });
        }
        if line.trim_ascii_start().first() == Some(&b'[') {
            let checked = scan::check(line);
            return Err(
                checked.map_or_else(MessageParseError::NotJson, |()| MessageParseError::NoMessage)
            );
        }
        let members = EnvelopeMembers::find(line, strings).map_err(MessageParseError::NotJson)?;
        if let Some(at) = members.repeated {
            return Err(members.refusal(line, JsonSyntaxError { at, expected: "a unique key" }));
        }
        let raw = |place: Range<usize>| RawJson::from_range(line, place);
        let params = members.params.map(|place| match members.outline {
            Some(outline) => raw(place).outlined(outline),
            None => raw(place),
        });
        let method = members.method.map(|place| {
            let (at, is_string) = (place.start, line[place.start] == b'"');
            let text = scan::EscapedKey::of_string(&line[place]).and_then(scan::EscapedKey::text);
            text.map(Cow::into_owned).ok_or_else(|| match &members.id {
                Some(id) if is_string => MessageParseError::UnreadableMethod(raw(id.clone())),
                _ => MessageParseError::NotJson(JsonSyntaxError { at, expected: "a text" }),
            })
        });
        let message = match (method.transpose()?, members.id, members.result, members.error) {
            (Some(method), Some(id), _, _) => Self::Request { id: raw(id), method, params },
            (Some(method), None, _, _)
                if members.has_null_id && !method.starts_with("notifications/") =>
            {
                return Err(MessageParseError::NullId);
            }
            (Some(method), None, _, _) => Self::Notification { method, params },
            (None, Some(id), _, Some(error)) => {
                Self::Response { id: raw(id), outcome: RpcOutcome::Error(raw(error)) }
            }
            (None, Some(id), Some(result), None) => {
                Self::Response { id: raw(id), outcome: RpcOutcome::Result(raw(result)) }
            }
            (None, None, _, Some(error)) => {
                return Err(MessageParseError::ErrorWithoutId(raw(error)));
            }
            (None, _, _, _) => return Err(MessageParseError::NoMessage),
        };
        // The text is valid JSON from here on.
        if scan::unpaired_surrogate_in_name(line).is_some() {
            return Err(MessageParseError::UnreadableName(Box::new(message)));
        }
        Ok(message)
    }
}

/// Finds the `"id"` member in the first and last bytes of an oversized message.
///
/// Only a member of the message itself counts, not one nested in its `params` or `result`.
pub(crate) fn recover_id(head: &[u8], tail: &[u8]) -> Option<RawJson> {
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let mut members = depths(&head, 0).filter(|(_, depth)| *depth == 1);
    let at_head = members.find_map(|(at, _)| Some(id_member(head.get(at..)?)?.0));
    at_head.or_else(|| {
        let tail = tail.trim_end();
        tail.rmatch_indices(ID).find_map(|(at, _)| {
            // This byte rules out that the match is the end of a longer key.
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

/// Returns the value of the `"id"` member at the start of `text`, and the rest.
fn id_member(text: &str) -> Option<(RawJson, &str)> {
    let value = text.strip_prefix(ID)?.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter::<&RawValue>();
    let id = values.next()?.ok()?;
    let rest = &value[values.byte_offset()..];
    let is_id = matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'));
    // A value at the very end may be truncated.
    (is_id && !rest.is_empty()).then(|| (RawJson::encode(&id), rest))
}

/// The ids of a malformed line, and what it seems to be.
pub(crate) struct RecoveredIds {
    /// Several if several messages share the line.
    pub(crate) ids: Vec<RawJson>,
    /// A message without a `method` is a response.
    pub(crate) is_response: bool,
}

/// Ids recovered from one line. Further ones are ignored.
const MAX_IDS: usize = 16;

/// Recovers the ids of a malformed line, which may have any errors.
pub(crate) fn recover_ids(line: &[u8]) -> RecoveredIds {
    let text = String::from_utf8_lossy(line);
    let members = || depths(&text, 0).filter(|(_, depth)| *depth == 1);
    let starts = members().filter_map(|(at, _)| text.get(at..));
    let mut ids: Vec<_> =
        starts.filter_map(|text| Some(id_member(text)?.0)).take(MAX_IDS).collect();
    if ids.is_empty() {
        ids.extend(recover_id(&[], &line[line.len().saturating_sub(KEPT_EDGE)..]));
    }
    let has_method = members().filter_map(|(at, _)| text.get(at..)?.strip_prefix(METHOD));
    let is_response = !has_method.into_iter().any(|text| text.trim_start().starts_with(':'));
    RecoveredIds { ids, is_response }
}

const METHOD: &str = "\"method\"";

/// Returns the nesting depth at each byte outside strings, given the depth at the start. A string
/// yields only its opening quote.
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
