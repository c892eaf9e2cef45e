//! Draws the finished calls, and why they failed.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, List, ListItem, ListState};

use crate::cli::monitoring::top::screen::{client_name, millis};
use crate::cli::monitoring::top::state::{Pane, TopState, whole};
use crate::cli::output::{format_age, number};
use mcp_workbench_core::telemetry::FinishedCall;
use mcp_workbench_serve::admin::WorkbenchStatus;

/// Below this width, in columns, a line has only the most important parts.
const NARROW: u16 = 60;
const INDENT: &str = "       ";

pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState, area: Rect) {
    let all = state.calls();
    let outcome_width = all.iter().map(|(_, call)| call.outcome.len()).max().unwrap_or_default();
    let items = all.iter().map(|(view, call)| {
        let style = if state.has_color && is_bad(call) {
            Style::new().fg(Color::Red)
        } else {
            Style::new()
        };
        let first = Line::from(call_line(view, call, area.width, outcome_width.max(9)));
        let why = call.reason.as_deref().and_then(|reason| reason.lines().next());
        let why = why.map(|why| Line::from(format!("{INDENT}{why}")));
        ListItem::new([first].into_iter().chain(why).collect::<Text<'_>>()).style(style)
    });
    let is_chosen = state.pane == Pane::Calls;
    let title = Span::styled(
        if all.is_empty() { " Calls (none yet) " } else { " Calls " },
        if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() },
    );
    let chosen = if is_chosen { Modifier::REVERSED } else { Modifier::empty() };
    let list = List::new(items)
        .block(Block::new().borders(Borders::TOP).title(title))
        .highlight_style(Style::new().add_modifier(chosen));
    let mut scrolled = ListState::default().with_selected(Some(state.selected_call_index(&all)));
    frame.render_stateful_widget(list, area, &mut scrolled);
}

/// The selected call in full.
pub(in crate::cli::monitoring::top) fn details(state: &TopState) -> Vec<String> {
    let all = state.calls();
    let Some((view, call)) = all.get(state.selected_call_index(&all)) else { return Vec::new() };
    let size = call.result_bytes.map_or_else(|| "no result".to_owned(), bytes);
    let head = format!(
        "{}: {} after {} ms, {} ago, by {}, {} of arguments, {size}",
        place(call),
        outcome(call),
        millis(call.ms),
        age(view, call),
        who(view, call),
        bytes(call.argument_bytes),
    );
    let why = call.reason.iter().flat_map(|reason| reason.lines());
    [head].into_iter().chain(why.map(|line| format!("> {line}"))).collect()
}

fn call_line(
    view: &WorkbenchStatus,
    call: &FinishedCall,
    width: u16,
    outcome_width: usize,
) -> String {
    let (ago, ms, outcome) = (age(view, call), millis(call.ms), outcome(call));
    if width < NARROW {
        return format!("{ago:>6} {outcome:<9} {ms:>7} {}", call.tool);
    }
    let answer = call.result_bytes.map_or_else(|| "-".to_owned(), bytes);
    format!(
        "{ago:>6} {outcome:<outcome_width$} {ms:>8} ms  {}  {}  {} → {answer}",
        place(call),
        who(view, call),
        bytes(call.argument_bytes),
    )
}

fn is_bad(call: &FinishedCall) -> bool {
    !matches!(&*call.outcome, "ok" | "input_required" | "cancelled" | "shutting_down")
}

fn outcome(call: &FinishedCall) -> String {
    call.outcome.replace('_', " ")
}

fn place(call: &FinishedCall) -> String {
    let place = [call.toolbox.as_deref(), call.server.as_deref(), Some(&call.tool)];
    place.into_iter().flatten().collect::<Vec<_>>().join("/")
}

fn age(view: &WorkbenchStatus, call: &FinishedCall) -> String {
    let ended = call.at.saturating_add(whole(call.ms));
    format_age(Duration::from_millis(view.at.saturating_sub(ended)))
}

/// The client and the agent's name in policy, as far as they are known.
fn who(view: &WorkbenchStatus, call: &FinishedCall) -> String {
    let agent = view.agents.iter().find(|agent| agent.session == call.session);
    let client = agent.and_then(client_name).or_else(|| call.client.clone());
    match (client, &call.agent) {
        (Some(client), Some(agent)) => format!("{client} as {agent}"),
        (Some(client), None) => client,
        (None, Some(agent)) => agent.clone(),
        (None, None) => "-".to_owned(),
    }
}

fn bytes(count: u64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    match count {
        0..10_000 => format!("{} B", number(count)),
        10_000..10_000_000 => format!("{} kB", number(count / 1000)),
        _ => format!("{} MB", number(count / 1_000_000)),
    }
}
