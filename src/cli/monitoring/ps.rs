//! `ps`: lists the running servers of all workbenches of this user.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::cli::args::GlobalArgs;
use crate::cli::output::{
    Align, CommandError, Table, age, format_age, mebibytes, print, system_time,
};
use crate::cli::servers::running_workbenches::running_workbenches;
use mcp_workbench_core::backend::strip_stderr_tail;
use mcp_workbench_core::telemetry::process_registry::{
    ProcessAgentRecord, ProcessRecord, ProcessServerRecord, ServerRunState,
};
use mcp_workbench_os::ProcessMemory;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench ps
  mcp-workbench ps --json | jq '.[].servers[].pid'";

/// List running servers and who uses them
///
/// Lists the running workbenches of this user with their agents, their servers, and the servers that
/// failed to start. Memory includes all processes of a server's process group.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct WorkbenchRow<'a> {
    pid: u32,
    version: &'a str,
    since: u64,
    config: &'a str,
    endpoint: &'a str,
    mode: &'a str,
    memory_bytes: Option<u64>,
    agents: &'a [ProcessAgentRecord],
    servers: Vec<RunningServerRow<'a>>,
}

#[derive(Serialize)]
struct RunningServerRow<'a> {
    #[serde(flatten)]
    told: &'a ProcessServerRecord,
    memory_bytes: Option<u64>,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let all = running_workbenches(global)?;
    let servers = all.iter().flat_map(|record| &record.servers).filter_map(|server| server.pid);
    let memory = ProcessMemory::of(servers.chain(all.iter().map(|record| record.pid)));
    if args.json {
        let all: Vec<_> = all.iter().map(|record| in_json(record, &memory)).collect();
        print::json(&all)?;
    } else if all.is_empty() {
        print::note(&"no running workbench (`--unlisted` ones are hidden)");
    } else {
        print::prose(&table(&all, &memory))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_json<'a>(record: &'a ProcessRecord, memory: &ProcessMemory) -> WorkbenchRow<'a> {
    let server = |told: &'a ProcessServerRecord| RunningServerRow {
        told,
        memory_bytes: told.pid.and_then(|p| memory.group(p)),
    };
    WorkbenchRow {
        pid: record.pid,
        version: &record.version,
        since: record.since,
        config: &record.config,
        endpoint: &record.at,
        mode: &record.mode,
        memory_bytes: memory.process(record.pid),
        agents: &record.agents,
        servers: record.servers.iter().map(server).collect(),
    }
}

fn table(all: &[ProcessRecord], memory: &ProcessMemory) -> Table {
    let mut table = Table::new([
        ("PID", Align::Right),
        ("Server", Align::Left),
        ("State", Align::Left),
        ("Uptime", Align::Right),
        ("Memory", Align::Right),
        ("Used by", Align::Left),
    ]);
    for record in all {
        table.row([
            record.pid.to_string(),
            "workbench".to_owned(),
            "serving".to_owned(),
            ago(record.since),
            mebibytes(memory.process(record.pid)),
            agents_text(record),
        ]);
        for server in &record.servers {
            let state = match server.state {
                ServerRunState::Starting => "starting",
                ServerRunState::Running => "running",
                ServerRunState::Failed => "failed",
            };
            let reason = server.reason.as_deref().unwrap_or_default();
            table.row([
                server.pid.map(|pid| pid.to_string()).unwrap_or_default(),
                format!("  {}", server.server),
                state.to_owned(),
                ago(server.since),
                mebibytes(server.pid.and_then(|pid| memory.group(pid))),
                strip_stderr_tail(reason).lines().next().unwrap_or_default().to_owned(),
            ]);
        }
    }
    table
}

fn agents_text(record: &ProcessRecord) -> String {
    let agent = |agent: &ProcessAgentRecord| match (&agent.name, &agent.client) {
        (Some(name), Some(client)) if name != client => format!("{client} as `{name}`"),
        (Some(name), _) => format!("`{name}`"),
        (None, Some(client)) => client.clone(),
        (None, None) => "unnamed agent".to_owned(),
    };
    let mut agents: BTreeMap<String, usize> = BTreeMap::new();
    for told in &record.agents {
        *agents.entry(agent(told)).or_default() += 1;
    }
    let agents = agents.into_iter().map(|(agent, count)| match count {
        1 => agent,
        _ => format!("{agent} ×{count}"),
    });
    let agents: Vec<_> = agents.collect();
    let agents = if agents.is_empty() { "no agents".to_owned() } else { agents.join(", ") };
    format!("{agents}; {}, {}", record.at, record.config)
}

/// `since` is in seconds since the Unix epoch.
fn ago(since: u64) -> String {
    format_age(age(system_time(Duration::from_secs(since))))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn any_start_time_has_an_age() {
        for since in (0..=64).map(|bit| u64::MAX.checked_shr(bit).unwrap_or(0)) {
            assert!(!ago(since).is_empty(), "{since}");
        }
    }

    #[test]
    fn lists_agents_with_counts() {
        let agent = |name: Option<&str>, client: Option<&str>| ProcessAgentRecord {
            name: name.map(str::to_owned),
            client: client.map(str::to_owned),
            since: 0,
        };
        let mut record = ProcessRecord {
            at: "stdio".to_owned(),
            config: "w.json".to_owned(),
            ..ProcessRecord::default()
        };
        assert_eq!(agents_text(&record), "no agents; stdio, w.json");
        record.agents = vec![
            agent(None, Some("codex")),
            agent(Some("ann"), Some("claude-code")),
            agent(None, Some("codex")),
            agent(None, None),
        ];
        assert_eq!(
            agents_text(&record),
            "claude-code as `ann`, codex ×2, unnamed agent; stdio, w.json"
        );
    }
}
