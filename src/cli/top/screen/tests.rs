use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::cli::top::keys::{self, Wish};
use crate::cli::top::link::{Heard, What};
use crate::desk::{Act, Agent, Drift, Latency, SignIn, Toolbox};

const NOW: u64 = 1_800_000_000_000;

fn server(name: &str, state: ServerState) -> Server {
    Server { name: name.to_owned(), state, since: Some(NOW - 65_000), ..Server::default() }
}

fn view() -> View {
    let running = Server {
        pid: Some(4711),
        memory_bytes: Some(48 * 1024 * 1024),
        tools: Some(26),
        tokens: Some(5120),
        calls: 12,
        errors: 1,
        latency: Some(Latency { p50: 1.25, p95: 88.0, p99: 240.0 }),
        last_words: vec!["listening".to_owned(), "slow answer\u{1b}[2J".to_owned()],
        ..server("git", ServerState::Running)
    };
    let failed = Server {
        reason: Some("it ended before it was ready: exit status: 1".to_owned()),
        last_words: vec!["Error: GITHUB_TOKEN is not set".to_owned()],
        ..server("github", ServerState::Failed)
    };
    let muted = Server { is_muted: true, ..server("browser", ServerState::Stopped) };
    let call = |number: u64, tool: &str, outcome: &str, ms: f64| Call {
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
        ..Call::default()
    };
    View {
        at: NOW,
        pid: 4700,
        version: "0.1.0".to_owned(),
        config: "~/workbench-config.json".to_owned(),
        reached: "stdio".to_owned(),
        mode: "dynamic".to_owned(),
        memory_bytes: Some(9 * 1024 * 1024),
        agents: vec![Agent {
            session: 1,
            client: Some("claude-code".to_owned()),
            saved_tokens: 41_230,
            calls: 12,
            ..Agent::default()
        }],
        toolboxes: vec![
            Toolbox {
                name: "dev".to_owned(),
                description: "Version control and issues".to_owned(),
                servers: vec![running, failed],
                opened: 0,
                saved_tokens: 3_400,
            },
            Toolbox { name: "web".to_owned(), servers: vec![muted], ..Toolbox::default() },
        ],
        calls: vec![call(1, "git_log", "ok", 12.5), call(2, "git_push", "timed_out", 60_000.0)],
        under_way: 1,
        saved_tokens: 41_230,
        ..View::default()
    }
}

fn state() -> State {
    let mut state = State::new(true);
    state.hear(Heard::View("/run/x.sock".into(), Box::new(view())));
    state
}

fn drawn(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

fn press(state: &mut State, code: KeyCode) -> Option<Wish> {
    keys::press(state, KeyEvent::from(code))
}

#[test]
fn everything_is_on_a_screen_of_common_size() {
    assert_snapshot!(drawn(&mut state(), 80, 24));
}

#[test]
fn half_a_screen_has_what_matters_most() {
    assert_snapshot!(drawn(&mut state(), 40, 24));
}

#[test]
fn the_chosen_server_says_why_it_failed() {
    let mut state = state();
    press(&mut state, KeyCode::Char('j'));
    assert_snapshot!(drawn(&mut state, 100, 20));
}

#[test]
fn a_chosen_toolbox_says_who_has_it_open_and_what_that_spares() {
    let mut state = state();
    press(&mut state, KeyCode::Char('j'));
    press(&mut state, KeyCode::Char('j'));
    let screen = drawn(&mut state, 100, 20);
    let line = "open at 0 of 1 agent: 0 tokens of its definitions saved";
    assert!(screen.contains(line), "{screen}");
}

#[test]
fn a_server_that_wants_a_sign_in_has_a_key_that_shows_the_page() {
    let mut state = state();
    let mut view = view();
    let github = &mut view.toolboxes[0].servers[1];
    github.sign_in =
        Some(SignIn { account: Some("claude\u{1b}[2J".to_owned()), is_waited_for: false });
    state.hear(Heard::View("/run/4700.sock".into(), Box::new(view.clone())));
    assert_eq!(press(&mut state, KeyCode::Char('l')), None, "git wants none");
    press(&mut state, KeyCode::Char('j'));
    assert_snapshot!(drawn(&mut state, 100, 20));
    let Some(Wish::Act(deed)) = press(&mut state, KeyCode::Char('l')) else { panic!("no deed") };
    assert_eq!((deed.what, deed.server.as_deref()), (What::SignIn, Some("github")));
    let page = ["To sign in, open this:", "https://auth.example.com/authorize?x=1"];
    state.hear(Heard::Page(page.map(str::to_owned).into()));
    let shown = drawn(&mut state, 80, 10);
    assert!(shown.contains(page[1]) && !shown.contains("github"), "{shown}");
    press(&mut state, KeyCode::Char('x'));
    view.toolboxes[0].servers[1].sign_in.as_mut().unwrap().is_waited_for = true;
    state.hear(Heard::View("/run/4700.sock".into(), Box::new(view)));
    let shown = drawn(&mut state, 100, 20);
    assert!(shown.contains("Somebody is about to sign in"), "{shown}");
}

#[test]
fn a_server_that_says_what_nobody_has_reviewed_is_shown_with_the_command_that_helps() {
    let mut state = state();
    let mut view = view();
    let drift = |definitions: &str| Drift {
        definitions: definitions.to_owned(),
        count: 9,
        what: vec![
            "tool `add` has changed: description".to_owned(),
            "tool `s\u{1b}[2J` is new".to_owned(),
        ],
        accept: "mcp-workbench lock --accept github".to_owned(),
    };
    view.toolboxes[0].servers[1].state = ServerState::Running;
    view.toolboxes[0].servers[1].drift = Some(drift("quarantine"));
    state.hear(Heard::View("/run/4700.sock".into(), Box::new(view.clone())));
    press(&mut state, KeyCode::Char('j'));
    assert_snapshot!(drawn(&mut state, 100, 20));
    view.toolboxes[0].servers[1].drift = Some(drift("deny"));
    state.hear(Heard::View("/run/4700.sock".into(), Box::new(view)));
    let shown = drawn(&mut state, 100, 20);
    assert!(shown.contains("locked") && shown.contains("so it is not opened"), "{shown}");
}

#[test]
fn nobody_and_somebody_unseen_are_told_apart_and_who_goes_away_is_gone() {
    let mut state = State::new(false);
    assert!(drawn(&mut state, 60, 5).contains("Looking for workbenches"));
    state.hear(Heard::Running(vec![]));
    assert!(drawn(&mut state, 60, 5).contains("No workbench is serving now"));
    state.hear(Heard::Running(vec![(7, false)]));
    assert!(drawn(&mut state, 60, 5).contains("cannot be watched (processes 7)"));
    let mut state = self::state();
    state.hear(Heard::Running(vec![(4700, true)]));
    assert_eq!(state.benches.len(), 1);
    state.hear(Heard::Running(vec![]));
    assert!(drawn(&mut state, 60, 5).contains("No workbench is serving now"));
}

#[test]
fn keys_do_something_with_what_is_chosen() {
    let mut state = state();
    let deed = |state: &mut State, key| match press(state, KeyCode::Char(key)) {
        Some(Wish::Act(deed)) => Some((deed.what, deed.toolbox, deed.server)),
        _ => None,
    };
    let of = |act, toolbox: &str, server: Option<&str>| {
        Some((What::Act(act), toolbox.to_owned(), server.map(str::to_owned)))
    };
    assert_eq!(deed(&mut state, 's'), of(Act::Stop, "dev", Some("git")));
    press(&mut state, KeyCode::Down);
    assert_eq!(deed(&mut state, 'r'), of(Act::Restart, "dev", Some("github")));
    press(&mut state, KeyCode::Down);
    assert_eq!(deed(&mut state, 'o'), of(Act::Open, "web", None));
    press(&mut state, KeyCode::End);
    assert_eq!(deed(&mut state, 'm'), of(Act::Unmute, "web", Some("browser")));
    press(&mut state, KeyCode::Home);
    assert_eq!(deed(&mut state, 'm'), None, "a workbench is not muted");
    assert!(drawn(&mut state, 80, 24).contains("choose a toolbox or a server"));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Wish::Quit));
}

#[test]
fn a_filter_leaves_what_has_it_and_q_is_a_letter_of_it() {
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
fn any_size_can_be_drawn_and_nothing_commands_the_terminal() {
    for (width, height) in [(1, 1), (3, 2), (20, 6), (39, 15), (300, 100)] {
        let mut state = state();
        state.attention = if height > 10 { Attention::Help } else { Attention::Rows };
        let shown = drawn(&mut state, width, height);
        assert!(!shown.contains('\u{1b}'));
        press(&mut state, KeyCode::Char('x'));
        press(&mut state, KeyCode::Tab);
        press(&mut state, KeyCode::Down);
        drawn(&mut state, width, height);
    }
}
