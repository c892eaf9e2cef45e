//! The terminal while something is drawn on it, and as it was before.

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

use crate::cli::top::link::Heard;

/// The screen. When it is dropped the terminal is as it was, and when something panics, too.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal, and tells of what is typed from now on.
    pub(super) fn open(told: mpsc::Sender<Heard>) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        // From here on it is put back.
        let entered = execute!(stdout(), EnterAlternateScreen);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let screen = Self(terminal.inspect_err(|_| restore())?);
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || listen(&told))?;
        Ok(screen)
    }

    /// Draws.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nothing can be done about a terminal that is gone.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Tells of keys and of another size until nobody hears.
fn listen(told: &mpsc::Sender<Heard>) {
    while let Ok(event) = event::read() {
        let heard = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => Heard::Key(key),
            Event::Resize(..) => Heard::Nothing,
            _ => continue,
        };
        if told.blocking_send(heard).is_err() {
            return;
        }
    }
    // Whoever typed is gone, and could not end it.
    let _ = told.blocking_send(Heard::End);
}
