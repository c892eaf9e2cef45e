//! `expose`: serves one server over HTTP as it is, so that it can live in a pod or on a machine of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::app::{Renewal, Source};
use crate::cli::error::Error;
use crate::cli::global::as_run;
use crate::cli::serve;
use crate::cli::values::Kept;
use crate::cli::{Global, print};
use crate::config::env::ProcessEnv;
use crate::config::{self, Finding, LoadError, Loaded, Report, Severity};
use crate::name::{ServerName, ToolboxName, nearest};
use crate::observe::running::Files;
use crate::settings::{
    Config, Isolation, Launch, ServerConfig, StdioLaunch, ToolMode, ToolboxConfig,
};

const USAGE: &str = "\
mcp-workbench expose [OPTIONS] --http <ADDRESS> <SERVER>
       mcp-workbench expose [OPTIONS] --http <ADDRESS> -- <COMMAND>...";

const EXAMPLES: &str = "\
Examples:
  mcp-workbench expose github --http 127.0.0.1:8000
  mcp-workbench expose web/browser --http 0.0.0.0:8000      (needs `auth` in the configuration)
  mcp-workbench expose --http 127.0.0.1:8000 -- npx -y @modelcontextprotocol/server-memory

Another workbench has it as { \"url\": \"http://127.0.0.1:8000/mcp\" }, and needs no more than that.";

/// Serve one server over HTTP, as it is
///
/// Serves a server of the configuration to programs that speak MCP over HTTP as if they had started
/// it: under its own names, with its own definitions and instructions, and with no tool of ours. What
/// the configuration says of that server, of limits and of who may use what holds as it does for
/// `serve`; how toolboxes are presented does not matter here.
///
/// With `-- COMMAND`, no configuration is read: the command is started as a server.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(mut_arg("http", |http| http.required(true)))]
#[command(mut_arg("strict", |strict| strict.hide_short_help(true)))]
#[command(mut_arg("otlp", |otlp| otlp.hide_short_help(true)))]
#[command(mut_arg("unlisted", |unlisted| unlisted.hide_short_help(true)))]
#[command(override_usage = USAGE)]
#[group(skip)]
pub(crate) struct Args {
    /// The server, as `server` or `toolbox/server`
    #[arg(required_unless_present = "command")]
    server: Option<String>,
    /// The command of a server that stands in no configuration
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "server")]
    command: Vec<String>,
    #[command(flatten)]
    serving: serve::Args,
}

impl Args {
    /// The files in which others are told what runs here; `None`: nobody is told.
    pub(crate) fn files(&self, global: &Global) -> Option<Files> {
        self.serving.files(global)
    }
}

/// Serves until a signal comes.
pub(crate) fn run(global: &Global, args: &Args, files: Option<&Files>) -> Result<ExitCode, Error> {
    let Some(wanted) = args.server.clone() else {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let loaded = command(&args.command, &folder)?;
        // There is no file, as there is none of the configuration that the executable carries.
        let global = Global { embedded_config: true, config: None, ..global.clone() };
        return serve::run_as(&global, &args.serving, None, loaded, None);
    };
    let values = Arc::<Kept>::default();
    let loaded = global.read_with(&values.asking(Renewal::All))?.map_err(Error::config)?;
    let report = loaded.report();
    let loaded = alone(loaded, &wanted).map_err(|why| {
        if let Some(report) = report {
            print::note(&report);
        }
        Error::wrong(why.problem).hint(why.hint)
    })?;
    let source = global.source(values)?.map(|source| narrowed(source, wanted));
    serve::run_as(global, &args.serving, files, loaded, source)
}

/// Why a server cannot be served.
struct Why {
    problem: String,
    hint: String,
}

/// The configuration with one server and nothing that stands between it and who calls it.
fn alone(mut loaded: Loaded, wanted: &str) -> Result<Loaded, Why> {
    let (toolbox, server) = find(&loaded.config, wanted)?;
    let config = &mut loaded.config;
    config.toolboxes.retain(|other| other.name == toolbox);
    for toolbox in &mut config.toolboxes {
        toolbox.servers.retain(|other| other.name == server);
        for server in &mut toolbox.servers {
            // `/ready` is to say whether it runs. One for each session begins with the session.
            server.eager = server.isolation == Isolation::Shared;
            // Who calls says which roots the server may know, as if it had started the server.
            server.roots = true;
        }
    }
    present(config);
    Ok(loaded)
}

/// Has a configuration present its only server as it is.
fn present(config: &mut Config) {
    config.mode = ToolMode::Alone;
    // The rest of a result would be an address of ours.
    config.limits.max_result_bytes = None;
}

/// Finds a server by `server` or `toolbox/server`.
fn find(config: &Config, wanted: &str) -> Result<(ToolboxName, ServerName), Why> {
    let servers = || config.servers().filter(|(_, one)| !matches!(one.launch, Launch::Macros(_)));
    let full = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        format!("{}/{}", toolbox.name, server.name)
    };
    let is_meant = |(toolbox, server): &(&ToolboxConfig, &ServerConfig)| {
        server.name.as_str() == wanted || full(toolbox, server) == wanted
    };
    let found: Vec<_> = servers().filter(is_meant).collect();
    match found.as_slice() {
        [(_, server)] if matches!(server.launch, Launch::Broken { .. }) => Err(Why {
            problem: format!("something is wrong with the entry of `{wanted}`"),
            hint: "`mcp-workbench check` says what".to_owned(),
        }),
        [(toolbox, server)] => Ok((toolbox.name.clone(), server.name.clone())),
        [] => {
            let names: Vec<String> = servers().map(|(_, server)| server.name.to_string()).collect();
            let near = nearest(wanted, names.iter().map(String::as_str), 1).pop();
            Err(Why {
                problem: format!("there is no server `{wanted}` in the configuration"),
                hint: near.map_or_else(
                    || "`mcp-workbench check` shows which there are".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                ),
            })
        }
        several => {
            let names = several.iter().map(|(toolbox, server)| full(toolbox, server));
            Err(Why {
                problem: format!("several toolboxes have a server `{wanted}`"),
                hint: format!("name one of `{}`", names.collect::<Vec<_>>().join("`, `")),
            })
        }
    }
}

/// A source whose configurations have the one server.
fn narrowed(source: Source, wanted: String) -> Source {
    let Source { read, .. } = source;
    let read = move |renewal| {
        let loaded = read(renewal)?;
        let file = loaded.file.clone();
        alone(loaded, &wanted).map_err(|Why { problem, hint }| {
            let finding = Finding {
                severity: Severity::Error,
                file: None,
                path: "mcpServers".to_owned(),
                position: None,
                message: problem,
                hint: Some(hint),
            };
            LoadError::Invalid(Report { file, findings: vec![finding] })
        })
    };
    Source { read: Box::new(read), ..source }
}

/// The name of a server that stands in no configuration.
const NAME: &str = "server";

/// A configuration whose only server is a command.
fn command(words: &[String], folder: &Path) -> Result<Loaded, Error> {
    let file = Path::new("the command line");
    // The words are put in afterwards, for none of them is a reference to a variable.
    let text = format!("{{\"mcpServers\": {{\"{NAME}\": {{\"command\": \"x\"}}}}}}");
    let loaded = config::parse(&text, file, folder, &ProcessEnv);
    let loaded = loaded.map_err(|report| Error::config(LoadError::Invalid(report)))?;
    let mut loaded = as_run(loaded, None, folder);
    loaded.warnings.clear();
    let (command, args) =
        words.split_first().ok_or_else(|| Error::wrong("there is no command after `--`"))?;
    let servers = loaded.config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers);
    for server in servers {
        server.launch = Launch::Stdio(StdioLaunch {
            command: command.clone(),
            args: args.to_vec(),
            env: BTreeMap::new(),
            referred: BTreeMap::new(),
            cwd: folder.to_owned(),
            inherit_env: false,
            withheld: BTreeSet::new(),
            has_own_folder: false,
            sandbox: None,
        });
        (server.eager, server.roots) = (true, true);
    }
    present(&mut loaded.config);
    Ok(loaded)
}
