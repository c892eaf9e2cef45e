//! Shell completion: prints the scripts, and answers the shell's requests for candidates.
//!
//! A script runs the program with [`VARIABLE`] set to the name of the shell and the words of the
//! command line after `--`. Toolboxes, servers and agents come from the configuration, tools from
//! cached listings. Nothing is started, and anything unreadable is skipped.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};

use crate::cli::Cli;
use crate::cli::args::global::GlobalArgs;
use crate::cli::args::help;
use crate::cli::output::{CommandError, escape_to_line, print};
use crate::cli::runtime::PROGRAM_NAME;
use crate::cli::servers::server_names::is_named;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::{LoginScope, ServerTransport};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_settings::{Config, ServerConfig, ToolboxConfig};

const VARIABLE: &str = "WORKBENCH_COMPLETE";
/// Length limit of a candidate's description, in characters.
const MAX_ABOUT: usize = 60;

pub(crate) fn script(shell: clap_complete::Shell) -> Result<Vec<u8>, CommandError> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| CommandError::usage(format!("no completions for shell `{name}`")))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, PROGRAM_NAME, PROGRAM_NAME, PROGRAM_NAME, &mut script)
        .map_err(CommandError::internal)?;
    Ok(script)
}

/// Prints candidates if a completion script asks for them. Returns `false` otherwise.
pub(crate) fn try_complete() -> bool {
    let shell = ProcessEnv.get(VARIABLE).filter(|shell| !shell.is_empty());
    let Some(shell) = shell else { return false };
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(&shell) {
        // An error message would garble the command line.
        let _ = write(shell);
    }
    true
}

fn write(shell: &dyn EnvCompleter) -> Result<(), CommandError> {
    let offer = |arg: Arg| arg.add(ArgValueCandidates::new(agents));
    let mut command = help::with_groups(Cli::command()).mut_arg("agent", offer);
    command.build();
    let folder = std::env::current_dir().ok();
    let mut answer = Vec::new();
    shell
        .write_complete(&mut command, words(), folder.as_deref(), &mut answer)
        .map_err(CommandError::internal)?;
    print::raw(&answer)
}

fn words() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

struct PartialCommandLine {
    global: GlobalArgs,
    command: ArgMatches,
}

impl PartialCommandLine {
    fn read() -> Option<Self> {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(words()).ok()?;
        let (_, command) = matches.subcommand()?;
        let global = GlobalArgs::from_arg_matches(command).ok()?;
        Some(Self { global, command: command.clone() })
    }

    fn word(&self, name: &str) -> Option<&str> {
        self.command.try_get_one::<String>(name).ok().flatten().map(String::as_str)
    }

    fn config(&self) -> Option<Config> {
        self.global.read().ok().map(|loaded| loaded.config)
    }
}

pub(crate) fn toolboxes() -> Vec<CompletionCandidate> {
    let config = PartialCommandLine::read().and_then(|typed| typed.config()).unwrap_or_default();
    let toolboxes = config.toolboxes.iter();
    toolboxes.filter_map(|of| candidate(of.name.as_str(), Some(&of.description))).collect()
}

pub(crate) fn servers_of_toolbox() -> Vec<CompletionCandidate> {
    let Some(typed) = PartialCommandLine::read() else { return Vec::new() };
    let config = typed.config().unwrap_or_default();
    let wanted = typed.word("toolbox");
    let toolboxes = config.toolboxes.iter().filter(|of| Some(of.name.as_str()) == wanted);
    let servers = toolboxes.flat_map(|toolbox| &toolbox.servers);
    servers.filter_map(|server| candidate(server.name.as_str(), None)).collect()
}

/// Candidates for all servers, as `server` and as `toolbox/server`.
pub(crate) fn servers() -> Vec<CompletionCandidate> {
    let config = PartialCommandLine::read().and_then(|typed| typed.config()).unwrap_or_default();
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    for (toolbox, server) in all(&config) {
        let alone = candidate(server.name.as_str(), None);
        let is_new = |new: &CompletionCandidate| {
            !candidates.iter().any(|other| other.get_value() == new.get_value())
        };
        let alone: Vec<_> = alone.into_iter().filter(is_new).collect();
        candidates.extend(alone);
        candidates.extend(candidate(&format!("{}/{}", toolbox.name, server.name), None));
    }
    candidates
}

pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let Some(typed) = PartialCommandLine::read() else { return Vec::new() };
    let (config, store) = (typed.config().unwrap_or_default(), typed.global.store());
    let (Some(wanted), Some(store)) = (typed.word("server"), store) else { return Vec::new() };
    let is_meant = |toolbox: &ToolboxConfig, server: &ServerConfig| match typed.word("toolbox") {
        Some(name) => toolbox.name.as_str() == name && server.name.as_str() == wanted,
        None => is_named(toolbox.name.as_str(), server.name.as_str(), wanted),
    };
    let servers = all(&config).filter(|(toolbox, server)| is_meant(toolbox, server));
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    for (_, server) in servers {
        let reach = ServerTransport::from_config(server, &LoginScope::only(None)).ok();
        let entry = reach.and_then(|reach| store.look_up(&reach, server.protocol));
        let Some(record) = entry.and_then(|entry| entry.record.ok()) else { continue };
        let tools = record.listing.tools.iter();
        candidates
            .extend(tools.filter_map(|tool| candidate(&tool.name, tool.summary().as_deref())));
    }
    candidates
}

pub(crate) fn agents() -> Vec<CompletionCandidate> {
    let config = PartialCommandLine::read().and_then(|typed| typed.config()).unwrap_or_default();
    let agents = config.policy.agents.keys();
    agents.filter_map(|agent| candidate(agent.as_str(), None)).collect()
}

fn all(config: &Config) -> impl Iterator<Item = (&ToolboxConfig, &ServerConfig)> {
    let toolboxes = config.toolboxes.iter();
    toolboxes.flat_map(|toolbox| toolbox.servers.iter().map(move |server| (toolbox, server)))
}

/// Returns a candidate, unless its name contains characters that a shell would interpret. The shell
/// inserts names verbatim, and servers choose their names.
fn candidate(name: &str, about: Option<&str>) -> Option<CompletionCandidate> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@+,%".contains(c);
    let is_safe = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
    let about = about.map(|about| shorten(&escape_to_line(about), MAX_ABOUT).into());
    is_safe.then(|| CompletionCandidate::new(name).help(about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_candidates_with_shell_metacharacters() {
        for name in
            ["$(reboot)", "a b", "a;b", "`x`", "a\nb", "-rf", "", "a\u{202e}b", "*", "~x", "a'b"]
        {
            assert!(candidate(name, None).is_none(), "{name}");
        }
        for name in ["read_file", "notes/add-note", "wetter:heute", "größe"] {
            assert!(candidate(name, Some("x\u{1b}[2J")).is_some(), "{name}");
        }
    }
}
