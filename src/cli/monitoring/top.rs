//! `top`: live view of all workbenches of this user in a terminal, with keys to control servers.
//!
//! A task per workbench watches its admin socket. Their updates, typed keys and results of actions
//! go through one channel into one [`TopState`], which `screen::draw` renders. The terminal is
//! restored on every kind of exit.

mod connection;
mod keys;
mod screen;
mod state;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::app;
use crate::cli::args::GlobalArgs;
use crate::cli::monitoring::top::connection::TopEvent;
use crate::cli::monitoring::top::keys::UserCommand;
use crate::cli::monitoring::top::state::TopState;
use crate::cli::monitoring::top::terminal::TerminalGuard;
use crate::cli::output::CommandError;
use crate::cli::runtime::block_on;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};

/// The capacity of the event channel.
const HEARD: usize = 256;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench top
  NO_COLOR=1 mcp-workbench top

Keys: arrows or j/k select, o or Enter starts, s stops, r restarts, m pauses or
resumes, Tab switches panes, / filters by name, ? shows all keys, q quits.";

/// Monitor and control servers live
///
/// Shows every running workbench of this user: its toolboxes and servers with state, memory, tokens
/// and latency, calls as they finish, and the recent stderr lines of the selected server.
///
/// An agent's call starts a stopped server again, but not a paused one: such a call fails with an
/// explanation. Stopping or pausing a server affects all agents that share its process.
///
/// `ps` prints a snapshot instead.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(global: &GlobalArgs, _: &Args) -> Result<ExitCode, CommandError> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(CommandError::failed("`top` needs a terminal")
            .with_hint("use `mcp-workbench ps`, or `mcp-workbench ps --json` in scripts"));
    }
    let cache = global.resolve_cache_dir()?;
    let has_color = ProcessEnv.get("NO_COLOR").is_none_or(|value| value.is_empty());
    block_on(async {
        let (told, heard) = mpsc::channel(HEARD);
        let mut screen = TerminalGuard::enter(told.clone()).map_err(CommandError::internal)?;
        let tasks = TaskTracker::new();
        tasks.spawn(connection::find(cache, told.clone(), tasks.clone()));
        let state = TopState::new(has_color);
        let watched = app::run_until_signal(watch(&mut screen, state, (told, heard), &tasks)).await;
        drop(screen);
        match watched {
            Ok(watched) => watched,
            // A signal is a normal way to end; the terminal is already restored.
            Err(app::AppError::Interrupted(_)) => Ok(()),
            Err(stopped) => Err(CommandError::internal(stopped)),
        }
    })??;
    Ok(ExitCode::SUCCESS)
}

async fn watch(
    screen: &mut TerminalGuard,
    mut state: TopState,
    (told, mut heard): (mpsc::Sender<TopEvent>, mpsc::Receiver<TopEvent>),
    tasks: &TaskTracker,
) -> Result<(), CommandError> {
    loop {
        screen.draw(|frame| screen::draw(frame, &mut state)).map_err(CommandError::internal)?;
        let Some(first) = heard.recv().await else { return Ok(()) };
        let mut next = Some(first);
        // Apply all queued events before the next draw.
        while let Some(heard_now) = next {
            let wish = match heard_now {
                TopEvent::Key(key) => keys::press(&mut state, key),
                TopEvent::InputClosed => Some(UserCommand::Quit),
                other => {
                    state.apply(other);
                    None
                }
            };
            match wish {
                Some(UserCommand::Quit) => return Ok(()),
                Some(UserCommand::Act(action)) => {
                    drop(tasks.spawn(connection::act(action, told.clone())));
                }
                Some(UserCommand::ShowApprovals(workbenches)) => {
                    drop(tasks.spawn(connection::show_approvals(workbenches, told.clone())));
                }
                None => {}
            }
            next = heard.try_recv().ok();
        }
    }
}
