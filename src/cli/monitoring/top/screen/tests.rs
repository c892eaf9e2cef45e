use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::cli::monitoring::top::connection::{ActionKind, TopEvent};
use crate::cli::monitoring::top::keys::{self, UserCommand};
use mcp_workbench_core::telemetry::FinishedCall;
use mcp_workbench_serve::admin::{
    AgentStatus, Latency, LockDrift, MissingLogin, ServerAction, ToolboxStatus,
};

const NOW: u64 = 1_800_000_000_000;

fn server(name: &str, state: ServerState) -> ServerStatus {
    ServerStatus {
        name: name.to_owned(),
        state,
        since: Some(NOW - 65_000),
        ..ServerStatus::default()
    }
}

fn view() -> WorkbenchStatus {
    let running = ServerStatus {
        pid: Some(4711),
        memory_bytes: Some(48 * 1024 * 1024),
        tools: Some(26),
        tokens: Some(5120),
        calls: 12,
        errors: 1,
        latency: Some(Latency { p50: 1.25, p95: 88.0, p99: 240.0 }),
        stderr_tail: vec!["listening".to_owned(), "slow answer\u{1b}[2J".to_owned()],
        ..server("git", ServerState::Running)
    };
    let failed = ServerStatus {
        reason: Some("exited during startup with exit code 1".to_owned()),
        stderr_tail: vec!["Error: GITHUB_TOKEN is not set".to_owned()],
        ..server("github", ServerState::Failed)
    };
    let paused = ServerStatus { is_paused: true, ..server("browser", ServerState::Stopped) };
    let call = |number: u64, tool: &str, outcome: &str, ms: f64| FinishedCall {
        number,
        at: NOW - 10_000 * number,
        session: 1,
        toolbox: Some("dev".to_owned()),
        server: Some("git".to_owned()),
        tool: tool.to_owned(),
        ms,
        argument_bytes: 120,
        result_bytes: (outcome == "ok").then_some(15_400),
        outcome: outcome.to_owned(),
        reason: (outcome != "ok")
            .then(|| "server `git`: no response or progress for 60000 ms".to_owned()),
        ..FinishedCall::default()
    };
    WorkbenchStatus {
        at: NOW,
        pid: 4700,
        version: "0.1.0".to_owned(),
        config: "~/workbench-config.json".to_owned(),
        endpoint: "stdio".to_owned(),
        mode: "dynamic".to_owned(),
        memory_bytes: Some(9 * 1024 * 1024),
        agents: vec![AgentStatus {
            session: 1,
            client: Some("claude-code".to_owned()),
            version: Some("2.1.9".to_owned()),
            saved_tokens: 41_230,
            calls: 12,
            ..AgentStatus::default()
        }],
        toolboxes: vec![
            ToolboxStatus {
                name: "dev".to_owned(),
                description: "Version control and issues".to_owned(),
                servers: vec![running, failed],
                opened: 0,
            },
            ToolboxStatus {
                name: "web".to_owned(),
                servers: vec![paused],
                ..ToolboxStatus::default()
            },
        ],
        calls: vec![call(1, "git_log", "ok", 12.5), call(2, "git_push", "timed_out", 60_000.0)],
        calls_in_flight: 1,
        saved_tokens: 41_230,
        ..WorkbenchStatus::default()
    }
}

fn state() -> TopState {
    let mut state = TopState::new(true);
    state.apply(TopEvent::View("/run/x.sock".into(), Box::new(view())));
    state
}

fn drawn(state: &mut TopState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

fn press(state: &mut TopState, code: KeyCode) -> Option<UserCommand> {
    keys::press(state, KeyEvent::from(code))
}

#[test]
fn draws_everything_at_80_by_24() {
    assert_snapshot!(drawn(&mut state(), 80, 24));
}

#[test]
fn wide_screen_has_space_for_everything() {
    assert_snapshot!(drawn(&mut state(), 200, 24));
}

#[test]
fn narrow_screen_drops_optional_columns() {
    assert_snapshot!(drawn(&mut state(), 40, 24));
}

#[test]
fn shows_why_the_selected_server_failed() {
    let mut state = state();
    press(&mut state, KeyCode::Char('j'));
    assert_snapshot!(drawn(&mut state, 100, 20));
}

#[test]
fn shows_open_count_and_size_of_the_selected_toolbox() {
    let mut state = state();
    press(&mut state, KeyCode::Char('j'));
    press(&mut state, KeyCode::Char('j'));
    let screen = drawn(&mut state, 100, 20);
    let line = "opened by 0 of 1 agent; its definitions are about 0 tokens";
    assert!(screen.contains(line), "{screen}");
}

#[test]
fn workbenches_are_told_apart_by_their_clients() {
    let mut state = state();
    let agent = |client: Option<&str>, version: Option<&str>| AgentStatus {
        client: client.map(str::to_owned),
        version: version.map(str::to_owned),
        ..AgentStatus::default()
    };
    let codex = agent(Some("codex-mcp-client"), Some("0.171.0"));
    let mut agents = vec![codex.clone(), agent(None, None), codex];
    for pid in [4800, 4801] {
        let view = WorkbenchStatus { pid, agents: std::mem::take(&mut agents), ..view() };
        state.apply(TopEvent::View(format!("/run/{pid}.sock").into(), Box::new(view)));
    }
    let shown = drawn(&mut state, 100, 40);
    for row in [
        "claude-code 2.1.9 · workbench-config.json · stdio · process 4700 · 9 MB",
        "codex-mcp-client 0.171.0 ×2, unnamed client · workbench-config.json · stdio · process 4800",
        "no client · workbench-config.json · stdio · process 4801 · 9 MB",
    ] {
        assert!(shown.contains(row), "{row}\n{shown}");
    }
}

#[test]
fn details_show_why_the_selected_call_failed() {
    let mut state = state();
    press(&mut state, KeyCode::Tab);
    assert_snapshot!(drawn(&mut state, 80, 24));
    press(&mut state, KeyCode::Down);
    let shown = drawn(&mut state, 80, 24);
    assert!(shown.contains("dev/git/git_log: ok after 12 ms"), "{shown}");
}

#[test]
fn enter_shows_the_whole_error_of_a_call_and_starts_no_server() {
    let mut state = state();
    let mut view = view();
    let lines: Vec<_> = (1..=12).map(|line| format!("line {line}")).collect();
    view.calls[1].reason = Some(format!("\u{1b}[2Jfailed\n{}", lines.join("\n")));
    state.apply(TopEvent::View("/run/4700.sock".into(), Box::new(view)));
    let shown = drawn(&mut state, 80, 24);
    assert!(shown.contains("[2Jfailed") && !shown.contains("line 12"), "{shown}");
    press(&mut state, KeyCode::Tab);
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    let shown = drawn(&mut state, 80, 24);
    assert!(shown.contains("> line 12") && !shown.contains('\u{1b}'), "{shown}");
    press(&mut state, KeyCode::Char('q'));
    assert!(drawn(&mut state, 80, 24).contains("Enter whole error"));
}

#[test]
fn call_stays_selected_when_others_end() {
    let mut state = state();
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Down);
    let mut view = view();
    let newest = FinishedCall {
        number: 3,
        at: NOW + 60_000,
        tool: "git_new".to_owned(),
        ..view.calls[0].clone()
    };
    view.calls.insert(0, newest);
    state.apply(TopEvent::View("/run/4700.sock".into(), Box::new(view)));
    assert!(drawn(&mut state, 80, 24).contains("dev/git/git_log: ok"));
    press(&mut state, KeyCode::Home);
    assert!(drawn(&mut state, 80, 24).contains("dev/git/git_new: ok"));
}

#[test]
fn help_explains_keys_and_words_at_80_by_24() {
    let mut state = state();
    press(&mut state, KeyCode::Char('?'));
    let shown = drawn(&mut state, 80, 24);
    assert!(shown.contains("Press ? for the words"), "{shown}");
    press(&mut state, KeyCode::Char('?'));
    let shown = drawn(&mut state, 80, 24);
    for column in COLUMNS {
        assert!(shown.contains(column.0), "{shown}");
    }
    assert!(shown.contains("Press any key."), "{shown}");
    press(&mut state, KeyCode::Char('?'));
    assert!(drawn(&mut state, 80, 24).contains("Server  "), "closed");
}

#[test]
fn sign_in_key_shows_the_page_to_open() {
    let mut state = state();
    let mut view = view();
    let github = &mut view.toolboxes[0].servers[1];
    github.sign_in =
        Some(MissingLogin { account: Some("claude\u{1b}[2J".to_owned()), is_in_progress: false });
    state.apply(TopEvent::View("/run/4700.sock".into(), Box::new(view.clone())));
    assert_eq!(press(&mut state, KeyCode::Char('l')), None, "git needs no sign-in");
    press(&mut state, KeyCode::Char('j'));
    assert_snapshot!(drawn(&mut state, 100, 20));
    let Some(UserCommand::Act(action)) = press(&mut state, KeyCode::Char('l')) else {
        panic!("expected a sign-in action")
    };
    assert_eq!((action.what, action.server.as_deref()), (ActionKind::SignIn, Some("github")));
    let page = ["To sign in, open this:", "https://auth.example.com/authorize?x=1"];
    state.apply(TopEvent::Page(page.map(str::to_owned).into()));
    let shown = drawn(&mut state, 80, 10);
    assert!(shown.contains(page[1]) && !shown.contains("github"), "{shown}");
    press(&mut state, KeyCode::Char('x'));
    view.toolboxes[0].servers[1].sign_in.as_mut().unwrap().is_in_progress = true;
    state.apply(TopEvent::View("/run/4700.sock".into(), Box::new(view)));
    let shown = drawn(&mut state, 100, 20);
    assert!(shown.contains("Sign-in in progress"), "{shown}");
}

#[test]
fn shows_drift_with_the_accept_command() {
    let mut state = state();
    let mut view = view();
    let drift = |definitions: &str| LockDrift {
        action: definitions.to_owned(),
        count: 9,
        differences: vec![
            "tool `add` changed: description".to_owned(),
            "tool `s\u{1b}[2J` is new".to_owned(),
        ],
        accept: "mcp-workbench lock --accept github".to_owned(),
    };
    view.toolboxes[0].servers[1].state = ServerState::Running;
    view.toolboxes[0].servers[1].drift = Some(drift("quarantine"));
    state.apply(TopEvent::View("/run/4700.sock".into(), Box::new(view.clone())));
    press(&mut state, KeyCode::Char('j'));
    assert_snapshot!(drawn(&mut state, 100, 20));
    view.toolboxes[0].servers[1].drift = Some(drift("deny"));
    state.apply(TopEvent::View("/run/4700.sock".into(), Box::new(view)));
    let shown = drawn(&mut state, 100, 20);
    assert!(shown.contains("blocked") && shown.contains("server blocked"), "{shown}");
}

#[test]
fn distinguishes_no_workbench_from_unreachable_ones() {
    let mut state = TopState::new(false);
    assert!(drawn(&mut state, 60, 5).contains("Looking for workbenches"));
    state.apply(TopEvent::Running(vec![]));
    assert!(drawn(&mut state, 60, 5).contains("No running workbench"));
    state.apply(TopEvent::Running(vec![(7, false)]));
    assert!(drawn(&mut state, 60, 5).contains("cannot be monitored (PIDs 7)"));
    let mut state = self::state();
    state.apply(TopEvent::Running(vec![(4700, true)]));
    assert_eq!(state.workbenches.len(), 1);
    state.apply(TopEvent::Running(vec![]));
    assert!(drawn(&mut state, 60, 5).contains("No running workbench"));
}

#[test]
fn keys_act_on_the_selected_row() {
    let mut state = state();
    let deed = |state: &mut TopState, key| match press(state, KeyCode::Char(key)) {
        Some(UserCommand::Act(action)) => Some((action.what, action.toolbox, action.server)),
        _ => None,
    };
    let of = |act, toolbox: &str, server: Option<&str>| {
        Some((ActionKind::Act(act), toolbox.to_owned(), server.map(str::to_owned)))
    };
    assert_eq!(deed(&mut state, 's'), of(ServerAction::Stop, "dev", Some("git")));
    press(&mut state, KeyCode::Down);
    assert_eq!(deed(&mut state, 'r'), of(ServerAction::Restart, "dev", Some("github")));
    press(&mut state, KeyCode::Down);
    assert_eq!(deed(&mut state, 'o'), of(ServerAction::Start, "web", None));
    press(&mut state, KeyCode::End);
    assert_eq!(deed(&mut state, 'm'), of(ServerAction::Resume, "web", Some("browser")));
    press(&mut state, KeyCode::Home);
    assert_eq!(deed(&mut state, 'm'), None, "a workbench cannot be paused");
    assert!(drawn(&mut state, 80, 24).contains("select a server or toolbox"));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(UserCommand::Quit));
}

#[test]
fn filter_narrows_rows_and_takes_q_as_text() {
    let mut state = state();
    for key in ['/', 'q', 'r'] {
        assert_eq!(press(&mut state, KeyCode::Char(key)), None);
    }
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Backspace);
    for key in "BROW".chars() {
        press(&mut state, KeyCode::Char(key));
    }
    press(&mut state, KeyCode::Enter);
    let shown = drawn(&mut state, 80, 24);
    assert!(shown.contains("browser") && !shown.contains("github"), "{shown}");
    press(&mut state, KeyCode::Esc);
    assert!(drawn(&mut state, 80, 24).contains("github"));
}

#[test]
fn draws_at_any_size_without_control_characters() {
    for (width, height) in [(1, 1), (3, 2), (20, 6), (39, 15), (300, 100)] {
        let mut state = state();
        state.input_mode = if height > 10 { InputMode::Words } else { InputMode::Rows };
        let shown = drawn(&mut state, width, height);
        assert!(!shown.contains('\u{1b}'));
        press(&mut state, KeyCode::Char('x'));
        press(&mut state, KeyCode::Tab);
        press(&mut state, KeyCode::Down);
        drawn(&mut state, width, height);
    }
}
