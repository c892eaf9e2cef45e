//! The command line: arguments, command dispatch, and the only code that prints.

mod add;
mod admin_config;
mod atomic_write;
mod auth;
mod background_service;
mod cache;
mod cached_listings;
mod call;
mod catalog;
mod check;
mod completion;
mod config_edit;
mod config_remarks;
mod connect;
mod dashboard;
mod definition_remarks;
mod demo;
mod duration;
mod error;
mod escape;
mod explain;
mod expose;
mod global;
mod help;
mod import;
mod list;
mod lock;
mod logging;
mod login_summary;
mod logs;
mod man;
mod package_identity;
mod pasted;
mod policy;
mod print;
mod ps;
mod redaction;
mod reload;
mod reload_request;
mod remove;
mod sandbox_exec;
mod search;
mod secret_variables;
mod serve;
mod server_phrase;
mod setup;
mod spinner;
mod startup;
mod stats;
mod suggestions;
mod system_keyring;
mod table;
mod tailor;
mod task;
mod token;
mod top;
mod troubleshooting;
mod units;
mod unmatched_rules;
mod unpinned_packages;
mod value_sources;
mod writable_config;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use tracing_subscriber::filter::LevelFilter;

use crate::app;
use crate::backend::{ChildEnvironment, PoolOptions, watchdog};
use crate::builtin::{self, BuiltinServer};
use crate::cli::error::CommandError;
use crate::cli::global::GlobalArgs;
use crate::config;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::gateway::Gateway;
use crate::os;
use crate::settings::{Config, PolicyConfig};

/// One MCP server in front of all your MCP servers
///
/// A gateway between an AI agent and many MCP servers. The agent sees one small tool,
/// `open_toolbox`; opening a toolbox starts its servers and adds their tools. In other modes the
/// agent searches for tools or describes a task in words.
#[derive(Debug, Parser)]
#[command(name = "mcp-workbench", version, max_term_width = 80, after_long_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  mcp-workbench demo              Show a sample session
  mcp-workbench setup             Configure your MCP clients
  mcp-workbench check --connect   Test the configuration and every server
  mcp-workbench                   Serve over stdio: the command your clients run
  mcp-workbench FILE              Serve another configuration";

const SCHEMA: &str = "\
Examples:
  mcp-workbench schema > workbench-config.schema.json";

const BUILTIN: &str = "\
Examples:
  mcp-workbench add clock -- mcp-workbench builtin clock
  mcp-workbench expose --http 127.0.0.1:8000 -- mcp-workbench builtin notes";

const COMPLETIONS: &str = "\
Examples:
  echo 'source <(mcp-workbench completions bash)' >> ~/.bashrc
  echo 'source <(mcp-workbench completions zsh)' >> ~/.zshrc
  mcp-workbench completions fish \\
      > ~/.config/fish/completions/mcp-workbench.fish";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Expose(expose::Args),
    Connect(connect::Args),
    Check(check::Args),
    List(list::Args),
    Search(search::Args),
    Call(call::Args),
    Task(task::Args),
    Token(token::Args),
    Auth(auth::Args),
    Explain(explain::Args),
    Lock(lock::Args),
    Policy(policy::Args),
    Cache(cache::Args),
    Stats(stats::Args),
    Ps(ps::Args),
    Dashboard(dashboard::Args),
    Top(top::Args),
    Logs(logs::Args),
    Reload(reload::Args),
    Setup(setup::Args),
    Import(import::Args),
    Add(add::Args),
    Remove(remove::Args),
    Catalog(catalog::Args),
    Tailor(tailor::Args),
    Demo(demo::Args),
    /// Print the JSON Schema of the configuration file
    #[command(after_help = SCHEMA)]
    Schema,
    Man(man::Args),
    /// Print a shell completion script
    ///
    /// Completes commands, flags, toolboxes, servers, agents, and the tools in cached tool lists. Starts
    /// no server.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Run a built-in server
    #[command(after_help = BUILTIN)]
    Builtin {
        /// Built-in server
        server: BuiltinServer,
    },
    /// Kill the servers of a workbench that was killed
    #[command(hide = true)]
    Guard,
    /// Enter a sandbox and execute a server
    #[command(hide = true)]
    Cell(sandbox_exec::Args),
}

const PROGRAM_NAME: &str = env!("CARGO_PKG_NAME");
const EMBEDDED_CONFIG: &str = include_str!("../workbench-config.json");

/// Runs the command line. The exit code is 0 for success, 1 if the command failed and 2 for wrong
/// usage or an invalid configuration.
pub fn run() -> ExitCode {
    // Whoever started this program may have left files open that servers shouldn't get.
    os::hide_inherited_files();
    os::unblock_child_exits();
    if completion::try_complete() {
        return ExitCode::SUCCESS;
    }
    // Before any server starts, which could read this process's environment. Supported by every
    // kernel, so the result doesn't matter.
    let _ = os::disable_process_dumping();
    let parsed = help::with_groups(Cli::command()).try_get_matches();
    let parsed = parsed.or_else(|error| serve_named_file(&error).ok_or(error));
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (mut cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return explain_usage(error),
    };
    cli.global.has_agent_flag = matches.value_source("agent") == Some(ValueSource::CommandLine);
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            fail(&error, wants_json(&matches));
            error.exit_code()
        }
    }
}

fn fail(error: &CommandError, is_json: bool) {
    print::error(error);
    if is_json {
        // With a closed stdout, the exit code still tells.
        let _ = print::json(&error.to_json());
    }
}

/// If the unknown command names a configuration file, parses the command line that serves it.
fn serve_named_file(error: &clap::Error) -> Option<ArgMatches> {
    let unknown =
        match error.get(ContextKind::InvalidSubcommand).or(error.get(ContextKind::InvalidArg)) {
            Some(ContextValue::String(word)) if is_config_path(word) => word,
            _ => return None,
        };
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let place = words.iter().skip(1).position(|word| *word == **unknown)?;
    *words.get_mut(place + 1)? = OsString::from(format!("--config={unknown}"));
    let parsed = help::with_groups(Cli::command()).try_get_matches_from(words).ok()?;
    // Other commands would edit the file, or read it as one of their own arguments.
    matches!(parsed.subcommand_name(), None | Some("serve")).then_some(parsed)
}

/// Returns `true` for a path, and for a file name with an extension of configuration files. Any
/// other word is a mistyped command, even if a file has that name.
fn is_config_path(word: &str) -> bool {
    let extension = Path::new(word).extension().and_then(|extension| extension.to_str());
    let is_config = |extension: &str| {
        ["json", "jsonc", "toml", "yaml", "yml"].contains(&&*extension.to_ascii_lowercase())
    };
    word.contains(['/', '\\']) || extension.is_some_and(is_config)
}

/// Prints help, the version, or a usage error with suggestions.
fn explain_usage(mut error: clap::Error) -> ExitCode {
    let is_error = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    suggestions::add_suggestions(&mut error, &Cli::command(), &words);
    if is_error && words.iter().any(|word| word == "--json") {
        fail(&CommandError::from_clap(&error), true);
    } else {
        // Nothing left to do if even that can't be printed.
        let _ = error.print();
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn wants_json(matches: &ArgMatches) -> bool {
    let mut command = matches;
    while let Some((_, inner)) = command.subcommand() {
        command = inner;
    }
    matches!(command.try_get_one::<bool>("json"), Ok(Some(true)))
}

fn dispatch(cli: Cli) -> Result<ExitCode, CommandError> {
    let Cli { global, command } = cli;
    let command = command.unwrap_or_else(|| Command::Serve(serve::Args::default()));
    // These run within servers, whose environment is their own.
    if !matches!(command, Command::Builtin { .. } | Command::Guard | Command::Cell(_)) {
        suggestions::reject_renamed_variables(|name| ProcessEnv.get(name))?;
    }
    let command = match command {
        // Nothing may be opened or written before the sandbox, as the variables are the server's.
        Command::Cell(args) => return Err(sandbox_exec::run(args)),
        Command::Connect(_) => match connect::run(&global)? {
            connect::ConnectOutcome::Finished(code) => return Ok(code),
            connect::ConnectOutcome::ServeLocally => Command::Serve(serve::Args::default()),
        },
        command => command,
    };
    let default_level = match command {
        Command::Serve(_) | Command::Expose(_) | Command::Connect(_) => LevelFilter::INFO,
        Command::Check(_)
        | Command::List(_)
        | Command::Search(_)
        | Command::Call(_)
        | Command::Task(_)
        | Command::Catalog(_)
        | Command::Token(_)
        | Command::Auth(_)
        | Command::Explain(_)
        | Command::Lock(_)
        | Command::Policy(_)
        | Command::Cache(_)
        | Command::Stats(_)
        | Command::Ps(_)
        | Command::Dashboard(_)
        | Command::Top(_)
        | Command::Logs(_)
        | Command::Reload(_)
        | Command::Setup(_)
        | Command::Import(_)
        | Command::Add(_)
        | Command::Remove(_)
        | Command::Tailor(_)
        | Command::Demo(_)
        | Command::Schema
        | Command::Man(_)
        | Command::Completions { .. }
        | Command::Builtin { .. }
        | Command::Guard
        | Command::Cell(_) => LevelFilter::WARN,
    };
    let files = match &command {
        Command::Serve(args) => args.run_files(&global),
        Command::Expose(args) => args.files(&global),
        _ => None,
    };
    let _log = logging::init(&global, default_level, files.clone())?;
    match command {
        Command::Serve(args) => serve::run(&global, &args, files.as_ref()),
        Command::Expose(args) => expose::run(&global, &args, files.as_ref()),
        Command::Connect(_) => serve::run(&global, &serve::Args::default(), files.as_ref()),
        Command::Check(args) => check::run(&global, &args),
        Command::List(args) => list::run(&global, &args),
        Command::Search(args) => search::run(&global, &args),
        Command::Call(args) => call::run(&global, &args),
        Command::Task(args) => task::run(&global, &args),
        Command::Catalog(args) => catalog::run(&global, &args),
        Command::Token(args) => token::run(&args),
        Command::Auth(args) => auth::run(&global, &args),
        Command::Explain(args) => explain::run(&global, &args),
        Command::Lock(args) => lock::run(&global, &args),
        Command::Policy(args) => policy::run(&global, &args),
        Command::Cache(args) => cache::run(&global, &args),
        Command::Stats(args) => stats::run(&global, &args),
        Command::Ps(args) => ps::run(&global, &args),
        Command::Dashboard(args) => dashboard::run(&global, &args),
        Command::Top(args) => top::run(&global, &args),
        Command::Logs(args) => logs::run(&global, &args),
        Command::Reload(args) => reload::run(&global, &args),
        Command::Setup(args) => setup::run(&global, &args),
        Command::Import(args) => import::run(&global, &args),
        Command::Add(args) => add::run(&global, &args),
        Command::Remove(args) => remove::run(&global, &args),
        Command::Tailor(args) => tailor::run(&global, &args),
        Command::Demo(demo::Args {}) => demo::run(),
        Command::Schema => {
            print::data(&config::schema_text().trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(args) => man::run(&args),
        Command::Completions { shell } => {
            print::bytes(completion::script(shell)?.trim_ascii_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Builtin { server } => {
            block_on(builtin::serve(server))?.map_err(CommandError::internal)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Cell(args) => Err(sandbox_exec::run(args)),
        Command::Guard => {
            watchdog::run(std::io::stdin().lock());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the configuration without access rules, for commands that inspect its servers.
fn without_policy(config: Config) -> Config {
    Config { policy: PolicyConfig::default(), ..config }
}

fn with_gateway<T>(
    global: &GlobalArgs,
    config: Config,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, CommandError> {
    run_with_gateway(global, config, pool_options(Some(global)), work)
}

/// Like `with_gateway`, with calls written to the configured audit log.
fn with_recording_gateway<T>(
    global: &GlobalArgs,
    config: Config,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, CommandError> {
    let options = pool_options(Some(global));
    options.observer.open_audit(&config).map_err(|error| {
        CommandError::failed("failed to open the audit log configured in `audit`")
            .with_cause(&error.to_string())
    })?;
    run_with_gateway(global, config, options, work)
}

fn run_with_gateway<T>(
    global: &GlobalArgs,
    config: Config,
    options: PoolOptions,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, CommandError> {
    block_on(app::with_gateway(config, options, &global.caller(), work))?
        .map_err(CommandError::internal)
}

fn pool_options(global: Option<&GlobalArgs>) -> PoolOptions {
    PoolOptions {
        environment: Arc::new(ChildEnvironment::new(ProcessEnv.vars())),
        program: current_program(),
        homes: global.and_then(GlobalArgs::homes),
        store: global.and_then(GlobalArgs::store),
        logins: global.and_then(GlobalArgs::login_keep),
        ..PoolOptions::default()
    }
}

/// Path of this executable, even if its file was replaced while it runs.
fn current_program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    let file = std::env::current_exe().ok().filter(|path| path.exists());
    file.or_else(|| running.exists().then_some(running))
}

/// Keep-alive of blocking threads: long enough for a burst of file operations.
const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Upper bound on worker threads for HTTP: servers need processors, too.
const MAX_WORKERS: usize = 8;

/// Runs a future on a current-thread runtime, which needs the fewest system calls.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CommandError> {
    run_on(tokio::runtime::Builder::new_current_thread(), future)
}

/// Runs a future on a multi-threaded runtime with one worker per available processor, up to
/// `MAX_WORKERS`.
fn block_on_workers<T>(future: impl Future<Output = T>) -> Result<T, CommandError> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    if processors == 1 {
        return block_on(future);
    }
    let workers = processors.min(MAX_WORKERS);
    let started = AtomicUsize::new(0);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(workers).thread_name_fn(move || {
        // Workers start first. Threads of the blocking pool come and go later.
        let is_worker = started.fetch_add(1, Ordering::Relaxed) < workers;
        if is_worker { "worker" } else { "files" }.to_owned()
    });
    run_on(runtime, future)
}

fn run_on<T>(
    mut runtime: tokio::runtime::Builder,
    future: impl Future<Output = T>,
) -> Result<T, CommandError> {
    let runtime = runtime
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .enable_all()
        .build()
        .map_err(CommandError::internal)?;
    let result = runtime.block_on(future);
    // A thread that blocks on stdin can't be stopped and must not delay the exit.
    runtime.shutdown_background();
    Ok(result)
}
