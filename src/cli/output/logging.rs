//! The program's log on stderr or in a file, and the JSON log that `mcp-workbench logs` reads.

mod layer;
mod line;
mod writer;

use std::io::{self, IsTerminal};
use std::sync::Arc;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::args::GlobalArgs;
use crate::cli::output::error::CommandError;
use crate::cli::output::logging::layer::LogLayer;
use crate::cli::output::logging::writer::{LogFormat, LogWriter};
use mcp_workbench_core::telemetry;
use mcp_workbench_core::telemetry::process_registry::ProcessFiles;
use mcp_workbench_os::open_log;

pub(crate) use crate::cli::output::logging::line::LogLine;

/// Flushes the log and deletes the JSON log file when dropped.
pub(crate) struct LogGuard {
    logs: Vec<(Arc<LogWriter>, WorkerGuard)>,
    files: Option<ProcessFiles>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        for (log, _) in &self.logs {
            log.report_dropped();
        }
        self.logs.clear();
        if let Some(files) = &self.files {
            files.remove_log();
        }
    }
}

/// Installs the `tracing` subscriber, which also writes to the log in `files`. Writes never block.
/// The guard flushes on drop, for at most 1.1 s.
///
/// The log of `rmcp` is limited to warnings, unless the level is more verbose than `info`.
pub(crate) fn init(
    global: &GlobalArgs,
    default: LevelFilter,
    files: Option<ProcessFiles>,
) -> Result<LogGuard, CommandError> {
    let level = global.log_level.unwrap_or(default);
    let mut text_filter = targets(level);
    if global.log_level.is_none() && default < LevelFilter::INFO {
        // Commands that start servers report failed starts themselves.
        text_filter = text_filter.with_target(telemetry::LOG_TARGET, LevelFilter::ERROR);
    }
    let (text, flush) = match &global.log_file {
        None => {
            let has_colors = io::stderr().is_terminal();
            LogWriter::start(io::stderr(), LogFormat::Text { has_colors })
        }
        Some(path) => {
            let file = open_log(path).map_err(|error| {
                CommandError::usage(format!("failed to open the log file `{}`", path.display()))
                    .because(&error)
            })?;
            LogWriter::start(file, LogFormat::Text { has_colors: false })
        }
    };
    let text = Arc::new(text);
    let mut logs = vec![(Arc::clone(&text), flush)];
    let (mut filter, mut json) = (text_filter.clone(), None);
    if let Some(files) = &files {
        let (log, flush) = LogWriter::start(files.log(), LogFormat::Json);
        let log = Arc::new(log);
        logs.push((Arc::clone(&log), flush));
        json = Some(log);
        filter = targets(level.max(LevelFilter::INFO));
    }
    let layer = LogLayer { text, text_filter, json };
    tracing_subscriber::registry().with(filter).with(layer).init();
    Ok(LogGuard { logs, files })
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
