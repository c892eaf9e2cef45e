//! `top`: all that goes on in every workbench of this user, live in a terminal, with keys to do something
//! about it.
//!
//! *Theory of operation.* Each workbench that is found is watched through its socket by a task of its
//! own. What they say, what is typed and what became of what was asked for goes to one [`State`], which a
//! pure function draws. The terminal is put back however this ends.

mod keys;
mod link;
mod screen;
mod state;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::app;
use crate::cli::error::Error;
use crate::cli::top::keys::Wish;
use crate::cli::top::link::Heard;
use crate::cli::top::state::State;
use crate::cli::top::terminal::Screen;
use crate::cli::{Global, block_on};
use crate::config::env::{EnvSource, ProcessEnv};

/// How much of what is heard may wait.
const HEARD: usize = 256;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench top
  NO_COLOR=1 mcp-workbench top

Keys: arrows or j and k choose, o or Enter starts a server, s stops it, r restarts it, m switches it off
until m is pressed again, Tab goes to the calls and back, / filters by name, ? shows all keys, q ends it.";

/// Watch servers, calls and failures live, with keys to act
///
/// Shows every workbench of this user that serves: its toolboxes and servers with their state, memory,
/// tokens and times, calls as they end, and the last words of the chosen server. A server that is
/// stopped starts again when an agent wants it; one that is switched off does not, and its agents are
/// told so. Either is so for all who share its process. `ps` prints the same once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// Watches until somebody has had enough.
pub(crate) fn run(global: &Global, _: &Args) -> Result<ExitCode, Error> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::failed("`top` draws on a terminal, and this is none")
            .hint("`mcp-workbench ps` prints what runs, with `--json` for programs"));
    }
    let cache = global.cache()?;
    let has_color = ProcessEnv.get("NO_COLOR").is_none_or(|value| value.is_empty());
    block_on(async {
        let (told, heard) = mpsc::channel(HEARD);
        let mut screen = Screen::open(told.clone()).map_err(Error::internal)?;
        let tasks = TaskTracker::new();
        tasks.spawn(link::find(cache, told.clone(), tasks.clone()));
        let state = State::new(has_color);
        let watched = app::until_signal(watch(&mut screen, state, (told, heard), &tasks)).await;
        drop(screen);
        match watched {
            Ok(watched) => watched,
            // The terminal is as it was; whoever sent the signal knows why.
            Err(app::Stopped::Signal(_)) => Ok(()),
            Err(stopped) => Err(Error::internal(stopped)),
        }
    })??;
    Ok(ExitCode::SUCCESS)
}

async fn watch(
    screen: &mut Screen,
    mut state: State,
    (told, mut heard): (mpsc::Sender<Heard>, mpsc::Receiver<Heard>),
    tasks: &TaskTracker,
) -> Result<(), Error> {
    loop {
        screen.draw(|frame| screen::draw(frame, &mut state)).map_err(Error::internal)?;
        let Some(first) = heard.recv().await else { return Ok(()) };
        let mut next = Some(first);
        // Whatever has come meanwhile is drawn at once.
        while let Some(heard_now) = next {
            let wish = match heard_now {
                Heard::Key(key) => keys::press(&mut state, key),
                Heard::End => Some(Wish::Quit),
                other => {
                    state.hear(other);
                    None
                }
            };
            match wish {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Act(deed)) => drop(tasks.spawn(link::act(deed, told.clone()))),
                None => {}
            }
            next = heard.try_recv().ok();
        }
    }
}
