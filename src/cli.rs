//! The command line: arguments, commands, and the only place that prints.

mod add;
mod auth;
mod cache;
mod call;
mod catalog;
mod cell;
mod check;
mod complete;
mod connect;
mod demo;
mod edit;
mod error;
mod explain;
mod expose;
mod global;
mod help;
mod hidden;
mod import;
mod keyring;
mod known;
mod list;
mod lock;
mod logging;
mod logins;
mod logs;
mod man;
mod misleading;
mod packages;
mod page;
mod papers;
mod policy;
mod print;
mod progress;
mod ps;
mod reach;
mod reload;
mod remarks;
mod remove;
mod replace;
mod run;
mod search;
mod secrets;
mod serve;
mod servers;
mod service;
mod setup;
mod size;
mod stats;
mod table;
mod tailor;
mod token;
mod top;
mod unmatched;
mod values;
mod versions;
mod visible;

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use tracing_subscriber::filter::LevelFilter;

use crate::app;
use crate::backend::{ChildEnvironment, PoolOptions, guard};
use crate::builtin::{self, Builtin};
use crate::cli::error::Error;
use crate::cli::global::Global;
use crate::config;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::gateway::Gateway;
use crate::os;
use crate::settings::{Config, PolicyConfig};

/// One MCP server between an agent and many
///
/// MCP Workbench stands between an AI agent and many MCP servers. The agent sees one small tool,
/// `open_toolbox`; the servers of a toolbox are started, and their tools shown, when it is opened. In
/// other modes it searches for tools, or says in words what is to be done.
#[derive(Debug, Parser)]
#[command(name = "mcp-workbench", version, max_term_width = 80, after_long_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  mcp-workbench demo                    See what an agent sees
  mcp-workbench setup                   Put it into the clients that you have
  mcp-workbench check --connect         Start every server and report on it
  mcp-workbench                         Serve; this is what a client is to start";

const SCHEMA: &str = "\
Examples:
  mcp-workbench schema > workbench-config.schema.json";

const BUILTIN: &str = "\
Examples:
  \"clock\": { \"command\": \"mcp-workbench\", \"args\": [\"builtin\", \"clock\"] }";

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
    #[command(visible_alias = "doctor")]
    Check(check::Args),
    List(list::Args),
    Search(search::Args),
    Call(call::Args),
    Run(run::Args),
    Token(token::Args),
    Auth(auth::Args),
    Explain(explain::Args),
    Lock(lock::Args),
    Policy(policy::Args),
    Cache(cache::Args),
    Stats(stats::Args),
    Ps(ps::Args),
    Page(page::Args),
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
    /// Print completions for a shell, which know toolboxes, servers and tools
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Run one of the small servers that the executable carries
    #[command(after_help = BUILTIN)]
    Builtin {
        /// Which one
        server: Builtin,
    },
    /// Kill what a workbench leaves behind when it is killed
    #[command(hide = true)]
    Guard,
    /// Become a server that may reach what is named, and nothing else
    #[command(hide = true)]
    Cell(cell::Args),
}

/// How the program is called.
const NAME: &str = env!("CARGO_PKG_NAME");
/// The configuration that the executable carries.
const EMBEDDED_CONFIG: &str = include_str!("../workbench-config.json");

/// Does what the command line says, and says how it went: 0 done, 1 what was asked for failed,
/// 2 wrong usage or configuration.
pub fn run() -> ExitCode {
    if complete::answer() {
        return ExitCode::SUCCESS;
    }
    // Before any server runs, which could read our environment. No kernel refuses it.
    let _ = os::seal_process();
    let parsed = help::grouped(Cli::command()).try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return explain_usage(&error),
    };
    match execute(cli) {
        Ok(code) => code,
        Err(error) => {
            fail(&error, wants_json(&matches));
            error.exit_code()
        }
    }
}

/// Says to people why the command failed, and to those who read JSON.
fn fail(error: &Error, is_json: bool) {
    print::error(error);
    if is_json {
        // Where standard output is closed, there is still the status.
        let _ = print::json(&error.in_json());
    }
}

/// Prints the help or the version, if that is what was asked for, or what is wrong with the command
/// line.
fn explain_usage(error: &clap::Error) -> ExitCode {
    let is_error = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if is_error && words.any(|word| word == "--json") {
        fail(&Error::arguments(error), true);
    } else {
        // Nothing is left to be said where nobody listens.
        let _ = error.print();
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Returns `true` if the command line asks for JSON.
fn wants_json(matches: &ArgMatches) -> bool {
    let mut command = matches;
    while let Some((_, inner)) = command.subcommand() {
        command = inner;
    }
    matches!(command.try_get_one::<bool>("json"), Ok(Some(true)))
}

fn execute(cli: Cli) -> Result<ExitCode, Error> {
    let Cli { global, command } = cli;
    let command = command.unwrap_or_else(|| Command::Serve(serve::Args::default()));
    let command = match command {
        Command::Connect(_) => match connect::run(&global)? {
            connect::Done::Over(code) => return Ok(code),
            connect::Done::ServesItself => Command::Serve(serve::Args::default()),
        },
        command => command,
    };
    let default_level = match command {
        Command::Serve(_) | Command::Expose(_) | Command::Connect(_) => LevelFilter::INFO,
        Command::Check(_)
        | Command::List(_)
        | Command::Search(_)
        | Command::Call(_)
        | Command::Run(_)
        | Command::Catalog(_)
        | Command::Token(_)
        | Command::Auth(_)
        | Command::Explain(_)
        | Command::Lock(_)
        | Command::Policy(_)
        | Command::Cache(_)
        | Command::Stats(_)
        | Command::Ps(_)
        | Command::Page(_)
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
        Command::Serve(args) => args.files(&global),
        Command::Expose(args) => args.files(&global),
        _ => None,
    };
    let _log = logging::start(&global, default_level, files.clone())?;
    match command {
        Command::Serve(args) => serve::run(&global, &args, files.as_ref()),
        Command::Expose(args) => expose::run(&global, &args, files.as_ref()),
        Command::Connect(_) => serve::run(&global, &serve::Args::default(), files.as_ref()),
        Command::Check(args) => check::run(&global, &args),
        Command::List(args) => list::run(&global, &args),
        Command::Search(args) => search::run(&global, &args),
        Command::Call(args) => call::run(&global, &args),
        Command::Run(args) => run::run(&global, &args),
        Command::Catalog(args) => catalog::run(&global, &args),
        Command::Token(args) => token::run(&args),
        Command::Auth(args) => auth::run(&global, &args),
        Command::Explain(args) => explain::run(&global, &args),
        Command::Lock(args) => lock::run(&global, &args),
        Command::Policy(args) => policy::run(&global, &args),
        Command::Cache(args) => cache::run(&global, &args),
        Command::Stats(args) => stats::run(&global, &args),
        Command::Ps(args) => ps::run(&global, &args),
        Command::Page(args) => page::run(&global, &args),
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
            print::bytes(complete::script(shell)?.trim_ascii_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Builtin { server } => {
            block_on(builtin::serve(server))?.map_err(Error::internal)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Cell(args) => Err(cell::run(args)),
        Command::Guard => {
            guard::keep(std::io::stdin().lock());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The configuration without what is said of agents, for what concerns its servers.
fn without_rules(config: Config) -> Config {
    Config { policy: PolicyConfig::default(), ..config }
}

/// Does `work` with the servers of a configuration, and leaves none of them behind.
fn with_gateway<T>(
    global: &Global,
    config: Config,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, Error> {
    work_on(global, config, pool_options(Some(global)), work)
}

/// Does `work` with the servers of a configuration, and records calls where it wants that.
fn with_recording_gateway<T>(
    global: &Global,
    config: Config,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, Error> {
    let options = pool_options(Some(global));
    options.observer.audit(&config).map_err(|error| {
        Error::failed("calls cannot be recorded as `audit` wants it").because(&error.to_string())
    })?;
    work_on(global, config, options, work)
}

fn work_on<T>(
    global: &Global,
    config: Config,
    options: PoolOptions,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, Error> {
    block_on(app::with_gateway(config, options, &global.caller(), work))?.map_err(Error::internal)
}

/// The options that servers are started with: our environment and our executable.
fn pool_options(global: Option<&Global>) -> PoolOptions {
    PoolOptions {
        environment: Arc::new(ChildEnvironment::new(ProcessEnv.vars())),
        program: own_program(),
        homes: global.and_then(Global::homes),
        store: global.and_then(Global::store),
        logins: global.and_then(Global::logins),
        ..PoolOptions::default()
    }
}

/// Our own executable, even when its file has been replaced while we run.
fn own_program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    let file = std::env::current_exe().ok().filter(|path| path.exists());
    file.or_else(|| running.exists().then_some(running))
}

/// How long a thread that worked on a file stays for more: a burst of work, and no longer.
const IDLE_THREAD: Duration = Duration::from_millis(500);

/// How many threads serve agents over HTTP at most: the servers need processors, too.
const MAX_WORKERS: usize = 8;

/// Runs a future on a runtime of this thread alone: it needs the fewest system calls.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Error> {
    run_on(tokio::runtime::Builder::new_current_thread(), future)
}

/// Runs a future on a runtime that has a thread for each processor that we may use, up to 8.
fn block_on_workers<T>(future: impl Future<Output = T>) -> Result<T, Error> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    if processors == 1 {
        // Several threads would only take turns.
        return block_on(future);
    }
    let workers = processors.min(MAX_WORKERS);
    let started = AtomicUsize::new(0);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(workers).thread_name_fn(move || {
        // Workers come first; those that wait for files come and go later.
        let is_worker = started.fetch_add(1, Ordering::Relaxed) < workers;
        if is_worker { "worker" } else { "files" }.to_owned()
    });
    run_on(runtime, future)
}

fn run_on<T>(
    mut runtime: tokio::runtime::Builder,
    future: impl Future<Output = T>,
) -> Result<T, Error> {
    let runtime =
        runtime.thread_keep_alive(IDLE_THREAD).enable_all().build().map_err(Error::internal)?;
    let result = runtime.block_on(future);
    // A thread that reads standard input cannot be stopped, and must not hold us.
    runtime.shutdown_background();
    Ok(result)
}
