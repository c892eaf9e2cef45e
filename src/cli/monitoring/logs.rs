//! `logs`: shows the logs of servers and of running workbenches.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use chrono::SecondsFormat;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::output::logging::LogLine;
use crate::cli::output::{CommandError, did_you_mean, format_time, print, system_time};
use crate::cli::servers::server_names::all_names;
use mcp_workbench_core::telemetry::process_registry::logs::{LogFile, LogReader, list_logs};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench logs                 Show recent lines of all logs
  mcp-workbench logs desk/clock -f   Follow the log of one server";

/// The poll interval of `--follow`.
const PAUSE: Duration = Duration::from_millis(200);

/// Show the logs of servers and running workbenches
///
/// Includes what servers write to stderr, and logs of workbenches that were killed. A log holds at
/// most 2 MiB and is deleted when its workbench exits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this server, as `server` or `toolbox/server` [default: all]
    #[arg(add = ArgValueCandidates::new(completion::servers))]
    server: Option<String>,
    /// Keep printing new lines
    #[arg(long, short)]
    follow: bool,
    /// Number of recent lines
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    lines: usize,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let folder = global.resolve_cache_dir()?;
    let mut readers = LogReaders::default();
    let found = readers.read(&folder, args)?;
    if readers.0.is_empty() && !args.follow {
        return Err(CommandError::failed("no logs: no workbench is running")
            .with_hint("workbenches started with `--unlisted` have no log here"));
    }
    let first = found.len().saturating_sub(args.lines);
    if !show(&found[first..], &readers, args)? {
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty()
        && !args.follow
        && let Some(server) = &args.server
    {
        return Err(no_lines(global, server));
    }
    if args.follow {
        follow(&folder, &mut readers, args)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn no_lines(global: &GlobalArgs, wanted: &str) -> CommandError {
    let known: Vec<String> = match global.read() {
        Ok(loaded) => all_names(&loaded.config),
        // Logs can also be of another configuration.
        Err(_) => Vec::new(),
    };
    if known.is_empty() || known.iter().any(|name| name == wanted) {
        return CommandError::failed(format!("no log lines from server `{wanted}`"))
            .with_hint("run `mcp-workbench ps` to list running servers");
    }
    let error = CommandError::failed(format!("there is no server `{wanted}`"));
    let near = mcp_workbench_names::nearest(wanted, known.iter().map(String::as_str), 3);
    let otherwise = || "run `mcp-workbench check` to see all servers".to_owned();
    error.with_hint(did_you_mean(&near, " or ").unwrap_or_else(otherwise))
}

fn follow(folder: &Path, readers: &mut LogReaders, args: &Args) -> Result<(), CommandError> {
    loop {
        thread::sleep(PAUSE);
        let found = readers.read(folder, args)?;
        if !show(&found, readers, args)? {
            return Ok(());
        }
    }
}

#[derive(Default)]
struct LogReaders(BTreeMap<LogFile, LogReader>);

impl LogReaders {
    fn read(&mut self, folder: &Path, args: &Args) -> Result<Vec<(u32, LogLine)>, CommandError> {
        let found = list_logs(folder)
            .map_err(|error| CommandError::failed("failed to read the logs").because(&error))?;
        let mut lines = Vec::new();
        for log in &found {
            self.0.entry(log.clone()).or_insert_with(|| LogReader::new(log));
        }
        for (log, reader) in &mut self.0 {
            let read = reader.lines().into_iter();
            let read = read.filter_map(|line| serde_json::from_slice::<LogLine>(&line).ok());
            lines.extend(read.filter(|line| is_wanted(line, args)).map(|line| (log.pid, line)));
        }
        // These logs have been read to their end above.
        self.0.retain(|log, _| found.contains(log));
        lines.sort_by_key(|(_, line)| line.ms);
        Ok(lines)
    }
}

fn is_wanted(line: &LogLine, args: &Args) -> bool {
    let Some(wanted) = &args.server else { return true };
    let said = line.server.as_deref().unwrap_or_default();
    said == wanted || said.rsplit_once('/').is_some_and(|(_, server)| server == wanted)
}

/// Prints lines. Returns `false` if stdout is closed.
fn show(lines: &[(u32, LogLine)], readers: &LogReaders, args: &Args) -> Result<bool, CommandError> {
    for (pid, line) in lines {
        let text = if args.json {
            serde_json::to_string(line).map_err(CommandError::internal)?
        } else {
            format_line(line, (readers.0.len() > 1).then_some(*pid))
        };
        if !print::try_line(&text)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn format_line(line: &LogLine, pid: Option<u32>) -> String {
    let LogLine { ms, level, server, is_stderr, text } = line;
    let time = format_time(system_time(Duration::from_millis(*ms)), SecondsFormat::Millis);
    let pid = pid.map(|pid| format!(" [{pid}]")).unwrap_or_default();
    let server = server.as_ref().map(|server| format!(" {server}")).unwrap_or_default();
    if *is_stderr {
        format!("{time}{pid}{server} | {text}")
    } else {
        format!("{time}{pid} {level}{server}: {text}")
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn formats_time_process_level_and_server() {
        let line = |server: Option<&str>, is_stderr| LogLine {
            ms: 1_000,
            level: "WARN".to_owned(),
            server: server.map(str::to_owned),
            is_stderr,
            text: "hello".to_owned(),
        };
        assert_eq!(
            format_line(&line(Some("a/b"), true), None),
            "1970-01-01T00:00:01.000Z a/b | hello"
        );
        for ms in [u64::MAX, u64::MAX >> 1, 1 << 53] {
            let line = LogLine { ms, ..line(None, false) };
            assert!(format_line(&line, None).ends_with("WARN: hello"), "{ms}");
        }
        assert_eq!(
            format_line(&line(None, false), Some(7)),
            "1970-01-01T00:00:01.000Z [7] WARN: hello"
        );
    }
}
