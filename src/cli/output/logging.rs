//! The program's log on stderr or in a file, and the JSON log that `mcp-workbench logs` reads.

mod json_layer;

use std::fmt;
use std::io::{self, IsTerminal, Write};

use tracing::field::Field;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{self, FormatFields, debug_fn};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::args::GlobalArgs;
use crate::cli::output::error::CommandError;
use crate::cli::output::escape::escape_controls;
use crate::cli::output::logging::json_layer::JsonLayer;
use crate::cli::output::redaction::redact;
use crate::os::open_log;
use crate::telemetry;
use crate::telemetry::process_registry::ProcessFiles;

pub(crate) use crate::cli::output::logging::json_layer::LogLine;

/// Further lines are dropped while the reader of a log stalls.
const MAX_QUEUED_LINES: usize = 4096;

/// Flushes the log and deletes the JSON log file when dropped.
pub(crate) struct LogGuard {
    flush: Vec<WorkerGuard>,
    files: Option<ProcessFiles>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.flush.clear();
        if let Some(files) = &self.files {
            files.remove_log();
        }
    }
}

/// Installs the `tracing` subscriber. The guard flushes on drop, for at most 1.1 s. Writes never
/// Installs the `tracing` subscriber. The guard flushes on drop, for at most 1.1 s. Writes never
/// log for other processes.
///
/// The log of `rmcp` is limited to warnings, unless the level is more verbose than `info`.
pub(crate) fn init(
    global: &GlobalArgs,
    default: LevelFilter,
    files: Option<ProcessFiles>,
) -> Result<LogGuard, CommandError> {
    let level = global.log_level.unwrap_or(default);
    let mut filter = targets(level);
    if global.log_level.is_none() && default < LevelFilter::INFO {
        // Commands that start servers report failed starts themselves.
        filter = filter.with_target(telemetry::LOG_TARGET, LevelFilter::ERROR);
    }
    let (log, flush, is_terminal) = match &global.log_file {
        None => {
            let (log, flush) = non_blocking(io::stderr());
            (log, flush, io::stderr().is_terminal())
        }
        Some(path) => {
            let file = open_log(path).map_err(|error| {
                CommandError::usage(format!("failed to open the log file `{}`", path.display()))
                    .because(&error)
            })?;
            let (log, flush) = non_blocking(file);
            (log, flush, false)
        }
    };
    let layer =
        layer().with_writer(move || log.clone()).with_ansi(is_terminal).fmt_fields(fields());
    let mut flush = vec![flush];
    let mut kept = None;
    if let Some(files) = &files {
        let (log, its_flush) = non_blocking(files.log());
        flush.push(its_flush);
        kept = Some(JsonLayer::new(log).with_filter(targets(level.max(LevelFilter::INFO))));
    }
    tracing_subscriber::registry().with(layer.with_filter(filter)).with(kept).init();
    Ok(LogGuard { flush, files })
}

/// Starts a thread that writes to `stream`.
fn non_blocking(stream: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .buffered_lines_limit(MAX_QUEUED_LINES)
        .thread_name("log")
        .finish(stream)
}

fn targets(level: LevelFilter) -> Targets {
    let rmcp = if level > LevelFilter::INFO { level } else { level.min(LevelFilter::WARN) };
    let mut filter = Targets::new().with_default(level).with_target("rmcp", rmcp);
    // rmcp logs authorization codes and tokens under this target.
    filter = filter.with_target("rmcp::transport::auth", LevelFilter::OFF);
    // These log every connection, which only helps at `trace`.
    let http = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    for library in ["hyper", "hyper_util", "reqwest", "rustls"] {
        filter = filter.with_target(library, http);
    }
    filter
}

fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(field).delimited(" ")
}

fn field(writer: &mut format::Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = redact(&text);
    // Indent continuation lines: a line without indent starts with a timestamp.
    let text = escape_controls(&text).replace('\n', "\n    ");
    match field.name() {
        "message" => write!(writer, "{text}"),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{text}")
        }
        name => write!(writer, "{name}={text}"),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn never_logs_oauth_codes_or_tokens() {
        let everything = targets(LevelFilter::TRACE);
        assert!(everything.would_enable("rmcp::service", &Level::TRACE));
        for target in ["rmcp::transport::auth", "rmcp::transport::auth::metadata_resolver"] {
            assert!(!everything.would_enable(target, &Level::ERROR), "{target}");
        }
    }
}
