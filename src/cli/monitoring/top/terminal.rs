//! The terminal in raw mode, and its restoration.

use std::io::{self, Stdout, stdout};
use std::sync::Once;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc;

use crate::cli::monitoring::top::connection::TopEvent;

/// Restores the terminal when dropped, and on a panic.
pub(super) struct TerminalGuard(Terminal<CrosstermBackend<Stdout>>);

impl TerminalGuard {
    /// Switches the terminal to raw mode and starts the thread that sends its events.
    pub(super) fn enter(told: mpsc::Sender<TopEvent>) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        // Any failure below has to restore the terminal.
        let entered = execute!(stdout(), EnterAlternateScreen);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let screen = Self(terminal.inspect_err(|_| restore())?);
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || listen(&told))?;
        Ok(screen)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nothing can be done if the terminal is gone.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Sends keys and resize events until the receiver is dropped.
fn listen(told: &mpsc::Sender<TopEvent>) {
    while let Ok(event) = event::read() {
        let heard = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => TopEvent::Key(key),
            Event::Resize(..) => TopEvent::Redraw,
            _ => continue,
        };
        if told.blocking_send(heard).is_err() {
            return;
        }
    }
    // Stdin has failed, so no key can quit the program.
    let _ = told.blocking_send(TopEvent::InputClosed);
}
