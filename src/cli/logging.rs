//! The log: what the program does, to standard error or a file, never to standard output.

mod lossy;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::Global;
use crate::cli::error::Error;
use crate::cli::logging::lossy::{Flush, Lossy};

/// Starts the log, which is whole once the result is dropped. A client may not read our standard
/// error; what it then misses holds up neither us nor our servers. The protocol library only gets to say what goes wrong, unless more is asked
/// for than `info`.
pub(crate) fn start(global: &Global, default: LevelFilter) -> Result<Option<Flush>, Error> {
    let level = global.log_level.unwrap_or(default);
    let rmcp = if level > LevelFilter::INFO { level } else { level.min(LevelFilter::WARN) };
    let mut filter = Targets::new().with_default(level).with_target("rmcp", rmcp);
    if global.log_level.is_none() && default < LevelFilter::INFO {
        // The commands that start servers say themselves which failed.
        filter = filter.with_target("mcp_workbench::backend::actor", LevelFilter::ERROR);
    }
    let registry = tracing_subscriber::registry().with(filter);
    match &global.log_file {
        None => {
            let is_terminal = io::stderr().is_terminal();
            let (log, flush) = Lossy::start(io::stderr()).map_err(Error::internal)?;
            let log = move || log.clone();
            registry.with(layer().with_writer(log).with_ansi(is_terminal)).init();
            Ok(Some(flush))
        }
        Some(path) => {
            let file =
                OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                    Error::usage(format!("cannot write the log to `{}`", path.display()), &error)
                })?;
            registry.with(layer().with_writer(Mutex::new(file)).with_ansi(false)).init();
            Ok(None)
        }
    }
}
