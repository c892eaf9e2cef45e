//! Reads a passphrase and single keys from the terminal, never from a pipe.

use std::io::{self, Write, stderr};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::cli::output::CommandError;

/// Maximum length of a passphrase, in characters.
const MAX_PASSPHRASE: usize = 1024;

/// A key that the user pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    Char(char),
    Enter,
    Backspace,
    /// Ctrl-C, Ctrl-D or Esc.
    Cancel,
    Other,
}

/// The terminal in raw mode, so that typed characters don't appear.
struct RawMode;

impl RawMode {
    fn enter() -> Result<Self, CommandError> {
        enable_raw_mode().map_err(|error| {
            CommandError::failed("approvals need a terminal")
                .because(&error)
                .with_hint("run the command yourself in a terminal; it reads no pipe")
        })?;
        Ok(Self)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing can be done if the terminal is gone.
        let _ = disable_raw_mode();
    }
}

/// Asks for a passphrase without showing it.
pub(crate) fn read_passphrase(prompt: &str) -> Result<String, CommandError> {
    let raw = RawMode::enter()?;
    show(prompt)?;
    let mut passphrase = String::new();
    let read = loop {
        match next_key(None) {
            Ok(Some(Pressed::Char(c))) if passphrase.chars().count() < MAX_PASSPHRASE => {
                passphrase.push(c);
            }
            Ok(Some(Pressed::Backspace)) => drop(passphrase.pop()),
            Ok(Some(Pressed::Enter)) => break Ok(passphrase),
            Ok(Some(Pressed::Cancel)) => break Err(CommandError::failed("cancelled")),
            Ok(_) => {}
            Err(error) => break Err(CommandError::internal(error)),
        }
    };
    drop(raw);
    show("\n")?;
    read
}

/// Shows a prompt and waits for a key, at most for `patience`.
pub(crate) fn read_key(prompt: &str, patience: Duration) -> Result<Option<Pressed>, CommandError> {
    // First, so that a quick key doesn't appear.
    let _raw = RawMode::enter()?;
    show(prompt)?;
    next_key(Some(patience)).map_err(CommandError::internal)
}

/// Shows a prompt, which must be plain text of this program.
pub(crate) fn show(prompt: &str) -> Result<(), CommandError> {
    let mut out = stderr().lock();
    out.write_all(prompt.as_bytes()).and_then(|()| out.flush()).map_err(CommandError::internal)
}

fn next_key(patience: Option<Duration>) -> io::Result<Option<Pressed>> {
    if let Some(patience) = patience
        && !event::poll(patience)?
    {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else { return Ok(Some(Pressed::Other)) };
    Ok(Some(pressed(key)))
}

fn pressed(key: KeyEvent) -> Pressed {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind == KeyEventKind::Release => Pressed::Other,
        KeyCode::Char('c' | 'd') if is_control => Pressed::Cancel,
        KeyCode::Char('j' | 'm') if is_control => Pressed::Enter,
        KeyCode::Char('h') if is_control => Pressed::Backspace,
        KeyCode::Char(_) if is_control => Pressed::Other,
        KeyCode::Char(c) => Pressed::Char(c),
        KeyCode::Enter => Pressed::Enter,
        KeyCode::Backspace => Pressed::Backspace,
        KeyCode::Esc => Pressed::Cancel,
        _ => Pressed::Other,
    }
}
