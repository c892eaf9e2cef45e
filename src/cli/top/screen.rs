//! Draws the screen as a pure function of the state.

use std::path::Path;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Borders, Cell, Clear, Paragraph, Row as TableRow, Table, TableState, Wrap,
};

use crate::admin::{CallStatus, LockDrift, ServerState, ServerStatus, WorkbenchStatus};
use crate::cli::cache::format_age;
use crate::cli::top::state::{InputMode, Pane, TopState, TreeRow, whole};
use crate::cli::units::number;
use crate::name::untrusted_text;

/// Below this height, in lines, only one pane is shown.
const LOW: u16 = 16;

const KEYS: &str = " o start  s stop  r restart  m pause  Tab calls  / filter  ? help  q quit";
const HELP: &str = "\
↑ ↓ j k     select; PgUp PgDn Home End jump further
o Enter     start the server, or all servers of the toolbox
s           stop it; it starts again on demand
r           restart it
m           pause or resume it; a paused server does not start
l           sign in to the server: shows the URL to open
Tab         switch between servers and calls
/           filter by name; Esc clears the filter
q Ctrl-C    quit

Actions affect all agents that share the server's process.
Press any key.";

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
            Pane::Calls => calls(frame, state, body),
        }
    } else {
        let details = details(state);
        let wanted = u16::try_from(details.len()).unwrap_or(u16::MAX).saturating_add(1);
        let parts = [
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(wanted.min(body.height / 3)),
        ];
        let [upper, middle, lower] = Layout::vertical(parts).areas(body);
        servers(frame, state, upper);
        calls(frame, state, middle);
        let block = Block::new().borders(Borders::TOP).title(" Details ");
        let details = Paragraph::new(details).wrap(Wrap { trim: true });
        frame.render_widget(details.block(block), lower);
    }
    frame.render_widget(Paragraph::new(foot_line(state)), foot);
    if state.input_mode == InputMode::Help {
        let area = middle(frame.area(), 66, 15);
        frame.render_widget(Clear, area);
        let block = Block::bordered().title(" Keys ");
        frame.render_widget(Paragraph::new(HELP).block(block), area);
    }
    if state.input_mode == InputMode::Page {
        // Without borders, so that the URL can be selected without other text.
        let lines: Vec<Line<'_>> = state.page.iter().map(|line| Line::from(&**line)).collect();
        frame.render_widget(Clear, frame.area());
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), frame.area());
    }
}

fn title(state: &TopState) -> Line<'static> {
    let views = || state.workbenches.values().map(|bench| &bench.view);
    let servers = || views().flat_map(|view| &view.toolboxes).flat_map(|toolbox| &toolbox.servers);
    let running = servers().filter(|server| server.state == ServerState::Running).count();
    let agents: usize = views().map(|view| view.agents.len()).sum();
    let in_flight: u64 = views().map(|view| view.calls_in_flight).sum();
    let saved: i64 = views().map(|view| view.saved_tokens).sum();
    let text = format!(
        "{}  {running}/{} servers  {}  {}  {} tokens saved",
        counted(state.workbenches.len(), "workbench", "workbenches"),
        servers().count(),
        counted(agents, "agent", "agents"),
        counted(
            usize::try_from(in_flight).unwrap_or(usize::MAX),
            "call in flight",
            "calls in flight"
        ),
        number(usize::try_from(saved).unwrap_or_default()),
    );
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
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
        None => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
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
    let widths = [Constraint::Fill(1)]
        .into_iter()
        .chain(shown.iter().map(|(_, (_, width, _))| Constraint::Length(*width)));
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
}

fn cells(row: &TreeRow<'_>) -> (String, [String; COLUMNS.len()]) {
    let view = row.view;
    let Some(server) = row.server else {
        let mut cells: [String; COLUMNS.len()] = Default::default();
        let Some(name) = &row.key.toolbox else {
            cells[1] = mebibytes(view.memory_bytes);
            let file = Path::new(&view.config).file_name().unwrap_or_default().to_string_lossy();
            return (format!("{} {file} {}", view.pid, view.endpoint), cells);
        };
        return (format!(" {name}"), cells);
    };
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

fn calls(frame: &mut Frame<'_>, state: &TopState, area: Rect) {
    let all = state.calls();
    let lines =
        all.iter().skip(state.scrolled).take(usize::from(area.height)).map(|(view, call)| {
            let style = if state.has_color && !matches!(&*call.outcome, "ok" | "input_required") {
                Style::new().fg(Color::Red)
            } else {
                Style::new()
            };
            Line::styled(call_line(view, call, area.width), style)
        });
    let is_chosen = state.pane == Pane::Calls;
    let title = Span::styled(
        format!(" Calls {} ", if all.is_empty() { "(none yet)" } else { "" }).replace("  ", " "),
        if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() },
    );
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

fn call_line(view: &WorkbenchStatus, call: &CallStatus, width: u16) -> String {
    let ended = call.at.saturating_add(whole(call.ms));
    let ago = format_age(Duration::from_millis(view.at.saturating_sub(ended)));
    let place = [call.toolbox.as_deref(), call.server.as_deref(), Some(&call.tool)];
    let place: Vec<_> = place.into_iter().flatten().collect();
    let place = if width < 60 { call.tool.clone() } else { place.join("/") };
    let client = view.agents.iter().find(|agent| agent.session == call.session);
    let client = client.and_then(|agent| agent.client.as_deref());
    let who = call.agent.as_deref().or(client).unwrap_or("-");
    let start = format!("{ago:>6} {:<9} {:>8} ms  {place}", call.outcome, millis(call.ms));
    if width < 60 {
        return format!("{ago:>6} {:<9} {:>7} {place}", call.outcome, millis(call.ms));
    }
    let answer = call.result_bytes.map_or_else(|| "-".to_owned(), bytes);
    format!("{start}  {who}  {} → {answer}", bytes(call.argument_bytes))
}

fn details(state: &TopState) -> Vec<Line<'static>> {
    let rows = state.rows();
    let Some(row) = rows.get(state.selected_index(&rows)) else { return Vec::new() };
    let view = row.view;
    let Some(server) = row.server else {
        let Some(name) = &row.key.toolbox else {
            let version = format!("{}, mode {}, version {}", view.config, view.mode, view.version);
            let agents = view.agents.iter().map(|agent| {
                let names = [agent.client.as_deref(), agent.name.as_deref()];
                let names: Vec<_> = names.into_iter().flatten().collect();
                let who =
                    if names.is_empty() { "unnamed agent".to_owned() } else { names.join(" as ") };
                let tokens = usize::try_from(agent.saved_tokens).unwrap_or_default();
                format!("{who}: {} calls, {} tokens saved", agent.calls, number(tokens))
            });
            return [version].into_iter().chain(agents).map(Line::from).collect();
        };
        let toolbox = view.toolboxes.iter().find(|toolbox| toolbox.name == *name);
        let Some(toolbox) = toolbox else { return Vec::new() };
        let spared = usize::try_from(toolbox.saved_tokens).unwrap_or(usize::MAX);
        let of_it = format!(
            "opened by {} of {}, {} tokens of its definitions saved",
            toolbox.opened,
            counted(view.agents.len(), "agent", "agents"),
            number(spared),
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
            ", p50 {} p95 {} p99 {} ms",
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
    let what = counted(drift.count, "definition differs", "definitions differ");
    let mut lines = vec![
        format!("> {what} from workbench.lock ({becomes}); to accept:"),
        format!("> {}", untrusted_text::single_line(&drift.accept)),
    ];
    lines.extend(
        drift.differences.iter().map(|one| format!("> {}", untrusted_text::single_line(one))),
    );
    lines.into_iter().map(Line::from).collect()
}

fn mebibytes(bytes: Option<u64>) -> String {
    let whole = |bytes: u64| usize::try_from(bytes.div_ceil(1024 * 1024)).unwrap_or(usize::MAX);
    bytes.map(|bytes| format!("{} MB", number(whole(bytes)))).unwrap_or_default()
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

fn millis(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

#[cfg(test)]
mod tests;
