//! Messages out of a stream of server-sent events, each bounded.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use memchr::memchr2;

use crate::wire::budget::Charge;
use crate::wire::line::Oversized;

/// The most bytes that may stand before the data in its line.
const FIELD: usize = 16;

/// One event that says something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A message.
    Message(Bytes),
    /// An event of another name than `message`.
    Other {
        /// The name that stands in its `event` field.
        name: String,
        /// Its data.
        data: Bytes,
    },
    /// An event longer than allowed, of which only the edges were kept.
    Oversized(Oversized),
}

impl Event {
    /// Lets a message hold the room that was paid for it.
    pub(super) fn paid_with(self, charge: Charge) -> Self {
        match self {
            Self::Message(message) => Self::Message(charge.attach(message)),
            event @ (Self::Other { .. } | Self::Oversized(_)) => event,
        }
    }
}

/// Reads events of at most `max` bytes, and what they say of resuming the stream.
pub(super) struct Events {
    max: usize,
    ready: VecDeque<Event>,
    line: Vec<u8>,
    /// The part of the line that was left out because it is too long.
    surplus: Oversized,
    /// `true` if a line feed that comes next belongs to the last line's end.
    was_return: bool,
    is_first: bool,
    event: Unfinished,
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// The event that is being read.
#[derive(Default)]
struct Unfinished {
    data: Option<Vec<u8>>,
    id: Option<String>,
    /// Its name, where that is another one than `message`.
    name: Option<String>,
    /// The edges of its data, once that is too long.
    oversized: Option<Oversized>,
}

impl Events {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            ready: VecDeque::new(),
            line: Vec::new(),
            surplus: Oversized::default(),
            was_return: false,
            is_first: true,
            event: Unfinished::default(),
            last_id: None,
            retry: None,
        }
    }

    /// The id of the last whole event that had one, by which the stream can be resumed.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants us to wait before we connect again.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Begins with another connection, on which nothing has been read yet.
    pub(super) fn reconnect(&mut self) {
        let fresh = Self::new(self.max);
        *self = Self { last_id: self.last_id.take(), retry: self.retry, ..fresh };
    }

    /// The bytes that are held of an event that is not whole.
    pub(super) fn held(&self) -> usize {
        self.line.len() + self.event.data.as_ref().map_or(0, Vec::len)
    }

    /// The next event that has been read as a whole.
    pub(super) fn next(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// Reads on. A line ends with LF, CR or both.
    pub(super) fn read(&mut self, mut chunk: &[u8]) {
        while let Some(first) = chunk.first() {
            if std::mem::take(&mut self.was_return) && *first == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = (self.max + FIELD).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            self.surplus.skip(part.get(room..).unwrap_or_default());
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
                self.event.name = is_other.then(text);
            }
            b"id" if !value.contains(&0) => self.event.id = Some(text()),
            b"retry" => self.retry = text().parse().ok().map(Duration::from_millis).or(self.retry),
            _ => {}
        }
    }

    fn add_data(&mut self, value: &[u8], surplus: &Oversized) {
        let Unfinished { data, oversized, .. } = &mut self.event;
        let held = data.as_ref().map_or(0, |data| data.len() + 1);
        if oversized.is_some() || surplus.length > 0 || held + value.len() > self.max {
            let edges = oversized.get_or_insert_default();
            if let Some(data) = data.take() {
                edges.skip(&data);
                edges.skip(b"\n");
            }
            edges.skip(value);
            // Its beginning is known; of its end no more was kept.
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
            self.ready.push_back(Event::Oversized(edges));
        } else if let Some(data) = data.filter(|data| !data.is_empty()) {
            self.ready.push_back(match name {
                None => Event::Message(data.into()),
                Some(name) => Event::Other { name, data: data.into() },
            });
        }
    }
}

#[cfg(test)]
mod tests;
