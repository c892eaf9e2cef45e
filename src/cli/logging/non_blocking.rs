//! A writer with its own thread and a bounded queue, so that a stalled reader never blocks the
//! program. Lines that don't fit are dropped and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MAX_QUEUED_BYTES: usize = 1024 * 1024;
/// How long dropping the guard waits for queued lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    left_out: usize,
    /// `true` while the thread waits for a line.
    is_idle: bool,
    is_ending: bool,
}

#[derive(Default)]
struct WriterShared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer that takes whole lines and never blocks.
#[derive(Clone)]
pub(crate) struct NonBlocking(Arc<WriterShared>);

/// Waits at most `FLUSH_TIMEOUT` for queued lines when dropped.
pub(crate) struct FlushGuard(Arc<WriterShared>);

impl NonBlocking {
    /// Starts the thread that writes to `stream`. After each write it waits for `pause` and then
    /// writes the lines of that time together.
    pub(crate) fn start(
        stream: impl Write + Send + 'static,
        pause: Duration,
    ) -> io::Result<(Self, FlushGuard)> {
        let shared = Arc::new(WriterShared::default());
        let queue = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(stream, pause, &queue))?;
        Ok((Self(Arc::clone(&shared)), FlushGuard(shared)))
    }
}

impl Write for NonBlocking {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.lock();
        if queue.bytes + line.len() > MAX_QUEUED_BYTES {
            queue.left_out += 1;
            return Ok(line.len());
        }
        queue.bytes += line.len();
        queue.lines.push_back(line.to_vec());
        // Waking the thread for every line would cost more than the line itself.
        if mem::take(&mut queue.is_idle) {
            drop(queue);
            self.0.changed.notify_all();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_ending = true;
        self.0.changed.notify_all();
        let is_busy = |queue: &mut Queue| !queue.is_idle || !queue.lines.is_empty();
        // Lines that a stalled reader hasn't taken by now are lost.
        let _ = self.0.changed.wait_timeout_while(queue, FLUSH_TIMEOUT, is_busy);
    }
}

fn write(mut stream: impl Write, pause: Duration, shared: &WriterShared) {
    let mut queue = shared.lock();
    loop {
        if queue.lines.is_empty() {
            queue.is_idle = true;
            shared.changed.notify_all();
            let waiting = shared.changed.wait_while(queue, |queue| queue.lines.is_empty());
            queue = waiting.unwrap_or_else(PoisonError::into_inner);
            queue.is_idle = false;
        }
        queue.bytes = 0;
        let lines = mem::take(&mut queue.lines);
        let left_out = mem::take(&mut queue.left_out);
        drop(queue);
        // There is nowhere to report a log that can't be written.
        let _ = stream.write_all(&lines.into_iter().flatten().collect::<Vec<_>>());
        if left_out > 0 {
            let remark = format!("({left_out} log lines dropped)\n");
            let _ = stream.write_all(remark.as_bytes());
        }
        queue = shared.lock();
        if !pause.is_zero() {
            let paused = shared.changed.wait_timeout_while(queue, pause, |queue| !queue.is_ending);
            queue = paused.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use pretty_assertions::assert_eq;

    use super::*;

    struct Slow {
        writes: Sender<Vec<u8>>,
        leave: Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes.send(bytes.to_vec()).map_err(io::Error::other)?;
            self.leave.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn drops_and_counts_lines_when_the_reader_stalls() {
        let (writes, written) = channel();
        let (go, leave) = channel();
        let (mut log, flush) = NonBlocking::start(Slow { writes, leave }, Duration::ZERO).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(written.recv().unwrap(), b"first\n");
        let long = vec![b'x'; MAX_QUEUED_BYTES];
        for _ in 0..3 {
            log.write_all(&long).unwrap();
        }
        drop(flush);
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        assert_eq!(written.recv().unwrap(), long);
        assert_eq!(written.recv().unwrap(), b"(2 log lines dropped)\n");
    }

    #[test]
    fn batches_lines_and_flushes_without_delay_on_drop() {
        let (writes, written) = channel();
        let (go, leave) = channel();
        let pause = Duration::from_hours(1);
        let (mut log, flush) = NonBlocking::start(Slow { writes, leave }, pause).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(written.recv().unwrap(), b"first\n");
        go.send(()).unwrap();
        log.write_all(b"second\n").unwrap();
        log.write_all(b"third\n").unwrap();
        drop(flush);
        assert_eq!(written.recv().unwrap(), b"second\nthird\n");
    }
}
