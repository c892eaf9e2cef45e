//! The command line: arguments, command dispatch, and the only code that prints.

mod access;
mod args;
mod configuring;
mod diagnostics;
mod files;
mod gateways;
mod monitoring;
mod onboarding;
mod other;
mod output;
mod runtime;
mod servers;
mod serving;
mod terminal;
mod tokens;
mod tool_commands;
mod tools;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use tracing_subscriber::filter::LevelFilter;

use crate::builtin::{self, BuiltinServer};
use crate::cli::access::{approvals, auth, explain, lock, policy, token, trust};
use crate::cli::args::{GlobalArgs, completion, help, suggestions};
use crate::cli::configuring::{add, catalog, check, remove, tailor};
use crate::cli::monitoring::{dashboard, logs, ps, stats, top};
use crate::cli::onboarding::{demo, import, setup};
use crate::cli::other::{cache, man, sandbox_exec};
use crate::cli::output::{CommandError, logging, print};
use crate::cli::runtime::block_on;
use crate::cli::serving::connect::ConnectOutcome;
use crate::cli::serving::{connect, expose, reload, serve};
use crate::cli::tools::{call, list, search, skill, task};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::watchdog;

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
  mcp-workbench schema > workbench-config.schema.json
  mcp-workbench schema project > mcp-workbench-project.schema.json";

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
    Skill(skill::Args),
    Token(token::Args),
    Approvals(approvals::Args),
    Auth(auth::Args),
    Explain(explain::Args),
    Trust(trust::Args),
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
    Schema {
        /// Print the schema of the project file `.mcp-workbench.json` instead
        #[arg(value_parser = ["project"])]
        file: Option<String>,
    },
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

/// Runs the command line. The exit code is 0 for success, 1 if the command failed and 2 for wrong
/// usage or an invalid configuration.
pub fn run() -> ExitCode {
    // Whoever started this program may have left files open that servers shouldn't get.
    mcp_workbench_os::hide_inherited_files();
    mcp_workbench_os::unblock_child_exits();
    if completion::try_complete() {
        return ExitCode::SUCCESS;
    }
    // Before any server starts, which could read this process's environment. Supported by every
    // kernel, so the result doesn't matter.
    let _ = mcp_workbench_os::disable_process_dumping();
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
    print::note(error);
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
    let (level, files) = match &command {
        Command::Serve(args) => (LevelFilter::INFO, args.serving.run_files(&global)),
        Command::Expose(args) => (LevelFilter::INFO, args.serving.run_files(&global)),
        _ => (LevelFilter::WARN, None),
    };
    // Nothing may be opened before the sandbox, as the variables are the server's. `connect` has a
    // log of its own.
    let has_log = !matches!(command, Command::Cell(_) | Command::Connect(_));
    let _log = has_log.then(|| logging::init(&global, level, files.clone())).transpose()?;
    match command {
        Command::Serve(args) => serve::run(&global, &args, files.as_ref()),
        Command::Expose(args) => expose::run(&global, &args, files.as_ref()),
        Command::Connect(_) => match connect::run(&global)? {
            ConnectOutcome::Finished(code) => Ok(code),
            ConnectOutcome::ServeLocally => dispatch(Cli { global, command: None }),
        },
        Command::Check(args) => check::run(&global, &args),
        Command::List(args) => list::run(&global, &args),
        Command::Search(args) => search::run(&global, &args),
        Command::Call(args) => call::run(&global, &args),
        Command::Task(args) => task::run(&global, &args),
        Command::Skill(args) => skill::run(&global, &args),
        Command::Catalog(args) => catalog::run(&global, &args),
        Command::Token(args) => token::run(&args),
        Command::Approvals(args) => approvals::run(&global, &args),
        Command::Auth(args) => auth::run(&global, &args),
        Command::Explain(args) => explain::run(&global, &args),
        Command::Trust(args) => trust::run(&global, &args),
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
        Command::Schema { file } => {
            let text = match file {
                None => mcp_workbench_config::schema_text(),
                Some(_) => mcp_workbench_config::project_schema_text(),
            };
            print::data(&text.trim_end())?;
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
