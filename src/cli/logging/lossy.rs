//! A stream that is written by a thread of its own, so that a reader who does not read holds up
//! nobody: what finds no room is left out, and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many bytes may wait to be written.
const MAX_WAITING: usize = 1024 * 1024;
/// How long the end waits for what has not been written yet.
const LAST_LINES: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    left_out: usize,
    /// `true` if the thread sleeps until a line comes.
    is_idle: bool,
    is_ending: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes whole lines and never waits.
#[derive(Clone)]
pub(crate) struct Lossy(Arc<Shared>);

/// Waits a moment, when it is dropped, for what has not been written yet.
pub(crate) struct Flush(Arc<Shared>);

impl Lossy {
    /// Starts the thread that writes to `stream`. What comes within `pause` of what was written is written
    /// together.
    pub(crate) fn start(
        stream: impl Write + Send + 'static,
        pause: Duration,
    ) -> io::Result<(Self, Flush)> {
        let shared = Arc::new(Shared::default());
        let queue = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(stream, pause, &queue))?;
        Ok((Self(Arc::clone(&shared)), Flush(shared)))
    }
}

impl Write for Lossy {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.lock();
        if queue.bytes + line.len() > MAX_WAITING {
            queue.left_out += 1;
            return Ok(line.len());
        }
        queue.bytes += line.len();
        queue.lines.push_back(line.to_vec());
        // Waking it for each line would cost more than the line.
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

impl Drop for Flush {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_ending = true;
        self.0.changed.notify_all();
        let is_busy = |queue: &mut Queue| !queue.is_idle || !queue.lines.is_empty();
        // A reader who does not read gets no more of it.
        let _ = self.0.changed.wait_timeout_while(queue, LAST_LINES, is_busy);
    }
}

fn write(mut stream: impl Write, pause: Duration, shared: &Shared) {
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
        // A log that cannot be written has nowhere to say so.
        let _ = stream.write_all(&lines.into_iter().flatten().collect::<Vec<_>>());
        if left_out > 0 {
            let remark = format!("({left_out} lines of the log were left out)\n");
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

    /// Says what it is to write, then waits until it may go on.
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
    fn a_reader_who_does_not_read_holds_up_nobody_and_is_told_what_it_missed() {
        let (writes, written) = channel();
        let (go, leave) = channel();
        let (mut log, flush) = Lossy::start(Slow { writes, leave }, Duration::ZERO).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(written.recv().unwrap(), b"first\n");
        let long = vec![b'x'; MAX_WAITING];
        for _ in 0..3 {
            log.write_all(&long).unwrap();
        }
        drop(flush);
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        assert_eq!(written.recv().unwrap(), long);
        assert_eq!(written.recv().unwrap(), b"(2 lines of the log were left out)\n");
    }

    #[test]
    fn what_comes_in_the_pause_is_written_together_and_the_end_waits_for_no_pause() {
        let (writes, written) = channel();
        let (go, leave) = channel();
        // Longer than any test runs.
        let pause = Duration::from_hours(1);
        let (mut log, flush) = Lossy::start(Slow { writes, leave }, pause).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(written.recv().unwrap(), b"first\n");
        go.send(()).unwrap();
        log.write_all(b"second\n").unwrap();
        log.write_all(b"third\n").unwrap();
        drop(flush);
        assert_eq!(written.recv().unwrap(), b"second\nthird\n");
    }
}
