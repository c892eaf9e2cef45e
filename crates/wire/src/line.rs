//! Splits a byte stream into lines of bounded length. Reads are cancel safe.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::memory_pool::{MemoryConsumer, MemoryReservation};

/// Initial read size in bytes. The buffer doubles for longer messages.
const FIRST_READ: usize = 8 * 1024;
/// Minimum spare capacity in bytes for reading the start of a line.
const SHORT_READ: usize = 1024;
/// Buffers larger than this are freed once they are empty, so one long message doesn't pin its
/// memory.
const KEPT_BUFFER: usize = 256 * 1024;
/// Bytes stored of each end of an oversized line, to recover the message id from.
pub(crate) const KEPT_EDGE: usize = 512;

/// Cost after which the reader yields to other tasks, even if more input is ready. A byte costs 1
/// and a line `LINE_COST` more.
const TURN: usize = 32 * 1024;
const LINE_COST: usize = 1024;

/// A piece of the input, returned by `LineReader::next`.
#[derive(Debug, PartialEq, Eq)]
pub enum InputLine {
    /// A whole line, without its line ending.
    Message(Bytes),
    /// A line that exceeds the limit, or got no memory in time. Only its edges are stored.
    Oversized {
        /// The first bytes of the line.
        head: Vec<u8>,
        /// The last bytes of the line.
        tail: Vec<u8>,
        /// Length of the line in bytes.
        length: usize,
        /// `true` if the line is within the limit, but got no memory in time.
        lacks_memory: bool,
    },
}

/// Reads lines of at most `max` bytes and yields to other tasks between them.
///
/// [`LineReader::next`] is cancel safe: dropping its future loses no input.
pub struct LineReader<R> {
    reader: R,
    buffer: BytesMut,
    /// Length of the buffer's prefix that is known to hold no line ending.
    scanned: usize,
    max: usize,
    /// Cost since the last yield.
    spent: usize,
    /// Set while the rest of an oversized line is skipped.
    oversized: Option<OversizedMessage>,
    lacks_memory: bool,
    account: MemoryConsumer,
    charge: MemoryReservation,
    /// How long a line waits for memory; `None` for no limit.
    patience: Option<Duration>,
}

/// The edges and the length of a message that exceeds the limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OversizedMessage {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    /// Bytes seen so far.
    pub(crate) length: usize,
}

impl OversizedMessage {
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
        let (account, charge) = (MemoryConsumer::default(), MemoryReservation::default());
        Self {
            reader,
            buffer,
            scanned: 0,
            max,
            spent: 0,
            oversized,
            lacks_memory: false,
            account,
            charge,
            patience: None,
        }
    }

    /// Charges the buffer to a memory pool: reading waits until the pool has room.
    #[must_use]
    pub fn with_consumer(self, account: MemoryConsumer) -> Self {
        Self { charge: account.charge(), account, ..self }
    }

    /// Skips a line if the pool has released no memory of the consumer for this time.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Returns the next line that isn't blank, or `None` at the end of input.
    ///
    /// A last line without a line ending counts. A read error ends the input.
    pub async fn next(&mut self) -> Option<InputLine> {
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
            // The rest of a buffer that holds earlier lines is enough for another short line.
            let wanted = if self.buffer.is_empty() { SHORT_READ } else { FIRST_READ };
            if self.buffer.capacity() - self.buffer.len() < wanted.max(self.buffer.len()) {
                let held = self.buffer.len();
                // No message exceeds `max`, so the buffer needn't either.
                let most = self.max.saturating_add(2 * FIRST_READ);
                let wanted = held.saturating_mul(2).min(most).max(held + FIRST_READ);
                if !self.get_memory(wanted).await {
                    self.oversized = Some(OversizedMessage::default());
                    self.lacks_memory = true;
                    self.scanned = 0;
                    continue;
                }
                self.buffer.reserve(wanted - held);
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return self.take_rest(),
                Ok(read) => self.spent += read,
            }
        }
    }

    async fn get_memory(&mut self, bytes: usize) -> bool {
        if let Some(patience) = self.patience {
            return self.charge.grow_timeout(bytes, patience).await;
        }
        self.charge.grow(bytes).await;
        true
    }

    /// Moves the buffer's reservation to `line`, which is a slice of it, and continues in a new
    /// buffer.
    fn charged(&mut self, line: Bytes) -> Bytes {
        if !self.charge.is_tracked() {
            return line;
        }
        self.buffer = BytesMut::from(&self.buffer[..]);
        std::mem::replace(&mut self.charge, self.account.charge()).attach_to(line)
    }

    fn take_line(&mut self) -> Option<InputLine> {
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
                        return Some(InputLine::Message(self.charged(line)));
                    }
                }
                None if self.buffer.len() <= self.max => {
                    self.scanned = self.buffer.len();
                    return None;
                }
                _ => {
                    self.oversized = Some(OversizedMessage::default());
                    self.scanned = 0;
                }
            }
        }
    }

    fn take_rest(&mut self) -> Option<InputLine> {
        self.scanned = 0;
        if self.oversized.is_some() {
            return self.finish_oversized();
        }
        let rest = self.buffer.split().freeze();
        (!rest.trim_ascii().is_empty()).then(|| InputLine::Message(self.charged(rest)))
    }

    fn finish_oversized(&mut self) -> Option<InputLine> {
        let OversizedMessage { head, tail, length } = self.oversized.take()?;
        let lacks_memory = std::mem::take(&mut self.lacks_memory);
        Some(InputLine::Oversized { head, tail, length, lacks_memory })
    }
}

#[cfg(test)]
mod tests;
