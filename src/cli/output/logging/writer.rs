//! A log that is written by a thread, so that logging never blocks.

use std::io::Write;

use parking_lot::Mutex;
use tracing::Level;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

use crate::cli::output::logging::line::LogFields;

/// Further lines are dropped while the reader of a log stalls.
const MAX_QUEUED_LINES: usize = 4096;

/// Queues lines for the thread. If lines were dropped, the next line reports their number.
pub(super) struct LogWriter {
    queue: Mutex<LogQueue>,
    format: LogFormat,
}

#[derive(Clone, Copy)]
pub(super) enum LogFormat {
    Text { has_colors: bool },
    Json,
}

struct LogQueue {
    lines: NonBlocking,
    /// The dropped lines that were reported.
    reported: usize,
}

impl LogWriter {
    /// Starts the thread. The guard stops it, after it has written the queued lines.
    pub(super) fn start(
        stream: impl Write + Send + 'static,
        format: LogFormat,
    ) -> (Self, WorkerGuard) {
        Self::with_capacity(MAX_QUEUED_LINES, stream, format)
    }

    fn with_capacity(
        most: usize,
        stream: impl Write + Send + 'static,
        format: LogFormat,
    ) -> (Self, WorkerGuard) {
        let builder = NonBlockingBuilder::default().buffered_lines_limit(most).thread_name("log");
        let (lines, guard) = builder.finish(stream);
        (Self { queue: Mutex::new(LogQueue { lines, reported: 0 }), format }, guard)
    }

    pub(super) fn write(&self, fields: &LogFields, level: Level, target: &str) {
        self.queue(self.format.line(fields, level, target));
    }

    /// Reports the dropped lines that no line has reported.
    pub(super) fn report_dropped(&self) {
        self.queue(String::new());
    }

    fn queue(&self, mut line: String) {
        let queue = &mut *self.queue.lock();
        let count = queue.lines.error_counter();
        let dropped = count.dropped_lines();
        if dropped > queue.reported {
            let lines = dropped - queue.reported;
            let message = format!("dropped {lines} log lines, the log is read too slowly");
            let report = LogFields::of_message(message);
            line.insert_str(0, &self.format.line(&report, Level::WARN, module_path!()));
        }
        if line.is_empty() {
            return;
        }
        // Queues all or nothing, and never fails.
        let _ = queue.lines.write_all(line.as_bytes());
        if count.dropped_lines() == dropped {
            queue.reported = dropped;
        }
    }
}

impl LogFormat {
    fn line(self, fields: &LogFields, level: Level, target: &str) -> String {
        match self {
            Self::Text { has_colors } => fields.to_text(level, target, has_colors),
            Self::Json => {
                let line = serde_json::to_string(&fields.to_json(level, target));
                line.map_or_else(|_| String::new(), |line| line + "\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Sends each write to the test, then waits until it may continue.
    struct SlowStream {
        writes: Sender<String>,
        go_on: Receiver<()>,
    }

    impl Write for SlowStream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.writes.send(text).map_err(io::Error::other)?;
            self.go_on.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // invariant: telemetry-never-blocks
    #[test]
    fn next_line_reports_dropped_lines_once() {
        let (writes, written) = channel();
        let (go, go_on) = channel();
        let stream = SlowStream { writes, go_on };
        let format = LogFormat::Text { has_colors: false };
        let (log, _guard) = LogWriter::with_capacity(2, stream, format);
        let write = |text: &str| {
            log.write(&LogFields::of_message(text.to_owned()), Level::INFO, "t");
        };
        write("first");
        assert!(written.recv().unwrap().ends_with(" INFO t: first\n"));
        // The thread waits for the stream, and two lines find room in the queue.
        for text in ["second", "third", "fourth", "fifth"] {
            write(text);
        }
        for text in ["second", "third"] {
            go.send(()).unwrap();
            assert!(written.recv().unwrap().ends_with(&format!(": {text}\n")));
        }
        write("sixth");
        write("seventh");
        go.send(()).unwrap();
        let lines = written.recv().unwrap();
        let (report, line) = lines.split_once('\n').unwrap();
        assert!(report.ends_with(": dropped 2 log lines, the log is read too slowly"), "{report}");
        assert!(line.ends_with(" INFO t: sixth\n"), "{line}");
        drop(go);
        assert!(written.recv().unwrap().ends_with(" INFO t: seventh\n"));
    }
}
