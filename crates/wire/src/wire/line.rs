//! Lines out of a byte stream, each bounded, none lost when the reading is cancelled.

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::wire::budget::{Account, Charge};

/// How much is read at once at first; a longer message makes the buffer double.
const FIRST_READ: usize = 8 * 1024;
/// How much room is enough to begin a line in.
const SHORT_READ: usize = 1024;
/// A buffer that one long message made larger than this is given back afterwards.
const KEPT_BUFFER: usize = 256 * 1024;
/// How much of the beginning and the end of an oversized line is kept to find its id in.
pub(crate) const KEPT_EDGE: usize = 512;

/// The amount that a stream which never makes us wait may cost before everybody else has had a
/// turn. A byte costs 1, a line this much more.
const TURN: usize = 32 * 1024;
const LINE_COST: usize = 1024;

/// The next piece of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line without its line end.
    Message(Bytes),
    /// A line longer than allowed; only its edges were kept.
    Oversized {
        /// Its first bytes.
        head: Vec<u8>,
        /// Its last bytes.
        tail: Vec<u8>,
        /// How long it was.
        length: usize,
    },
}

/// Reads lines of at most `max` bytes, and lets others have a turn in between, however much comes.
/// Dropping a pending [`LineReader::next`] loses nothing.
pub struct LineReader<R> {
    reader: R,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    max: usize,
    /// The cost of all that was read since everybody else had a turn.
    spent: usize,
    /// Set while the rest of an oversized line is being skipped.
    oversized: Option<Oversized>,
    /// Who pays for the buffer, and what it holds of their room.
    account: Account,
    charge: Charge,
}

/// The edges of a message that is longer than allowed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Oversized {
    /// Its first bytes.
    pub(crate) head: Vec<u8>,
    /// Its last bytes.
    pub(crate) tail: Vec<u8>,
    /// The bytes that it has had so far.
    pub(crate) length: usize,
}

impl Oversized {
    /// Takes the next bytes of the message.
    pub(crate) fn skip(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let missing = KEPT_EDGE - self.head.len();
        self.head.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT_EDGE)..]);
        let surplus = self.tail.len().saturating_sub(KEPT_EDGE);
        self.tail.drain(..surplus);
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub fn new(reader: R, max: usize) -> Self {
        let (buffer, oversized) = (BytesMut::new(), None);
        let (account, charge) = (Account::default(), Charge::default());
        Self { reader, buffer, scanned: 0, max, spent: 0, oversized, account, charge }
    }

    /// Reads lines only as far as there is room for them in the budget of an account.
    #[must_use]
    pub fn paid_by(self, account: Account) -> Self {
        Self { charge: account.charge(), account, ..self }
    }

    /// The next line that is not blank; `None` at the end of input. A last line without a line
    /// end counts. An error of the stream is its end.
    pub async fn next(&mut self) -> Option<Line> {
        loop {
            if self.spent > TURN {
                self.spent = 0;
                tokio::task::yield_now().await;
            }
            if let Some(line) = self.take_line() {
                self.spent += LINE_COST;
                return Some(line);
            }
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER {
                self.buffer = BytesMut::new();
                self.charge = self.account.charge();
            }
            // What is left of a buffer that earlier lines are in will do for another short one.
            let wanted = if self.buffer.is_empty() { SHORT_READ } else { FIRST_READ };
            if self.buffer.capacity() - self.buffer.len() < wanted.max(self.buffer.len()) {
                let held = self.buffer.len();
                // A message is never longer than that, so its buffer need not be either.
                let most = self.max.saturating_add(2 * FIRST_READ);
                let wanted = held.saturating_mul(2).min(most).max(held + FIRST_READ);
                self.charge.grow(wanted).await;
                self.buffer.reserve(wanted - held);
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return self.take_rest(),
                Ok(read) => self.spent += read,
            }
        }
    }

    /// Lets a line hold the room of the buffer that it is in; what comes after it gets another buffer.
    fn charged(&mut self, line: Bytes) -> Bytes {
        if !self.charge.is_held() {
            return line;
        }
        self.buffer = BytesMut::from(&self.buffer[..]);
        std::mem::replace(&mut self.charge, self.account.charge()).attach(line)
    }

    fn take_line(&mut self) -> Option<Line> {
        loop {
            let end = memchr(b'\n', &self.buffer[self.scanned..]).map(|at| at + self.scanned);
            if let Some(oversized) = &mut self.oversized {
                let Some(end) = end else {
                    oversized.skip(&self.buffer);
                    self.buffer.clear();
                    self.scanned = 0;
                    return None;
                };
                oversized.skip(&self.buffer[..end]);
                let _skipped = self.buffer.split_to(end + 1);
                self.scanned = 0;
                return self.finish_oversized();
            }
            match end {
                Some(end) if end <= self.max => {
                    let mut line = self.buffer.split_to(end + 1).freeze();
                    self.scanned = 0;
                    line.truncate(end);
                    if line.last() == Some(&b'\r') {
                        line.truncate(end - 1);
                    }
                    if !line.trim_ascii().is_empty() {
                        return Some(Line::Message(self.charged(line)));
                    }
                }
                None if self.buffer.len() <= self.max => {
                    self.scanned = self.buffer.len();
                    return None;
                }
                _ => {
                    self.oversized = Some(Oversized::default());
                    self.scanned = 0;
                }
            }
        }
    }

    fn take_rest(&mut self) -> Option<Line> {
        self.scanned = 0;
        if self.oversized.is_some() {
            return self.finish_oversized();
        }
        let rest = self.buffer.split().freeze();
        (!rest.trim_ascii().is_empty()).then(|| Line::Message(self.charged(rest)))
    }

    fn finish_oversized(&mut self) -> Option<Line> {
        let Oversized { head, tail, length } = self.oversized.take()?;
        Some(Line::Oversized { head, tail, length })
    }
}

#[cfg(test)]
mod tests;
