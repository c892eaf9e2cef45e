//! Completions: the scripts for shells, and what those ask for while somebody types.
//!
//! A script runs the program with [`VARIABLE`] set to the shell's name and the words of the command
//! line behind `--`. Toolboxes, servers and agents are those of the configuration, tools are those
//! that are kept of servers' listings: nothing is started, and what cannot be read is not offered.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};

use crate::backend::{Reach, Whose};
use crate::catalog::shorten;
use crate::cli::error::Error;
use crate::cli::print::printable;
use crate::cli::{Cli, Global, NAME, help, print};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::settings::{Config, ServerConfig, ToolboxConfig};

/// The variable that has the program complete a command line.
const VARIABLE: &str = "MCP_WORKBENCH_COMPLETE";
/// How much is said of a candidate, in characters.
const MAX_ABOUT: usize = 60;

/// The script that has a shell ask us.
pub(crate) fn script(shell: clap_complete::Shell) -> Result<Vec<u8>, Error> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Error::wrong(format!("there are no completions for `{name}`")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script).map_err(Error::internal)?;
    Ok(script)
}

/// Completes a command line, if a shell asks for that; whether it does.
pub(crate) fn answer() -> bool {
    let shell = ProcessEnv.get(VARIABLE).filter(|shell| !shell.is_empty());
    let Some(shell) = shell else { return false };
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(&shell) {
        // Whoever types is not to be told what went wrong.
        let _ = write(shell);
    }
    true
}

fn write(shell: &dyn EnvCompleter) -> Result<(), Error> {
    let offer = |arg: Arg| arg.add(ArgValueCandidates::new(agents));
    let mut command = help::grouped(Cli::command()).mut_arg("agent", offer);
    command.build();
    let folder = std::env::current_dir().ok();
    let mut answer = Vec::new();
    shell
        .write_complete(&mut command, words(), folder.as_deref(), &mut answer)
        .map_err(Error::internal)?;
    print::raw(&answer)
}

/// The words of the command line that is completed.
fn words() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

/// A half-typed command line: the options of all commands, and the words of this one.
struct Typed {
    global: Global,
    command: ArgMatches,
}

impl Typed {
    fn read() -> Option<Self> {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(words()).ok()?;
        let (_, command) = matches.subcommand()?;
        let global = Global::from_arg_matches(command).ok()?;
        Some(Self { global, command: command.clone() })
    }

    fn word(&self, name: &str) -> Option<&str> {
        self.command.try_get_one::<String>(name).ok().flatten().map(String::as_str)
    }

    fn config(&self) -> Option<Config> {
        self.global.read().ok()?.ok().map(|loaded| loaded.config)
    }
}

/// The toolboxes of the configuration.
pub(crate) fn toolboxes() -> Vec<CompletionCandidate> {
    let config = Typed::read().and_then(|typed| typed.config()).unwrap_or_default();
    let toolboxes = config.toolboxes.iter();
    toolboxes.filter_map(|of| candidate(of.name.as_str(), Some(&of.description))).collect()
}

/// The servers of the toolbox that was typed.
pub(crate) fn servers_of_toolbox() -> Vec<CompletionCandidate> {
    let Some(typed) = Typed::read() else { return Vec::new() };
    let config = typed.config().unwrap_or_default();
    let wanted = typed.word("toolbox");
    let toolboxes = config.toolboxes.iter().filter(|of| Some(of.name.as_str()) == wanted);
    let servers = toolboxes.flat_map(|toolbox| &toolbox.servers);
    servers.filter_map(|server| candidate(server.name.as_str(), None)).collect()
}

/// All servers, alone and with their toolboxes.
pub(crate) fn servers() -> Vec<CompletionCandidate> {
    let config = Typed::read().and_then(|typed| typed.config()).unwrap_or_default();
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

/// The tools of the server that was typed, as far as they are kept.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let Some(typed) = Typed::read() else { return Vec::new() };
    let (config, store) = (typed.config().unwrap_or_default(), typed.global.store());
    let (Some(wanted), Some(store)) = (typed.word("server"), store) else { return Vec::new() };
    let is_meant = |toolbox: &ToolboxConfig, server: &ServerConfig| match typed.word("toolbox") {
        Some(name) => toolbox.name.as_str() == name && server.name.as_str() == wanted,
        None => {
            server.name.as_str() == wanted || format!("{}/{}", toolbox.name, server.name) == wanted
        }
    };
    let servers = all(&config).filter(|(toolbox, server)| is_meant(toolbox, server));
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    for (_, server) in servers {
        let reach = Reach::of(server, &Whose::only(None)).ok();
        let entry = reach.and_then(|reach| store.look_up(&reach, server.protocol));
        let Some(record) = entry.and_then(|entry| entry.record.ok()) else { continue };
        let tools = record.listing.tools.iter();
        candidates
            .extend(tools.filter_map(|tool| candidate(&tool.name, tool.summary().as_deref())));
    }
    candidates
}

/// The agents that the configuration has rules for.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    let config = Typed::read().and_then(|typed| typed.config()).unwrap_or_default();
    let agents = config.policy.agents.keys();
    agents.filter_map(|agent| candidate(agent.as_str(), None)).collect()
}

fn all(config: &Config) -> impl Iterator<Item = (&ToolboxConfig, &ServerConfig)> {
    let toolboxes = config.toolboxes.iter();
    toolboxes.flat_map(|toolbox| toolbox.servers.iter().map(move |server| (toolbox, server)))
}

/// A name that can be offered. A shell puts it into the command line as it is, so one that would mean
/// something to a shell is not offered, whoever has thought it up.
fn candidate(name: &str, about: Option<&str>) -> Option<CompletionCandidate> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@+,%".contains(c);
    let is_safe = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
    let about = about.map(|about| shorten(&printable(about), MAX_ABOUT).into());
    is_safe.then(|| CompletionCandidate::new(name).help(about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_nothing_that_a_shell_would_obey() {
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
