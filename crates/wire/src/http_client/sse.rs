//! Incremental parser for streams of server-sent events, with bounded events.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use memchr::memchr2;

use crate::line::OversizedMessage;
use crate::memory_pool::MemoryReservation;

/// Bytes that a line may hold beyond the data limit: room for the field name.
const FIELD: usize = 16;
/// The longest event id, in bytes; longer ones are ignored. It is sent in a header, which servers
/// limit to 8 KiB or more.
const MAX_ID: usize = 4 * 1024;
/// The longest event type that is stored.
const MAX_NAME: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SseEvent {
    Message(Bytes),
    /// An event of another type than `message`.
    Other {
        name: String,
        data: Bytes,
    },
    /// An event that exceeds the limit. Only its edges are stored.
    Oversized(OversizedMessage),
}

impl SseEvent {
    /// Attaches the memory reservation to a message, until its last slice is dropped.
    pub(super) fn paid_with(self, charge: MemoryReservation) -> Self {
        match self {
            Self::Message(message) => Self::Message(charge.attach_to(message)),
            event @ (Self::Other { .. } | Self::Oversized(_)) => event,
        }
    }
}

/// Parses events with at most `max` bytes of data, and tracks what is needed to resume the stream.
pub(super) struct SseParser {
    max: usize,
    ready: VecDeque<SseEvent>,
    line: Vec<u8>,
    /// The part of the line beyond the limit.
    surplus: OversizedMessage,
    /// `true` after CR: a following LF belongs to the same line ending.
    was_return: bool,
    is_first: bool,
    event: Unfinished,
    last_id: Option<String>,
    retry: Option<Duration>,
}

#[derive(Default)]
struct Unfinished {
    data: Option<Vec<u8>>,
    id: Option<String>,
    /// Its type, unless that is `message`.
    name: Option<String>,
    /// The edges of its data, once that exceeds the limit.
    oversized: Option<OversizedMessage>,
}

impl SseParser {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            ready: VecDeque::new(),
            line: Vec::new(),
            surplus: OversizedMessage::default(),
            was_return: false,
            is_first: true,
            event: Unfinished::default(),
            last_id: None,
            retry: None,
        }
    }

    /// Returns the id of the last complete event that had one, for `Last-Event-ID`.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes the data of a message that no blank line has ended. Its id doesn't count.
    pub(super) fn take_unfinished(&mut self) -> Option<Bytes> {
        if !self.line.is_empty() {
            self.end_line();
        }
        let Unfinished { data, name, oversized, .. } = std::mem::take(&mut self.event);
        data.filter(|_| name.is_none() && oversized.is_none()).map(Bytes::from)
    }

    /// Starts a new connection: drops the unfinished event, keeps the last id and the delay.
    pub(super) fn reconnect(&mut self) {
        let fresh = Self::new(self.max);
        *self = Self { last_id: self.last_id.take(), retry: self.retry, ..fresh };
    }

    /// Returns the bytes buffered for the unfinished event.
    pub(super) fn held(&self) -> usize {
        self.line.len() + self.event.data.as_ref().map_or(0, Vec::len)
    }

    pub(super) fn next(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// Parses the next chunk. A line ends with LF, CR or CRLF.
    pub(super) fn read(&mut self, mut chunk: &[u8]) {
        while let Some(first) = chunk.first() {
            if std::mem::take(&mut self.was_return) && *first == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let capacity = (self.max + FIELD).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(capacity)]);
            self.surplus.skip(part.get(capacity..).unwrap_or_default());
            let Some(end) = end else { break };
            self.was_return = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let (mut line, surplus) =
            (std::mem::take(&mut self.line), std::mem::take(&mut self.surplus));
        if std::mem::take(&mut self.is_first) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.end_event();
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&line[..], &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => self.add_data(value, &surplus),
            b"event" => {
                let is_other = !value.is_empty() && value != b"message";
                let value = &value[..value.len().min(MAX_NAME)];
                self.event.name = is_other.then(|| String::from_utf8_lossy(value).into_owned());
            }
            b"id" if value.len() <= MAX_ID && !value.contains(&0) => self.event.id = Some(text()),
            b"retry" => self.retry = text().parse().ok().map(Duration::from_millis).or(self.retry),
            _ => {}
        }
    }

    fn add_data(&mut self, value: &[u8], surplus: &OversizedMessage) {
        let Unfinished { data, oversized, .. } = &mut self.event;
        let held = data.as_ref().map_or(0, |data| data.len() + 1);
        if oversized.is_some() || surplus.length > 0 || held + value.len() > self.max {
            let edges = oversized.get_or_insert_default();
            if let Some(data) = data.take() {
                edges.skip(&data);
                edges.skip(b"\n");
            }
            edges.skip(value);
            // The head is complete; of the rest, only the tail is stored.
            edges.skip(&surplus.tail);
            edges.length += surplus.length - surplus.tail.len();
            return;
        }
        let data = data.get_or_insert_default();
        if held > 0 {
            data.push(b'\n');
        }
        data.extend_from_slice(value);
    }

    fn end_event(&mut self) {
        let Unfinished { data, id, name, oversized } = std::mem::take(&mut self.event);
        self.last_id = id.filter(|id| !id.is_empty()).or(self.last_id.take());
        if let Some(edges) = oversized {
            self.ready.push_back(SseEvent::Oversized(edges));
        } else if let Some(data) = data.filter(|data| !data.is_empty()) {
            self.ready.push_back(match name {
                None => SseEvent::Message(data.into()),
                Some(name) => SseEvent::Other { name, data: data.into() },
            });
        }
    }
}

#[cfg(test)]
mod tests;
