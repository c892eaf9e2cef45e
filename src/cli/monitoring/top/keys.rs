//! Key bindings.

use std::path::PathBuf;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::cli::monitoring::top::connection::ActionRequest;
use crate::cli::monitoring::top::screen;
use crate::cli::monitoring::top::state::{InputMode, Pane, TopState};
use mcp_workbench_serve::admin::ServerAction;

/// In rows.
const PAGE: isize = 10;
/// In characters.
const MAX_FILTER: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UserCommand {
    Quit,
    Act(ActionRequest),
    ShowApprovals(Vec<(u32, PathBuf)>),
}

/// Applies a key to the state. Returns a command if the key needs more than that.
pub(super) fn press(state: &mut TopState, key: KeyEvent) -> Option<UserCommand> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && key.code == KeyCode::Char('c') {
        return Some(UserCommand::Quit);
    }
    if state.input_mode == InputMode::Filter {
        match key.code {
            KeyCode::Enter => state.input_mode = InputMode::Rows,
            KeyCode::Esc => {
                state.input_mode = InputMode::Rows;
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
    match std::mem::take(&mut state.input_mode) {
        InputMode::Help if key.code == KeyCode::Char('?') => {
            state.input_mode = InputMode::Words;
            return None;
        }
        InputMode::Help | InputMode::Words | InputMode::Page => return None,
        InputMode::Rows | InputMode::Filter => {}
    }
    state.note = None;
    let act = match key.code {
        KeyCode::Char('q') => return Some(UserCommand::Quit),
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
            state.input_mode = InputMode::Filter;
            return None;
        }
        KeyCode::Char('?' | 'h') => {
            state.input_mode = InputMode::Help;
            return None;
        }
        KeyCode::Enter if state.pane == Pane::Calls => {
            let mut lines = screen::call_details(state);
            if !lines.is_empty() {
                lines.extend([String::new(), "Press any key to go back.".to_owned()]);
                state.show_page(lines);
            }
            return None;
        }
        KeyCode::Enter | KeyCode::Char('o') => ServerAction::Start,
        KeyCode::Char('s') => ServerAction::Stop,
        KeyCode::Char('r') => ServerAction::Restart,
        KeyCode::Char('m') => ServerAction::Pause,
        KeyCode::Char('a') => return Some(UserCommand::ShowApprovals(state.sockets())),
        KeyCode::Char('l') => {
            let Some(action) = state.sign_in() else {
                state.note = Some("select a server that requires sign-in first".to_owned());
                return None;
            };
            state.note = Some(format!("{}: …", action.target()));
            return Some(UserCommand::Act(action));
        }
        _ => return None,
    };
    let Some(action) = state.action_for_selection(act) else {
        state.note = Some("select a server or toolbox first".to_owned());
        return None;
    };
    state.note = Some(format!("{}: …", action.target()));
    Some(UserCommand::Act(action))
}

fn go(state: &mut TopState, by: isize) -> Option<UserCommand> {
    state.step(by);
    None
}
