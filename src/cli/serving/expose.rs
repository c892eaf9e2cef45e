//! `expose`: serves a single server over HTTP under its own names, to run it in a pod or on its own
//! machine.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::app::{ReloadSource, ValueRefresh};
use crate::cli::args::{GlobalArgs, with_run_context};
use crate::cli::output::{CommandError, did_you_mean, print, quoted};
use crate::cli::runtime::current_folder;
use crate::cli::servers::server_names::is_named;
use crate::cli::servers::value_sources::ValueCache;
use crate::cli::serving::reload_source;
use crate::cli::serving::serve_loaded::serve_loaded;
use crate::cli::serving::serving_args::ServingArgs;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_config::{ConfigReport, Finding, LoadError, LoadedConfig};
use mcp_workbench_core::telemetry::process_registry::ProcessFiles;
use mcp_workbench_names::{ServerName, ToolboxName, nearest};
use mcp_workbench_settings::{
    Config, Isolation, Launch, ServerConfig, StdioLaunch, ToolMode, ToolboxConfig,
};

const USAGE: &str = "\
mcp-workbench expose [OPTIONS] --http <ADDRESS> <SERVER>
       mcp-workbench expose [OPTIONS] --http <ADDRESS> -- <COMMAND>...";

const EXAMPLES: &str = "\
Examples:
  mcp-workbench expose github --http 127.0.0.1:8000
  mcp-workbench expose web/browser --http 0.0.0.0:8000      (requires `auth`)
  mcp-workbench expose --http 127.0.0.1:8000 -- npx -y \\
      @modelcontextprotocol/server-memory

Use the server from another workbench or any MCP client by its URL:
  { \"url\": \"http://127.0.0.1:8000/mcp\" }";

/// Serve a single server over HTTP, unmodified
///
/// Clients see the server's own names, definitions and instructions, as if they had started it
/// themselves. The server's settings, limits and access rules apply as in `serve`; toolboxes and the
/// mode are ignored.
///
/// With `-- COMMAND`, no configuration is read: the command is started as the server.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(mut_arg("http", |http| http.required(true)))]
#[command(mut_arg("strict", |strict| strict.hide_short_help(true)))]
#[command(mut_arg("otlp", |otlp| otlp.hide_short_help(true)))]
#[command(mut_arg("unlisted", |unlisted| unlisted.hide_short_help(true)))]
#[command(override_usage = USAGE)]
#[group(skip)]
pub(crate) struct Args {
    /// Server to expose, as `server` or `toolbox/server`
    #[arg(required_unless_present = "command")]
    server: Option<String>,
    /// Command of a server that is not in the configuration
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "server")]
    command: Vec<String>,
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &Args,
    files: Option<&ProcessFiles>,
) -> Result<ExitCode, CommandError> {
    let Some(wanted) = args.server.clone() else {
        let folder = current_folder()?;
        let loaded = config_for_command(&args.command, &folder)?;
        // No file can be reloaded, as with the embedded configuration.
        let global = GlobalArgs { embedded_config: true, config: None, ..global.clone() };
        return serve_loaded(&global, &args.serving, None, loaded, None);
    };
    let global = &global.for_serving(true);
    let values = Arc::<ValueCache>::default();
    let loaded = global
        .read_with_values(&values.source(ValueRefresh::All))?
        .map_err(CommandError::config)?;
    let report = loaded.report();
    let loaded = select_server(loaded, &wanted).map_err(|why| {
        if let Some(report) = report {
            print::note(&report);
        }
        CommandError::usage(why.problem).with_hint(why.hint)
    })?;
    let source = global.config_source(values)?.map(|source| single_server_source(source, wanted));
    serve_loaded(global, &args.serving, files, loaded, source)
}

struct ExposeError {
    problem: String,
    hint: String,
}

/// Reduces the configuration to one server, and turns off everything that would change its names,
/// definitions or results.
fn select_server(mut loaded: LoadedConfig, wanted: &str) -> Result<LoadedConfig, ExposeError> {
    let (toolbox, server) = find(&loaded.config, wanted)?;
    let config = &mut loaded.config;
    config.toolboxes.retain(|other| other.name == toolbox);
    for toolbox in &mut config.toolboxes {
        toolbox.servers.retain(|other| other.name == server);
        for server in &mut toolbox.servers {
            // `/ready` reports whether a shared server runs. A server per session starts with its
            // session.
            server.eager = server.isolation == Isolation::Shared;
            // The client decides which roots the server sees, as if it had started the server
            // itself.
            server.roots = true;
        }
    }
    set_passthrough(config);
    Ok(loaded)
}

fn set_passthrough(config: &mut Config) {
    config.mode = ToolMode::Passthrough;
    // The rest of a truncated result would be a resource of the workbench.
    config.limits.max_result_bytes = None;
}

fn find(config: &Config, wanted: &str) -> Result<(ToolboxName, ServerName), ExposeError> {
    let servers = || config.servers().filter(|(_, one)| !matches!(one.launch, Launch::Macros(_)));
    let is_meant = |(toolbox, server): &(&ToolboxConfig, &ServerConfig)| {
        is_named(toolbox.name.as_str(), server.name.as_str(), wanted)
    };
    let found: Vec<_> = servers().filter(is_meant).collect();
    match found.as_slice() {
        [(_, server)] if matches!(server.launch, Launch::Broken { .. }) => Err(ExposeError {
            problem: format!("the entry of `{wanted}` is invalid"),
            hint: "run `mcp-workbench check` to see why".to_owned(),
        }),
        [(toolbox, server)] => Ok((toolbox.name.clone(), server.name.clone())),
        [] => {
            let names: Vec<String> = servers().map(|(_, server)| server.name.to_string()).collect();
            let near = nearest(wanted, names.iter().map(String::as_str), 1);
            let otherwise = || "run `mcp-workbench check` to list the servers".to_owned();
            Err(ExposeError {
                problem: format!("no server `{wanted}` in the configuration"),
                hint: did_you_mean(&near, ", ").unwrap_or_else(otherwise),
            })
        }
        several => {
            let names =
                several.iter().map(|(toolbox, server)| format!("{}/{}", toolbox.name, server.name));
            Err(ExposeError {
                problem: format!("several toolboxes have a server `{wanted}`"),
                hint: format!("use one of {}", quoted(names, ", ")),
            })
        }
    }
}

fn single_server_source(source: ReloadSource, wanted: String) -> ReloadSource {
    reload_source::and_then(source, move |loaded| {
        let file = loaded.file.clone();
        select_server(loaded, &wanted).map_err(|ExposeError { problem, hint }| {
            let finding = Finding::error("mcpServers", problem, hint);
            LoadError::Invalid(ConfigReport { file, findings: vec![finding] })
        })
    })
}

const COMMAND_SERVER: &str = "server";

fn config_for_command(words: &[String], folder: &Path) -> Result<LoadedConfig, CommandError> {
    let file = Path::new("the command line");
    // The words are set afterward, so that `${…}` in them isn't expanded.
    let text = format!("{{\"mcpServers\": {{\"{COMMAND_SERVER}\": {{\"command\": \"x\"}}}}}}");
    let loaded = mcp_workbench_config::parse(&text, file, folder, &ProcessEnv);
    let loaded = loaded.map_err(CommandError::invalid_config)?;
    let mut loaded = with_run_context(loaded, None, folder);
    loaded.findings.clear();
    let (command, args) =
        words.split_first().ok_or_else(|| CommandError::usage("missing command after `--`"))?;
    let servers = loaded.config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers);
    for server in servers {
        let launch = StdioLaunch::new(command.clone(), args.to_vec(), folder.to_owned());
        server.launch = Launch::Stdio(launch);
        (server.eager, server.roots) = (true, true);
    }
    set_passthrough(&mut loaded.config);
    Ok(loaded)
}
