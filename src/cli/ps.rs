//! `ps`: what runs now, in every workbench of this user that serves.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::cli::cache;
use crate::cli::error::Error;
use crate::cli::size::number;
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print};
use crate::observe::running::{self, Told, ToldAgent, ToldServer, ToldState};
use crate::os::Memory;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench ps
  mcp-workbench ps --json | jq '.[].servers[].pid'";

/// Show which servers run, for whom and since when
///
/// Shows every workbench of this user that serves, with the agents that are there, its servers, and
/// those that could not be started. Memory is that of a server's whole process group.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One workbench, for those who read JSON.
#[derive(Serialize)]
struct Workbench<'a> {
    pid: u32,
    version: &'a str,
    since: u64,
    config: &'a str,
    at: &'a str,
    mode: &'a str,
    memory_bytes: Option<u64>,
    agents: &'a [ToldAgent],
    servers: Vec<Server<'a>>,
}

#[derive(Serialize)]
struct Server<'a> {
    #[serde(flatten)]
    told: &'a ToldServer,
    memory_bytes: Option<u64>,
}

/// Shows what runs.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let folder = global.cache()?;
    let all = running::told(&folder).map_err(|error| {
        Error::failed("what runs cannot be found out").because(&error.to_string())
    })?;
    let servers = all.iter().flat_map(|told| &told.servers).filter_map(|server| server.pid);
    let memory = Memory::of(servers.chain(all.iter().map(|told| told.pid)));
    if args.json {
        let all: Vec<_> = all.iter().map(|told| in_json(told, &memory)).collect();
        print::json(&all)?;
    } else if all.is_empty() {
        print::note(&"no workbench is serving now, or none that may be seen (`--unlisted`)");
    } else {
        print::prose(&table(&all, &memory))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_json<'a>(told: &'a Told, memory: &Memory) -> Workbench<'a> {
    let server = |told: &'a ToldServer| Server {
        told,
        memory_bytes: told.pid.and_then(|p| memory.group(p)),
    };
    Workbench {
        pid: told.pid,
        version: &told.version,
        since: told.since,
        config: &told.config,
        at: &told.at,
        mode: &told.mode,
        memory_bytes: memory.process(told.pid),
        agents: &told.agents,
        servers: told.servers.iter().map(server).collect(),
    }
}

fn table(all: &[Told], memory: &Memory) -> Table {
    let mut table = Table::new([
        ("Pid", Align::Right),
        ("Server", Align::Left),
        ("State", Align::Left),
        ("Since", Align::Right),
        ("Memory", Align::Right),
        ("For", Align::Left),
    ]);
    for told in all {
        table.row([
            told.pid.to_string(),
            "workbench".to_owned(),
            "serving".to_owned(),
            ago(told.since),
            mebibytes(memory.process(told.pid)),
            whom(told),
        ]);
        for server in &told.servers {
            let state = match server.state {
                ToldState::Starting => "starting",
                ToldState::Running => "running",
                ToldState::Failed => "failed",
            };
            let reason = server.reason.as_deref().unwrap_or_default();
            table.row([
                server.pid.map(|pid| pid.to_string()).unwrap_or_default(),
                format!("  {}", server.server),
                state.to_owned(),
                ago(server.since),
                mebibytes(server.pid.and_then(|pid| memory.group(pid))),
                reason.lines().next().unwrap_or_default().to_owned(),
            ]);
        }
    }
    table
}

/// The agents that are there, how they come, and what they are served.
fn whom(told: &Told) -> String {
    let agent = |agent: &ToldAgent| match (&agent.name, &agent.client) {
        (Some(name), Some(client)) if name != client => format!("{client} as `{name}`"),
        (Some(name), _) => format!("`{name}`"),
        (None, Some(client)) => client.clone(),
        (None, None) => "an agent".to_owned(),
    };
    let mut agents: BTreeMap<String, usize> = BTreeMap::new();
    for told in &told.agents {
        *agents.entry(agent(told)).or_default() += 1;
    }
    let agents = agents.into_iter().map(|(agent, count)| match count {
        1 => agent,
        _ => format!("{agent} ({count} times)"),
    });
    let agents: Vec<_> = agents.collect();
    let agents = if agents.is_empty() { "nobody".to_owned() } else { agents.join(", ") };
    format!("{agents}; {}, {}", told.at, told.config)
}

/// How long ago a time was that is in seconds since 1970.
fn ago(since: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
    cache::in_words(cache::age(time))
}

fn mebibytes(bytes: Option<u64>) -> String {
    let whole = |bytes: u64| usize::try_from(bytes.div_ceil(1024 * 1024)).unwrap_or(usize::MAX);
    bytes.map(|bytes| format!("{} MB", number(whole(bytes)))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn says_for_whom_servers_run() {
        let agent = |name: Option<&str>, client: Option<&str>| ToldAgent {
            name: name.map(str::to_owned),
            client: client.map(str::to_owned),
            since: 0,
        };
        let mut told =
            Told { at: "stdio".to_owned(), config: "w.json".to_owned(), ..Told::default() };
        assert_eq!(whom(&told), "nobody; stdio, w.json");
        told.agents = vec![
            agent(None, Some("codex")),
            agent(Some("ann"), Some("claude-code")),
            agent(None, Some("codex")),
            agent(None, None),
        ];
        assert_eq!(whom(&told), "an agent, claude-code as `ann`, codex (2 times); stdio, w.json");
    }
}
