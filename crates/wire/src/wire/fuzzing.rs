//! Rules that must hold of lines and envelopes whatever bytes come, in whatever pieces. The fuzz
//! target `wire` (see `fuzz/`) looks for bytes that break them, and a test tries those it has found
//! so far.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf};

use crate::raw::Raw;
use crate::wire::envelope::{Malformed, Message, Outcome, id_at_edges};
use crate::wire::line::{KEPT_EDGE, Line, LineReader};

/// The members that an envelope is made of.
const MEMBERS: [&str; 5] = ["id", "method", "params", "result", "error"];

/// Reads the text after the first four bytes, which say how long a line may be and in which sizes
/// the text comes, and checks every line of it.
pub(crate) fn check(input: &[u8]) {
    let Some(([max, sizes @ ..], text)) = input.split_first_chunk::<4>() else { return };
    let max = 1 + 8 * usize::from(*max);
    let lines = read(text, max, &[u8::MAX]);
    let again = read(text, max, sizes);
    assert!(again == lines, "lines differ with the sizes that the text comes in");
    check_lines(text, max, &lines);
    for line in text.split(|byte| *byte == b'\n') {
        let line = Bytes::copy_from_slice(line);
        check_envelope(&line);
        for edge in sizes.iter().map(|size| 4 * usize::from(*size)).chain([KEPT_EDGE]) {
            check_id(&line, edge);
        }
    }
}

/// Bytes that come in pieces of these sizes, again and again. At a size of zero nothing has come
/// yet, once.
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

/// All lines; reading is cancelled and begun again whenever it has to wait.
fn read(text: &[u8], max: usize, sizes: &[u8]) -> Vec<Line> {
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

/// The lines, and what lies between them, are the text: in order, whole and with nothing left out
/// but line ends and blank lines.
fn check_lines(text: &[u8], max: usize, lines: &[Line]) {
    let mut rest = text;
    for line in lines {
        rest = after_blank(rest, max);
        let length = match line {
            Line::Message(line) => {
                assert!(line.len() <= max, "a line of {} bytes, with at most {max}", line.len());
                assert!(rest.starts_with(line), "a line that is not next in the text");
                line.len()
            }
            Line::Oversized { head, tail, length } => {
                assert!(*length > max, "a line of {length} bytes is oversized, with {max} allowed");
                let edge = KEPT_EDGE.min(*length);
                assert!(head == &rest[..edge], "the head is not what the line begins with");
                assert!(tail == &rest[length - edge..*length], "the tail is not what it ends with");
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

/// A message is made of slices of its line that mean what the line means, and what is no message
/// is refused for a reason.
fn check_envelope(line: &Bytes) {
    // It is stricter than we are: it knows no number beyond 64 bits and only so much depth.
    let whole: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
    let message = match Message::parse(line) {
        Ok(message) => message,
        Err(malformed) => return check_refusal(line, whole.as_ref(), &malformed),
    };
    let mut parts = Vec::new();
    let mut text = String::from("{");
    match &message {
        Message::Request { id, method, params } => {
            parts.extend([("id", Some(id)), ("params", params.as_ref())]);
            text = format!("{text}\"method\":{:?},", Raw::encode(method));
        }
        Message::Notification { method, params } => {
            parts.push(("params", params.as_ref()));
            text = format!("{text}\"method\":{:?},", Raw::encode(method));
        }
        Message::Answer { id, outcome: Outcome::Result(result) } => {
            parts.extend([("id", Some(id)), ("result", Some(result))]);
        }
        Message::Answer { id, outcome: Outcome::Error(error) } => {
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
    let again = Message::parse(&again).map(|message| format!("{message:?}"));
    assert_eq!(again.ok(), Some(format!("{message:?}")), "put together again it is another");
}

/// A part lies within its line and is one JSON value.
fn check_part(line: &Bytes, part: &Raw) {
    let (of_line, of_part) = (line.as_ptr_range(), part.as_bytes().as_ptr_range());
    assert!(of_line.start <= of_part.start && of_part.end <= of_line.end, "a part was copied");
    let value: Result<&RawValue, _> = serde_json::from_slice(part.as_bytes());
    let is_all = value.is_ok_and(|value| value.get().as_bytes() == part.as_bytes());
    assert!(is_all, "a part is not one JSON value: {part:?}");
}

fn check_refusal(line: &[u8], whole: Option<&Map<String, Value>>, malformed: &Malformed) {
    let Some(whole) = whole else { return };
    let has = |name: &str| whole.get(name).is_some_and(|value| !value.is_null());
    let is_complete = whole.get("method").is_some_and(Value::is_string)
        || (has("id") && (has("error") || whole.contains_key("result")));
    match malformed {
        Malformed::NoMessage => {
            assert!(!is_complete || !line.trim_ascii_start().starts_with(b"{"), "it is a message");
        }
        Malformed::NotJson(error) => {
            let line = Bytes::copy_from_slice(line);
            let members = serde_json::from_slice::<&RawValue>(&line).ok();
            let members = members.and_then(|value| Raw::slice_of(&line, value).members());
            let members = members.unwrap_or_default();
            let is_repeated = MEMBERS
                .iter()
                .any(|member| members.iter().filter(|(name, _)| name == member).count() > 1);
            let is_odd = whole.get("method").is_some_and(|method| !method.is_string());
            assert!(is_repeated || is_odd, "it is JSON: {error}");
        }
    }
}

/// Of a line of which only the edges were kept, the id is the one it has or is not found.
fn check_id(line: &Bytes, edge: usize) {
    let edge = edge.min(line.len());
    let found = id_at_edges(&line[..edge], &line[line.len() - edge..]);
    let id = match Message::parse(line) {
        Ok(Message::Request { id, .. } | Message::Answer { id, .. }) => Some(id),
        Ok(Message::Notification { .. }) => None,
        Err(_) => return,
    };
    if found.is_some() {
        assert_eq!(found, id, "the id of something else");
        return;
    }
    let is_usual = id.is_some_and(|id| matches!(id.as_bytes()[0], b'"' | b'-' | b'0'..=b'9'));
    let is_spelled_out = memchr::memchr(b'\\', line).is_none();
    assert!(!is_usual || !is_spelled_out || edge < line.len(), "there is an id");
}

#[cfg(test)]
mod tests;
