//! Draws the screen as a pure function of the state.

mod calls;
mod help;

use std::path::Path;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Borders, Cell, Clear, Paragraph, Row as TableRow, Table, TableState, Wrap,
};

use crate::cli::monitoring::top::state::{InputMode, Pane, TopState, TreeRow};
use crate::cli::output::{format_age, format_count, mebibytes, number};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_serve::admin::{
    AgentStatus, LockDrift, ServerState, ServerStatus, WorkbenchStatus,
};

/// Below this height, in lines, only one pane is shown.
const LOW: u16 = 16;
/// Maximum width of the column of names, so that wide screens keep a row together.
const MAX_NAME: u16 = 60;

pub(super) use crate::cli::monitoring::top::screen::calls::details as call_details;

pub(super) fn draw(frame: &mut Frame<'_>, state: &mut TopState) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(title(state)), head);
    if state.workbenches.is_empty() {
        frame.render_widget(Paragraph::new(empty_message(state)).wrap(Wrap { trim: true }), body);
    } else if body.height < LOW {
        match state.pane {
            Pane::Servers => servers(frame, state, body),
            Pane::Calls => calls::draw(frame, state, body),
        }
    } else {
        let details = details(state);
        // Wrapped at spaces, lines can need one row more; then the last one is cut off.
        let rows = |line: &Line<'_>| line.width().div_ceil(body.width.max(1).into()).max(1);
        let wanted = details.iter().map(rows).sum::<usize>() + 1;
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        // The chosen pane gets more space.
        let [upper, middle] = match state.pane {
            Pane::Servers => [3, 2],
            Pane::Calls => [2, 3],
        };
        let parts = [
            Constraint::Fill(upper),
            Constraint::Fill(middle),
            Constraint::Length(wanted.min(body.height / 3)),
        ];
        let [upper, middle, lower] = Layout::vertical(parts).areas(body);
        servers(frame, state, upper);
        calls::draw(frame, state, middle);
        let block = Block::new().borders(Borders::TOP).title(" Details ");
        let details = Paragraph::new(details).wrap(Wrap { trim: true });
        frame.render_widget(details.block(block), lower);
    }
    frame.render_widget(Paragraph::new(foot_line(state)), foot);
    match state.input_mode {
        InputMode::Help => popup(frame, " Keys ", help::KEYS),
        InputMode::Words => popup(frame, " Words ", help::WORDS),
        InputMode::Rows | InputMode::Filter | InputMode::Page => {}
    }
    if state.input_mode == InputMode::Page {
        // Without borders, so that the URL can be selected without other text.
        let lines: Vec<Line<'_>> = state.page.iter().map(|line| Line::from(&**line)).collect();
        frame.render_widget(Clear, frame.area());
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), frame.area());
    }
}

fn popup(frame: &mut Frame<'_>, title: &'static str, text: &'static str) {
    let area = frame.area();
    let size = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).saturating_add(2);
    let width = size(text.lines().map(|line| line.chars().count()).max().unwrap_or_default());
    let (width, height) = (width.min(area.width), size(text.lines().count()).min(area.height));
    let area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(title)), area);
}

fn title(state: &TopState) -> Line<'static> {
    let views = || state.workbenches.values().map(|bench| &bench.view);
    let servers = || views().flat_map(|view| &view.toolboxes).flat_map(|toolbox| &toolbox.servers);
    let running = servers().filter(|server| server.state == ServerState::Running).count();
    let agents: usize = views().map(|view| view.agents.len()).sum();
    let in_flight: u64 = views().map(|view| view.calls_in_flight).sum();
    let saved: i64 = views().map(|view| view.saved_tokens).sum();
    let waiting: usize = views().map(|view| view.approvals).sum();
    let waiting = match waiting {
        0 => String::new(),
        waiting => format!("  {} for approval: a", format_count(waiting, "call")),
    };
    let text = format!(
        "{}  {running}/{} servers  {}  {} in flight{waiting}  {} tokens saved",
        format_count(state.workbenches.len(), "workbench"),
        servers().count(),
        format_count(agents, "agent"),
        format_count(usize::try_from(in_flight).unwrap_or(usize::MAX), "call"),
        number(usize::try_from(saved).unwrap_or_default()),
    );
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn empty_message(state: &TopState) -> String {
    if !state.unreachable_pids.is_empty() {
        let all: Vec<_> = state.unreachable_pids.iter().map(u32::to_string).collect();
        return format!(
            "Some workbenches cannot be monitored (PIDs {}): they run another version or have no \
             admin socket. `mcp-workbench ps` lists them.",
            all.join(", ")
        );
    }
    if state.has_looked {
        "No running workbench (`--unlisted` ones are hidden). New ones appear automatically."
            .to_owned()
    } else {
        "Looking for workbenches…".to_owned()
    }
}

fn foot_line(state: &TopState) -> Line<'static> {
    if state.input_mode == InputMode::Filter {
        return Line::from(format!(" filter: {}_", state.filter));
    }
    match &state.note {
        Some(note) => Line::from(format!(" {}", note.lines().next().unwrap_or_default())),
        None if !state.filter.is_empty() => {
            Line::from(format!(" filter: {} (Esc clears it)", state.filter))
        }
        None => {
            let keys = match state.pane {
                Pane::Servers => help::SERVER_KEYS,
                Pane::Calls => help::CALL_KEYS,
            };
            Line::styled(keys, Style::new().add_modifier(Modifier::DIM))
        }
    }
}

/// The columns after the name: title, width, and the minimum screen width to show it.
const COLUMNS: [(&str, u16, u16); 7] = [
    ("State", 10, 0),
    ("Memory", 8, 56),
    ("Tools", 5, 76),
    ("Tokens", 7, 66),
    ("Calls", 6, 36),
    ("Errors", 6, 48),
    ("p95 ms", 8, 78),
];

fn servers(frame: &mut Frame<'_>, state: &TopState, area: Rect) {
    let rows = state.rows();
    let index = state.selected_index(&rows);
    let shown: Vec<_> =
        COLUMNS.iter().enumerate().filter(|(_, column)| column.2 <= area.width).collect();
    let lines = rows.iter().map(|row| {
        let cells = cells(row);
        let name = Cell::new(cells.0);
        let rest = shown.iter().map(|(at, _)| {
            let text = cells.1[*at].clone();
            if *at == 0 {
                Cell::new(Span::styled(text, state_style(state, row.server)))
            } else {
                Cell::new(Line::from(text).right_aligned())
            }
        });
        TableRow::new([name].into_iter().chain(rest))
    });
    // Each column is a space apart from the one before it.
    let others: u16 = shown.iter().map(|(_, (_, width, _))| width + 1).sum();
    let widths = [area.width.saturating_sub(others).min(MAX_NAME)]
        .into_iter()
        .chain(shown.iter().map(|(_, (_, width, _))| *width))
        .map(Constraint::Length);
    let heads = shown.iter().map(|(at, (head, ..))| {
        let head = Line::from(*head);
        Cell::new(if *at == 0 { head } else { head.right_aligned() })
    });
    let head = TableRow::new([Cell::new("Server")].into_iter().chain(heads))
        .style(Style::new().add_modifier(Modifier::UNDERLINED));
    let is_chosen = state.pane == Pane::Servers;
    let chosen = if is_chosen { Modifier::REVERSED } else { Modifier::BOLD };
    let table = Table::new(lines, widths)
        .header(head)
        .row_highlight_style(Style::new().add_modifier(chosen));
    let mut scrolled = TableState::new().with_selected(Some(index));
    frame.render_stateful_widget(table, area, &mut scrolled);
    // The rows of workbenches and toolboxes use all columns.
    let visible = rows.iter().enumerate().skip(scrolled.offset());
    for ((at, row), y) in visible.zip(area.y.saturating_add(1)..area.bottom()) {
        if row.server.is_some() {
            continue;
        }
        let style = if at == index { Style::new().add_modifier(chosen) } else { Style::new() };
        let area = Rect { y, height: 1, ..area };
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(wide_row(row)).style(style), area);
    }
}

/// The text of a workbench or toolbox.
fn wide_row(row: &TreeRow<'_>) -> String {
    let view = row.view;
    if let Some(name) = &row.key.toolbox {
        let toolbox = view.toolboxes.iter().find(|toolbox| toolbox.name == *name);
        let description = toolbox.map(|toolbox| &*toolbox.description).unwrap_or_default();
        return format!(" {name}  {description}");
    }
    let file = Path::new(&view.config).file_name().unwrap_or_default().to_string_lossy();
    let memory = mebibytes(view.memory_bytes);
    let parts = [clients(view), file.into_owned(), view.endpoint.clone()];
    let pid = format!("process {}", view.pid);
    let parts = parts.into_iter().chain([pid, memory]).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" · ")
}

/// The clients of a workbench, each with the number of its sessions if it has several.
fn clients(view: &WorkbenchStatus) -> String {
    let mut clients: Vec<(String, usize)> = Vec::new();
    for agent in &view.agents {
        let name = client_name(agent).unwrap_or_else(|| "unnamed client".to_owned());
        match clients.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sessions)) => *sessions += 1,
            None => clients.push((name, 1)),
        }
    }
    if clients.is_empty() {
        return "no client".to_owned();
    }
    let clients = clients.into_iter().map(|(name, sessions)| match sessions {
        1 => name,
        _ => format!("{name} ×{sessions}"),
    });
    clients.collect::<Vec<_>>().join(", ")
}

/// The name and version that a client reports.
fn client_name(agent: &AgentStatus) -> Option<String> {
    let parts = [agent.client.as_deref(), agent.version.as_deref()];
    agent.client.as_ref().map(|_| parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

fn cells(row: &TreeRow<'_>) -> (String, [String; COLUMNS.len()]) {
    let Some(server) = row.server else { return Default::default() };
    let count = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    let cells = [
        state_word(server).to_owned(),
        mebibytes(server.memory_bytes),
        server.tools.map(|tools| tools.to_string()).unwrap_or_default(),
        server
            .tokens
            .map(|tokens| number(usize::try_from(tokens).unwrap_or(usize::MAX)))
            .unwrap_or_default(),
        count(server.calls),
        count(server.errors),
        server.latency.map(|latency| millis(latency.p95)).unwrap_or_default(),
    ];
    (format!("  {}", server.name), cells)
}

fn state_word(server: &ServerStatus) -> &'static str {
    match server.state {
        _ if server.is_paused => "paused",
        _ if server.sign_in.as_ref().is_some_and(|sign_in| sign_in.is_in_progress) => "signing in",
        _ if server.sign_in.is_some() => "sign-in",
        _ if server.drift.as_ref().is_some_and(|drift| drift.action == "deny") => "blocked",
        ServerState::Stopped => "stopped",
        ServerState::Starting => "starting",
        ServerState::Running if server.drift.is_some() => "drift",
        ServerState::Running => "running",
        ServerState::Failed => "failed",
    }
}

fn state_style(state: &TopState, server: Option<&ServerStatus>) -> Style {
    let Some(server) = server.filter(|_| state.has_color) else { return Style::new() };
    Style::new().fg(match server.state {
        _ if server.is_paused => Color::Magenta,
        _ if server.sign_in.is_some() || server.drift.is_some() => Color::Yellow,
        ServerState::Stopped => Color::DarkGray,
        ServerState::Starting => Color::Yellow,
        ServerState::Running => Color::Green,
        ServerState::Failed => Color::Red,
    })
}

fn details(state: &TopState) -> Vec<Line<'static>> {
    if state.pane == Pane::Calls {
        return calls::details(state).into_iter().map(Line::from).collect();
    }
    let rows = state.rows();
    let Some(row) = rows.get(state.selected_index(&rows)) else { return Vec::new() };
    let view = row.view;
    let Some(server) = row.server else {
        let Some(name) = &row.key.toolbox else {
            let version = format!("{}, mode {}, version {}", view.config, view.mode, view.version);
            let agents = view.agents.iter().map(|agent| {
                let client = client_name(agent).unwrap_or_else(|| "unnamed client".to_owned());
                let name = agent.name.iter().map(|name| format!(" as {name}"));
                let calls = usize::try_from(agent.calls).unwrap_or(usize::MAX);
                let tokens = usize::try_from(agent.saved_tokens).unwrap_or_default();
                format!(
                    "{client}{}: {}, {} saved",
                    name.collect::<String>(),
                    format_count(calls, "call"),
                    format_count(tokens, "token")
                )
            });
            return [version].into_iter().chain(agents).map(Line::from).collect();
        };
        let toolbox = view.toolboxes.iter().find(|toolbox| toolbox.name == *name);
        let Some(toolbox) = toolbox else { return Vec::new() };
        let tokens: u64 = toolbox.servers.iter().filter_map(|server| server.tokens).sum();
        let of_it = format!(
            "opened by {} of {}; its definitions are about {}",
            toolbox.opened,
            format_count(view.agents.len(), "agent"),
            format_count(usize::try_from(tokens).unwrap_or(usize::MAX), "token"),
        );
        let text = format!("{name}: {}", toolbox.description);
        return [text, of_it].into_iter().map(Line::from).collect();
    };
    let since =
        server.since.map(|since| format_age(Duration::from_millis(view.at.saturating_sub(since))));
    let pid = server.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let since = since.map(|since| format!(" for {since}")).unwrap_or_default();
    let times = server.latency.map_or_else(String::new, |times| {
        format!(
            ", calls took p50 {} p95 {} p99 {} ms",
            millis(times.p50),
            millis(times.p95),
            millis(times.p99)
        )
    });
    let mut lines =
        vec![Line::from(format!("{}: {}{since}{pid}{times}", server.name, state_word(server)))];
    lines.extend(server.reason.clone().map(Line::from));
    lines.extend(server.sign_in.as_ref().map(|sign_in| {
        let whose = sign_in.account.as_ref().map_or_else(
            || "machine account".to_owned(),
            |account| format!("agent {}", untrusted_text::single_line(account)),
        );
        Line::from(if sign_in.is_in_progress {
            format!("> Sign-in in progress ({whose})")
        } else {
            format!("> Not signed in ({whose}): press l")
        })
    }));
    lines.extend(server.drift.iter().flat_map(drift));
    lines.extend(server.stderr_tail.iter().map(|said| Line::from(format!("> {said}"))));
    lines
}

fn drift(drift: &LockDrift) -> Vec<Line<'static>> {
    let becomes = match &*drift.action {
        "deny" => "server blocked",
        "quarantine" => "hidden from agents",
        _ => "not hidden from agents",
    };
    let verb = if drift.count == 1 { "differs" } else { "differ" };
    let what = format!("{} {verb}", format_count(drift.count, "definition"));
    let mut lines = vec![
        format!("> {what} from workbench.lock ({becomes}); to accept:"),
        format!("> {}", untrusted_text::single_line(&drift.accept)),
    ];
    lines.extend(
        drift.differences.iter().map(|one| format!("> {}", untrusted_text::single_line(one))),
    );
    lines.into_iter().map(Line::from).collect()
}

fn millis(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

#[cfg(test)]
mod tests;
