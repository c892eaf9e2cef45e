//! The log: what the program does, to standard error or a file, never to standard output.

mod kept;
mod lossy;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::Global;
use crate::cli::error::Error;
use crate::cli::hidden::without_secrets;
use crate::cli::logging::kept::Kept;
use crate::cli::logging::lossy::{Flush, Lossy};
use crate::cli::visible::visible;
use crate::observe;
use crate::observe::running::Files;

pub(crate) use crate::cli::logging::kept::Line;

/// How long lines for others come together after others were written; standard error has each at once.
const TOGETHER: Duration = Duration::from_millis(20);

/// The log of this process, which is whole once this is dropped.
pub(crate) struct Log {
    /// The ends of its streams: ours, and the file for others.
    flush: Vec<Flush>,
    /// The file for others, which goes with us.
    files: Option<Files>,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush.clear();
        if let Some(files) = &self.files {
            files.remove_log();
        }
    }
}

/// Starts the log, which is whole once the result is dropped. Whoever is to read it may not read;
/// what it then misses holds up neither us nor our servers. The protocol library only gets to say
/// what goes wrong, unless more is asked for than `info`. With `files`, others can read it there.
pub(crate) fn start(
    global: &Global,
    default: LevelFilter,
    files: Option<Files>,
) -> Result<Log, Error> {
    let level = global.log_level.unwrap_or(default);
    let mut filter = targets(level);
    if global.log_level.is_none() && default < LevelFilter::INFO {
        // The commands that start servers say themselves which failed.
        filter = filter.with_target(observe::LOG_TARGET, LevelFilter::ERROR);
    }
    let (log, flush, is_terminal) = match &global.log_file {
        None => {
            let (log, flush) =
                Lossy::start(io::stderr(), Duration::ZERO).map_err(Error::internal)?;
            (log, flush, io::stderr().is_terminal())
        }
        Some(path) => {
            let file =
                OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                    Error::usage(format!("cannot write the log to `{}`", path.display()), &error)
                })?;
            let (log, flush) = Lossy::start(file, Duration::ZERO).map_err(Error::internal)?;
            (log, flush, false)
        }
    };
    let layer =
        layer().with_writer(move || log.clone()).with_ansi(is_terminal).fmt_fields(fields());
    let mut flush = vec![flush];
    let mut kept = None;
    if let Some(files) = &files {
        let (log, its_flush) = Lossy::start(files.log(), TOGETHER).map_err(Error::internal)?;
        flush.push(its_flush);
        kept = Some(Kept::new(log).with_filter(targets(level.max(LevelFilter::INFO))));
    }
    tracing_subscriber::registry().with(layer.with_filter(filter)).with(kept).init();
    Ok(Log { flush, files })
}

/// Returns the filter that logs at a level.
fn targets(level: LevelFilter) -> Targets {
    let rmcp = if level > LevelFilter::INFO { level } else { level.min(LevelFilter::WARN) };
    let mut filter = Targets::new().with_default(level).with_target("rmcp", rmcp);
    // It tells codes and tokens.
    filter = filter.with_target("rmcp::transport::auth", LevelFilter::OFF);
    // What they say of every connection is of use to those who want everything.
    let http = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    for library in ["hyper", "hyper_util", "reqwest", "rustls"] {
        filter = filter.with_target(library, http);
    }
    filter
}

/// Writes the fields of a line, without anything of servers that a terminal would obey.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(field).delimited(" ")
}

fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = without_secrets(&text);
    // What stands on a line of its own begins with the time.
    let text = visible(&text).replace('\n', "\n    ");
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
    fn codes_and_tokens_are_told_at_no_level() {
        let everything = targets(LevelFilter::TRACE);
        assert!(everything.would_enable("rmcp::service", &Level::TRACE));
        for target in ["rmcp::transport::auth", "rmcp::transport::auth::metadata_resolver"] {
            assert!(!everything.would_enable(target, &Level::ERROR), "{target}");
        }
    }
}
