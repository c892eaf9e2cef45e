//! `check`: whether the configuration can be used, and its servers be started.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::cli::error::Error;
use crate::cli::global::noted;
use crate::cli::misleading::Remarks;
use crate::cli::servers::{self, Start};
use crate::cli::size::{Size, count, number};
use crate::cli::table::{Align, Table};
use crate::cli::values::Everything;
use crate::cli::{Global, print, remarks, versions, with_gateway, without_rules};
use crate::config::{self, Dialect, LoadError, Loaded, Severity};
use crate::gateway::{Gateway, Snapshot};
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::policy::{Heed, Policies};
use crate::settings::{Config, Launch, ServerConfig, ToolboxConfig};

mod cells;
mod definitions;
mod encrypted;
mod missing;
mod report;
mod service;
mod store;
mod talkative;

use report::{Finding, Report, Row, Status};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench check                         Look for mistakes; start nothing
  mcp-workbench check --connect               Start every server, and say what became of it
  mcp-workbench check --config other.json --json
  mcp-workbench check --config catalog        Look through a folder with a file for each tool";

/// Check the configuration, and with --connect its servers
///
/// Without `--connect` nothing is started, and no command run for a value; a program that is not there is told of, and names that
/// collide, and rules that mean no tool, are told as far as it is kept what servers have listed. With
/// it, every server is started once, all at the same
/// time, and reported with its tools, the size of their definitions and how long it took; one that
/// fails does not spoil the others. Tokens are an estimate, one for 4.5 bytes. With `--agent`, all of
/// this is about what that agent may use. Definitions that could mislead a model (hidden characters,
/// orders, requests for secrets, look-alike names) are remarked on, which changes no exit code.
///
/// The files of a catalog's tools are read, all of them, and those of `http.tls`. With `--connect`, the
/// store that `shared` names is tried out as well. Exits with 0 if all is well, 1 if a server or the
/// store failed, an entry is wrong or such a file is broken, 2 if the configuration cannot be used.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Start every server and report on it
    #[arg(long)]
    connect: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks; fails where a server could not be started.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    // Commands are the user's to run, so they are run with the servers that want what they print.
    let read = if args.connect { global.read_with(&Everything)? } else { global.read()? };
    let loaded = if args.json {
        match read {
            Ok(loaded) => loaded,
            Err(LoadError::Invalid(report)) => {
                print::json(&Report::invalid(&report))?;
                return Ok(ExitCode::from(2));
            }
            Err(error) => return Err(Error::config(error)),
        }
    } else {
        noted(read)?
    };
    let is_broken = loaded.has_errors();
    let Loaded { config, dialect, mut disabled, mut warnings, file, unasked: _ } = loaded;
    let agent = global.caller().agent;
    let mut service = if agent.is_some() { Vec::new() } else { service::lines(&config) };
    // Without an agent, all servers are looked at; else what that agent may use, and nothing else.
    let rules = agent.is_none().then(|| config.clone());
    let config = if agent.is_some() { config } else { without_rules(config) };
    if agent.is_some() {
        disabled.clear();
    }
    let config = Arc::new(config);
    let seen = Policies::new(Arc::clone(&config)).seen_by(agent.as_ref(), None);
    let mut files = tools_of_catalog(global, &seen, dialect)?;
    if let Some(config) = &rules {
        let (line, faults) = beside_servers(config, args.connect)?;
        service.extend(line);
        files.extend(faults);
    }
    let has_broken = files.iter().any(|finding| finding.severity == Severity::Error);
    tell(args, &mut warnings, &file, files);
    let mode = seen.mode.as_str();
    let owner = dialect.owner().map(|owner| format!(", a file of {owner},"));
    let head = format!(
        "`{file}`{} can be used{}: {} with {}, mode `{mode}`",
        owner.unwrap_or_default(),
        agent.map(|agent| format!(" by agent `{agent}`")).unwrap_or_default(),
        count(seen.toolboxes.len(), "toolbox"),
        count(seen.toolboxes.iter().map(|t| t.launched().count()).sum(), "server"),
    );
    let Looked { mut servers, reached, failures, not_shown, talkative, said } =
        with_gateway(global, Arc::unwrap_or_clone(config), async |gateway| {
            look(global, args, rules.as_ref(), gateway).await
        })?;
    let mut remarks = match &rules {
        Some(config) => {
            let mut found = remarks::findings(global, config)?;
            // A file alone is not the place for it: most begin without versions.
            if args.connect {
                found.extend(versions::findings(config));
            }
            found
        }
        None => Vec::new(),
    };
    remarks.extend(talkative);
    if !args.json {
        remarks.extend(said.iter().flat_map(Remarks::findings));
    }
    tell(args, &mut warnings, &file, remarks);
    servers.extend(disabled.iter().map(|(toolbox, server)| Row::new(toolbox, server)));
    let has_failed = (args.connect && !failures.is_empty()) || has_broken || is_broken;
    if args.json {
        print::json(&Report {
            file: &file,
            is_valid: true,
            dialect: Some(dialect.as_str()),
            mode: Some(mode),
            findings: warnings.iter().map(Finding::new).collect(),
            servers,
            not_shown,
            remarks: said.iter().flat_map(Remarks::rows).collect(),
            more_remarks: said.iter().map(Remarks::more).sum(),
        })?;
    } else {
        let mut sections = vec![head];
        sections.extend(nothing_to_serve(&servers));
        if args.connect {
            sections.push(started_table(&servers).to_string());
            sections.push(summary(&servers));
            sections.extend((!reached.is_empty()).then(|| reached.join("\n")));
        } else {
            sections.push(configured_table(&servers).to_string());
        }
        if !service.is_empty() {
            sections.push(service.join("\n"));
        }
        sections.extend(not_shown.iter().map(|what| format!("warning: {what}")));
        sections.extend(failures);
        print::prose(&sections.join("\n\n"))?;
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The servers of a configuration, as far as one looks.
struct Looked {
    servers: Vec<Row>,
    /// The files and addresses that servers in a sandbox reach.
    reached: Vec<String>,
    failures: Vec<String>,
    not_shown: Vec<String>,
    /// Servers whose answers may be long.
    talkative: Vec<config::Finding>,
    /// Remarks on what they say of themselves.
    said: Vec<Remarks>,
}

/// Looks at the servers of a gateway, and starts them if that is wanted. `rules` is the whole configuration, where no agent
/// is meant.
async fn look(global: &Global, args: &Args, rules: Option<&Config>, gateway: &Gateway) -> Looked {
    let (servers, reached, failures) = if args.connect {
        let (mut rows, failures) = connect(gateway).await;
        let reached = cells::mark(global, gateway.config(), &mut rows);
        (rows, reached, failures)
    } else {
        gateway.recalled().await;
        let mut rows = configured(gateway.config());
        let failures = missing::mark(gateway.config(), &mut rows);
        (rows, Vec::new(), failures)
    };
    let snapshot = gateway.snapshot();
    let rules = rules.filter(|_| args.connect);
    let talkative = rules.map(|config| talkative::findings(config, &snapshot));
    let said = args.connect.then(|| definitions::look(gateway.config(), &snapshot));
    Looked {
        servers,
        reached,
        failures,
        not_shown: not_shown(gateway.config(), &snapshot),
        talkative: talkative.unwrap_or_default(),
        said: said.unwrap_or_default(),
    }
}

/// Tells of findings at once, or keeps them for what is printed as JSON.
fn tell(args: &Args, kept: &mut Vec<config::Finding>, file: &str, findings: Vec<config::Finding>) {
    if args.json {
        kept.extend(findings);
    } else if !findings.is_empty() {
        print::note(&config::Report { file: file.to_owned(), findings });
    }
}

/// Looks at what serving needs besides servers: a line on the store if it was tried, and what is wrong.
fn beside_servers(
    config: &Config,
    connects: bool,
) -> Result<(Option<String>, Vec<config::Finding>), Error> {
    let (line, fault) = match store::tried(config, connects)? {
        Ok(line) => (line, None),
        Err(fault) => (None, Some(fault)),
    };
    Ok((line, encrypted::fault(config).into_iter().chain(fault).collect()))
}

/// Says so where no server is on.
fn nothing_to_serve(servers: &[Row]) -> Option<String> {
    let is_off = servers.iter().all(|server| server.status == Status::Disabled);
    let why = if servers.is_empty() { "no servers" } else { "every server is disabled" };
    is_off.then(|| format!("{why}: there is nothing to serve"))
}

/// Reports faults and oddities in the files of a catalog's tools, which serving would not read yet.
fn tools_of_catalog(
    global: &Global,
    config: &Config,
    dialect: Dialect,
) -> Result<Vec<config::Finding>, Error> {
    let Some(catalog) = &config.navigator.catalog else { return Ok(Vec::new()) };
    if dialect == Dialect::Catalog {
        return Ok(config::check_catalog_tools(catalog, ""));
    }
    let file = global.config_file()?;
    let inside = file.parent().and_then(|folder| catalog.folder.strip_prefix(folder).ok());
    let shown = inside.unwrap_or(&catalog.folder).display().to_string();
    Ok(config::check_catalog_tools(catalog, &shown))
}

/// The servers as they are configured.
fn configured(config: &Config) -> Vec<Row> {
    let of = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        let mut row = Row::new(&toolbox.name, &server.name);
        match &server.launch {
            Launch::Stdio(launch) => {
                row.status = Status::Configured;
                row.command = Some(program(&launch.command));
            }
            Launch::Http(launch) => {
                row.status = Status::Configured;
                // The rest of an address may hold a secret.
                row.command = Some(launch.url.origin().ascii_serialization());
            }
            Launch::Unsupported { reason, hint } => {
                row.status = Status::Unsupported;
                row.reason = Some(reason.clone());
                row.hint = Some(hint.clone());
            }
            Launch::Broken { reason, hint } => {
                row.status = Status::Failed;
                row.reason = Some(reason.clone());
                row.hint = Some(hint.clone());
            }
            Launch::Macros(macros) => {
                row.status = Status::Configured;
                row.command = Some(count(macros.len(), "macro"));
            }
        }
        row
    };
    let toolboxes = config.toolboxes.iter();
    toolboxes
        .flat_map(|toolbox| toolbox.servers.iter().map(move |server| of(toolbox, server)))
        .collect()
}

/// A command without the folder it is in.
fn program(command: &str) -> String {
    let name = Path::new(command).file_name();
    name.map_or(command.into(), OsStr::to_string_lossy).into()
}

/// Starts every server; what came of each, and why those that failed did.
async fn connect(gateway: &Gateway) -> (Vec<Row>, Vec<String>) {
    let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
    let starts = servers::start(gateway, &toolboxes, |_| true).await;
    let snapshot = gateway.snapshot();
    let mut servers = configured(gateway.config());
    for (row, start) in servers.iter_mut().zip(&starts) {
        if row.status == Status::Configured {
            row.start_ms = Some(start.took.as_millis());
        }
        match &start.failure {
            None => {
                let (tools, size) = shown(&snapshot, &start.toolbox, &start.server);
                row.status = Status::Started;
                row.tools = Some(tools);
                row.size = Some(size);
            }
            Some(failure) => {
                if row.status == Status::Configured {
                    row.status =
                        if failure.wants_sign_in { Status::WantsSignIn } else { Status::Failed };
                }
                row.reason = Some(failure.reason.clone());
                row.hint = Some(failure.hint.clone());
            }
        }
    }
    (servers, starts.iter().filter_map(Start::explanation).collect())
}

/// The primitives that are known and not shown: something else has the name, or a macro calls what is
/// not there.
fn not_shown(config: &Config, snapshot: &Snapshot) -> Vec<String> {
    let eclipsed = config.toolboxes.iter().flat_map(|toolbox| {
        let view = snapshot.view(&toolbox.name);
        let eclipsed = view.parts().iter().flat_map(|part| {
            part.eclipsed.iter().map(|(own, name)| {
                let place = format!("{}/{}", toolbox.name, part.server());
                format!("tool `{own}` of `{place}` is not shown: another is called `{name}`")
            })
        });
        eclipsed.collect::<Vec<_>>()
    });
    let discarded = snapshot.namespaced().discarded.iter().map(ToString::to_string);
    let lacking = snapshot.lacking().iter().map(ToString::to_string);
    eclipsed.chain(discarded).chain(lacking).chain(drifted(config, snapshot)).collect()
}

/// The servers with definitions that are not as the lock has them, and what helps.
fn drifted(config: &Config, snapshot: &Snapshot) -> Vec<String> {
    let drifted = config.servers().filter_map(|(toolbox, server)| {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let judged = snapshot.drift(&at)?;
        let becomes = match judged.heed {
            Heed::Serve => "and are served all the same",
            Heed::LeaveOut => "and what is new or changed is not shown",
            Heed::Close => "so the server is not opened",
        };
        let what = count(judged.drift.len(), "definition");
        Some(format!(
            "{what} of `{}/{}` not as `workbench.lock` has them, {becomes} (`definitions`): see \
             `mcp-workbench lock --diff`, and take it over with `{}`",
            toolbox.name,
            server.name,
            judged.accepting()
        ))
    });
    drifted.collect()
}

/// How many tools of a server an agent can see, and how large their definitions are.
fn shown(snapshot: &Snapshot, toolbox: &ToolboxName, server: &ServerName) -> (usize, Size) {
    let view = snapshot.view(toolbox);
    let tools = view.tools_of(server).iter();
    let sizes: Vec<_> = tools.map(|tool| Size::of(tool.definition.raw.len())).collect();
    (sizes.len(), sizes.into_iter().sum())
}

fn configured_table(servers: &[Row]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("Command", Align::Left),
        ("Status", Align::Left),
    ]);
    for server in servers {
        table.row([
            server.toolbox.clone(),
            server.server.clone(),
            server.command.clone().unwrap_or_default(),
            server.status.to_string(),
        ]);
    }
    table
}

fn started_table(servers: &[Row]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("Tools", Align::Right),
        ("Bytes", Align::Right),
        ("Tokens", Align::Right),
        ("Start in ms", Align::Right),
        ("Status", Align::Left),
    ]);
    for server in servers {
        let size = |of: fn(Size) -> usize| server.size.map(|size| number(of(size)));
        table.row([
            server.toolbox.clone(),
            server.server.clone(),
            server.tools.map(number).unwrap_or_default(),
            size(Size::bytes).unwrap_or_default(),
            size(Size::tokens).unwrap_or_default(),
            server.start_ms.map(|ms| ms.to_string()).unwrap_or_default(),
            server.status.to_string(),
        ]);
    }
    table
}

fn summary(servers: &[Row]) -> String {
    let started = servers.iter().filter(|server| server.status == Status::Started);
    let wanted = servers.iter().filter(|server| server.status != Status::Disabled);
    format!(
        "{} of {} started: {} in {}",
        number(started.clone().count()),
        count(wanted.count(), "server"),
        count(started.clone().filter_map(|server| server.tools).sum(), "tool"),
        started.filter_map(|server| server.size).sum::<Size>(),
    )
}
