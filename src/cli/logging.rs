//! The log: what the program does, to standard error or a file, never to standard output.

mod lossy;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::Global;
use crate::cli::error::Error;
use crate::cli::logging::lossy::{Flush, Lossy};

/// Starts the log, which is whole once the result is dropped. Whoever is to read it may not read;
/// what it then misses holds up neither us nor our servers. The protocol library only gets to say
/// what goes wrong, unless more is asked for than `info`.
pub(crate) fn start(global: &Global, default: LevelFilter) -> Result<Flush, Error> {
    let level = global.log_level.unwrap_or(default);
    let rmcp = if level > LevelFilter::INFO { level } else { level.min(LevelFilter::WARN) };
    let mut filter = Targets::new().with_default(level).with_target("rmcp", rmcp);
    // What they say of every connection is of use to those who want everything.
    let http = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    for library in ["hyper", "hyper_util", "reqwest", "rustls"] {
        filter = filter.with_target(library, http);
    }
    if global.log_level.is_none() && default < LevelFilter::INFO {
        // The commands that start servers say themselves which failed.
        filter = filter.with_target("mcp_workbench::backend::actor", LevelFilter::ERROR);
    }
    let (log, flush, is_terminal) = match &global.log_file {
        None => {
            let (log, flush) = Lossy::start(io::stderr()).map_err(Error::internal)?;
            (log, flush, io::stderr().is_terminal())
        }
        Some(path) => {
            let file =
                OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                    Error::usage(format!("cannot write the log to `{}`", path.display()), &error)
                })?;
            let (log, flush) = Lossy::start(file).map_err(Error::internal)?;
            (log, flush, false)
        }
    };
    let layer = layer().with_writer(move || log.clone()).with_ansi(is_terminal);
    tracing_subscriber::registry().with(filter).with(layer).init();
    Ok(flush)
}
