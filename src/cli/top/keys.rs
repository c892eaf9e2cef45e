//! Keys, and the deeds that they are for.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::cli::top::link::Deed;
use crate::cli::top::state::{Attention, Pane, State};
use crate::desk::Act;

/// How far a page is.
const PAGE: isize = 10;
/// The most characters of a filter.
const MAX_FILTER: usize = 60;

/// Something that is to be done outside of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    Act(Deed),
}

/// Takes a key, and returns the wish that it stands for.
pub(super) fn press(state: &mut State, key: KeyEvent) -> Option<Wish> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && key.code == KeyCode::Char('c') {
        return Some(Wish::Quit);
    }
    if state.attention == Attention::Filter {
        match key.code {
            KeyCode::Enter => state.attention = Attention::Rows,
            KeyCode::Esc => {
                state.attention = Attention::Rows;
                state.filter.clear();
            }
            KeyCode::Backspace => drop(state.filter.pop()),
            KeyCode::Char(c) if !is_control && state.filter.chars().count() < MAX_FILTER => {
                state.filter.push(c);
            }
            _ => {}
        }
        return None;
    }
    if matches!(std::mem::take(&mut state.attention), Attention::Help | Attention::Page) {
        return None;
    }
    state.note = None;
    let act = match key.code {
        KeyCode::Char('q') => return Some(Wish::Quit),
        KeyCode::Esc => {
            state.filter.clear();
            return None;
        }
        KeyCode::Up | KeyCode::Char('k') => return go(state, -1),
        KeyCode::Down | KeyCode::Char('j') => return go(state, 1),
        KeyCode::PageUp => return go(state, -PAGE),
        KeyCode::PageDown => return go(state, PAGE),
        KeyCode::Home | KeyCode::Char('g') => return go(state, isize::MIN),
        KeyCode::End | KeyCode::Char('G') => return go(state, isize::MAX),
        KeyCode::Tab => {
            state.pane = if state.pane == Pane::Servers { Pane::Calls } else { Pane::Servers };
            return None;
        }
        KeyCode::Char('/') => {
            state.attention = Attention::Filter;
            return None;
        }
        KeyCode::Char('?' | 'h') => {
            state.attention = Attention::Help;
            return None;
        }
        KeyCode::Enter | KeyCode::Char('o') => Act::Open,
        KeyCode::Char('s') => Act::Stop,
        KeyCode::Char('r') => Act::Restart,
        KeyCode::Char('m') => Act::Mute,
        KeyCode::Char('l') => {
            let Some(deed) = state.sign_in() else {
                state.note = Some("choose a server that wants a sign-in first".to_owned());
                return None;
            };
            state.note = Some(format!("{}: …", deed.whom()));
            return Some(Wish::Act(deed));
        }
        _ => return None,
    };
    let Some(deed) = state.deed(act) else {
        state.note = Some("choose a toolbox or a server first".to_owned());
        return None;
    };
    state.note = Some(format!("{}: …", deed.whom()));
    Some(Wish::Act(deed))
}

fn go(state: &mut State, by: isize) -> Option<Wish> {
    state.step(by);
    None
}
