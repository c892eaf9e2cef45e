//! Invariants of line reading and envelope parsing, for any bytes in any chunks. The fuzz target
//! `wire` (see `fuzz/`) searches for violations, and a test replays its corpus.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf};

use crate::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome, recover_id};
use crate::json::RawJson;
use crate::line::{InputLine, KEPT_EDGE, LineReader};

const MEMBERS: [&str; 5] = ["id", "method", "params", "result", "error"];

/// The first four bytes set the maximum line length and the chunk sizes. Reads the rest as lines
/// and checks each of them.
pub(crate) fn check(input: &[u8]) {
    let Some(([max, sizes @ ..], text)) = input.split_first_chunk::<4>() else { return };
    let max = 1 + 8 * usize::from(*max);
    let lines = read(text, max, &[u8::MAX]);
    let again = read(text, max, sizes);
    assert!(again == lines, "lines depend on the chunk sizes");
    check_lines(text, max, &lines);
    for line in text.split(|byte| *byte == b'\n') {
        let line = Bytes::copy_from_slice(line);
        check_envelope(&line);
        for edge in sizes.iter().map(|size| 4 * usize::from(*size)).chain([KEPT_EDGE]) {
            check_id(&line, edge);
        }
    }
}

/// Yields bytes in chunks of these sizes, cyclically. A size of zero returns `Pending` once.
struct Pieces<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    has_waited: bool,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.sizes.next().copied().map_or(1, usize::from);
        if size == 0 && !self.has_waited {
            self.has_waited = true;
            return Poll::Pending;
        }
        self.has_waited = false;
        let (now, later) =
            self.rest.split_at(size.max(1).min(self.rest.len()).min(buf.remaining()));
        buf.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

/// Reads all lines, dropping and restarting the read whenever it is pending.
fn read(text: &[u8], max: usize, sizes: &[u8]) -> Vec<InputLine> {
    let pieces = Pieces { rest: text, sizes: sizes.iter().cycle(), has_waited: false };
    let mut reader = LineReader::new(pieces, max);
    let mut context = Context::from_waker(Waker::noop());
    let mut lines = Vec::new();
    loop {
        match pin!(reader.next()).poll(&mut context) {
            Poll::Pending => {}
            Poll::Ready(Some(line)) => lines.push(line),
            Poll::Ready(None) => return lines,
        }
    }
}

/// Checks that the lines are the text in order, complete except for line ends and blank lines.
fn check_lines(text: &[u8], max: usize, lines: &[InputLine]) {
    let mut rest = text;
    for line in lines {
        rest = after_blank(rest, max);
        let length = match line {
            InputLine::Message(line) => {
                assert!(line.len() <= max, "a line of {} bytes, with at most {max}", line.len());
                assert!(rest.starts_with(line), "a line that is not next in the text");
                line.len()
            }
            InputLine::Oversized { head, tail, length, .. } => {
                assert!(*length > max, "a line of {length} bytes is oversized, with {max} allowed");
                let edge = KEPT_EDGE.min(*length);
                assert!(head == &rest[..edge], "the head differs from the start of the line");
                assert!(
                    tail == &rest[length - edge..*length],
                    "the tail differs from the end of the line"
                );
                *length
            }
        };
        assert!(!rest[..length].contains(&b'\n'), "two lines in one");
        rest = &rest[length..];
        let end = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(b"\r\n"));
        assert!(end.is_some() || rest.is_empty(), "half a line");
        rest = end.unwrap_or(rest);
    }
    assert!(after_blank(rest, max).is_empty(), "a line is missing at the end");
}

fn after_blank(text: &[u8], max: usize) -> &[u8] {
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        if end > max || !rest[..end].trim_ascii().is_empty() {
            break;
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    rest
}

/// Checks that a parsed message consists of slices of its line with the right meaning, and that a
/// rejected line isn't a message.
fn check_envelope(line: &Bytes) {
    // Serde is stricter: it rejects numbers beyond 64 bits and deep nesting.
    let whole: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
    let message = match JsonRpcMessage::parse(line) {
        Ok(message) => message,
        Err(malformed) => return check_refusal(line, whole.as_ref(), &malformed),
    };
    check_part_names(&message);
    let mut parts = Vec::new();
    let mut text = String::from("{");
    match &message {
        JsonRpcMessage::Request { id, method, params } => {
            parts.extend([("id", Some(id)), ("params", params.as_ref())]);
            text = format!("{text}\"method\":{:?},", RawJson::encode(method));
        }
        JsonRpcMessage::Notification { method, params } => {
            parts.push(("params", params.as_ref()));
            text = format!("{text}\"method\":{:?},", RawJson::encode(method));
        }
        JsonRpcMessage::Response { id, outcome: RpcOutcome::Result(result) } => {
            parts.extend([("id", Some(id)), ("result", Some(result))]);
        }
        JsonRpcMessage::Response { id, outcome: RpcOutcome::Error(error) } => {
            parts.extend([("id", Some(id)), ("error", Some(error))]);
        }
    }
    for (name, part) in parts {
        let Some(part) = part else { continue };
        check_part(line, part);
        if let Some(whole) = &whole {
            assert_eq!(part.parse::<Value>().ok().as_ref(), whole.get(name), "`{name}`");
        }
        text = format!("{text}\"{name}\":{part:?},");
    }
    let again = Bytes::from(text.trim_end_matches(',').to_owned() + "}");
    let again = JsonRpcMessage::parse(&again).map(|message| format!("{message:?}"));
    assert_eq!(again.ok(), Some(format!("{message:?}")), "the reassembled message differs");
}

/// Checks that every member of an accepted message can be read and edited.
fn check_part_names(message: &JsonRpcMessage) {
    let part = match message {
        JsonRpcMessage::Request { params, .. } | JsonRpcMessage::Notification { params, .. } => {
            params.as_ref()
        }
        JsonRpcMessage::Response { outcome, .. } => {
            let (RpcOutcome::Result(part) | RpcOutcome::Error(part)) = outcome;
            Some(part)
        }
    };
    let Some(part) = part else { return };
    assert!(part.has_readable_names(), "{part:?}");
    let is_object = part.as_bytes().starts_with(b"{");
    let edited = part.with_member("a", &RawJson::encode(&1));
    assert_eq!(edited.is_ok(), is_object, "{part:?}");
}

/// Checks that a part is a slice of its line and one JSON value.
fn check_part(line: &Bytes, part: &RawJson) {
    let (of_line, of_part) = (line.as_ptr_range(), part.as_bytes().as_ptr_range());
    assert!(of_line.start <= of_part.start && of_part.end <= of_line.end, "a part was copied");
    let value: Result<&RawValue, _> = serde_json::from_slice(part.as_bytes());
    let is_all = value.is_ok_and(|value| value.get().as_bytes() == part.as_bytes());
    assert!(is_all, "a part is not one JSON value: {part:?}");
}

fn check_refusal(line: &[u8], whole: Option<&Map<String, Value>>, malformed: &MessageParseError) {
    let Some(whole) = whole else { return };
    let has = |name: &str| whole.get(name).is_some_and(|value| !value.is_null());
    let is_complete = whole.get("method").is_some_and(Value::is_string)
        || (has("id") && (has("error") || whole.contains_key("result")));
    match malformed {
        MessageParseError::NoMessage => {
            assert!(!is_complete || !line.trim_ascii_start().starts_with(b"{"), "it is a message");
        }
        // Serde rejects such names too, so there is no value to compare with.
        MessageParseError::UnreadableName(_) => panic!("its names are readable"),
        MessageParseError::UnreadableMethod(_) => panic!("its method is readable"),
        MessageParseError::NullId => {
            assert!(whole.get("id").is_some_and(Value::is_null) && is_complete);
        }
        MessageParseError::ErrorWithoutId(_) => assert!(!has("id") && has("error")),
        MessageParseError::NotJson(error) | MessageParseError::UnusableRequest(_, error) => {
            let line = Bytes::copy_from_slice(line);
            let members = serde_json::from_slice::<&RawValue>(&line).ok();
            let members = members.and_then(|value| RawJson::from_borrowed(&line, value).members());
            let members = members.unwrap_or_default();
            let is_repeated = MEMBERS
                .iter()
                .any(|member| members.iter().filter(|(name, _)| name == member).count() > 1);
            let is_odd = whole.get("method").is_some_and(|method| !method.is_string());
            assert!(is_repeated || is_odd, "it is JSON: {error}");
        }
    }
}

/// Checks that an id recovered from the ends of a line is the right one.
fn check_id(line: &Bytes, edge: usize) {
    let edge = edge.min(line.len());
    let found = recover_id(&line[..edge], &line[line.len() - edge..]);
    let id = match JsonRpcMessage::parse(line) {
        Ok(JsonRpcMessage::Request { id, .. } | JsonRpcMessage::Response { id, .. }) => Some(id),
        Ok(JsonRpcMessage::Notification { .. }) => None,
        Err(_) => return,
    };
    if found.is_some() {
        assert_eq!(found, id, "the recovered id belongs to another member");
        return;
    }
    let is_usual = id.is_some_and(|id| matches!(id.as_bytes()[0], b'"' | b'-' | b'0'..=b'9'));
    let is_spelled_out = memchr::memchr(b'\\', line).is_none();
    assert!(!is_usual || !is_spelled_out || edge < line.len(), "there is an id");
}

#[cfg(test)]
mod tests;
