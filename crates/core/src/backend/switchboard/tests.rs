use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, Lines};
use tokio_util::task::TaskTracker;

use super::*;
use crate::name::AgentName;
use crate::raw::Raw;
use crate::wire::peer::Peer;
use crate::wire::writer::Writer;

/// A server that asks, and reads what it is answered.
struct Server {
    peer: Peer,
    writer: Writer,
    answers: Lines<BufReader<DuplexStream>>,
}

impl Server {
    fn new() -> Self {
        let (ours, its) = tokio::io::duplex(64 * 1024);
        let writer = Writer::start(ours, &TaskTracker::new());
        Self { peer: Peer::new(), writer, answers: BufReader::new(its).lines() }
    }

    fn says(&self, board: &Arc<Switchboard>, message: &Value) {
        let message = Bytes::from(message.to_string());
        if let Ok(Some(incoming)) = self.peer.take(&message, &self.writer) {
            board.hear(board.state(|state| state.process), incoming);
        }
    }

    fn asks(&self, board: &Arc<Switchboard>, method: &str) {
        self.says(board, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}));
    }

    async fn answer(&mut self) -> Value {
        let line = self.answers.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

/// The board of a server that more than one agent can use.
fn shared(has_roots: bool) -> Arc<Switchboard> {
    let secrets = Secrets::of_environment([("TOKEN", "hunter2hunter2")]);
    Arc::new(Switchboard::new("s".to_owned(), has_roots, false, Arc::new(secrets)))
}

/// An agent without a standing channel, with one request running.
fn calling(board: &Arc<Switchboard>) -> (Entry, events::Receiver) {
    let (sender, events) = events::channel(8);
    let agent = Presence::new(None);
    (board.enter(&agent, &"s".into(), LogLevel::UNSAID, Some(&sender)), events)
}

fn question(events: &mut events::Receiver) -> Option<Question> {
    match events.try_recv() {
        Some(Event::Question(question)) => Some(*question),
        _ => None,
    }
}

#[tokio::test]
async fn a_question_goes_to_the_one_agent_that_has_a_request_running() {
    let (mut server, board) = (Server::new(), shared(false));
    let (standing, mut outside) = events::channel(8);
    board.attach(&Presence::new(Some(standing)), &"s".into());
    let (entry, mut events) = calling(&board);
    server.asks(&board, "elicitation/create");
    assert!(question(&mut outside).is_none());
    let asked = question(&mut events).unwrap();
    assert!(entry.patient_since().is_some(), "a person may take their time");
    asked.answer(Outcome::Result(Raw::encode(&json!({"action": "accept"})))).await;
    assert_eq!(server.answer().await["result"]["action"], "accept");
    entry.is_answered();
    drop(entry);
    server.asks(&board, "elicitation/create");
    assert!(question(&mut outside).is_none(), "it may be about the one who has used it");
    board.begin_process();
    server.asks(&board, "elicitation/create");
    assert!(question(&mut outside).is_some(), "nobody has used this one");
}

#[tokio::test]
async fn a_question_that_could_be_meant_for_two_agents_is_declined() {
    let (mut server, board) = (Server::new(), shared(false));
    let ((_a, mut first), (_b, mut second)) = (calling(&board), calling(&board));
    assert!(!board.asks());
    server.asks(&board, "sampling/createMessage");
    assert_eq!(server.answer().await["error"]["code"], INVALID_REQUEST);
    assert!(question(&mut first).is_none() && question(&mut second).is_none());
    assert!(board.asks(), "from now on each agent gets a connection of its own");
}

#[tokio::test]
async fn a_question_waits_for_the_first_agent_that_comes() {
    let (server, board) = (Server::new(), shared(true));
    server.asks(&board, "roots/list");
    let (_entry, mut events) = calling(&board);
    assert_eq!(question(&mut events).unwrap().method, "roots/list");
}

#[tokio::test]
async fn roots_are_for_servers_that_may_know_them() {
    let (mut server, board) = (Server::new(), shared(false));
    let (_entry, mut events) = calling(&board);
    server.asks(&board, "roots/list");
    assert_eq!(server.answer().await["error"]["code"], METHOD_NOT_FOUND);
    assert!(question(&mut events).is_none());
}

#[tokio::test]
async fn a_log_message_goes_to_those_who_want_to_hear_it_under_its_servers_name() {
    let (server, board) = (Server::new(), shared(false));
    let (sender, mut quiet) = events::channel(8);
    let agent = Presence::new(None);
    let entry =
        board.enter(&agent, &"s".into(), LogLevel::from_word("error").unwrap(), Some(&sender));
    let params = json!({"level": "info", "logger": "db", "data": 1.50});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    server.says(&board, &log);
    assert!(quiet.try_recv().is_none());
    drop(entry);
    board.begin_process();
    let (_entry, mut loud) = calling(&board);
    server.says(&board, &log);
    let Some(Event::Notice { params, .. }) = loud.try_recv() else { panic!("no notice") };
    assert_eq!(params.unwrap().as_str(), r#"{"level":"info","logger":"s/db","data":1.5}"#);
}

#[tokio::test]
async fn an_agent_hears_of_a_shared_process_by_its_own_name_for_the_server() {
    let (server, board) = (Server::new(), shared(false));
    let (standing, mut outside) = events::channel(8);
    let (ann, name) = (Presence::new(Some(standing)), "hers".into());
    board.attach(&ann, &name);
    let (sender, mut within) = events::channel(8);
    let entry = board.enter(&ann, &name, LogLevel::UNSAID, Some(&sender));
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}});
    let logger = |events: &mut events::Receiver| {
        let Some(Event::Notice { params: Some(params), .. }) = events.try_recv() else {
            panic!("no notice")
        };
        params.member("logger").map(|logger| logger.as_str().into_owned())
    };
    server.says(&board, &log);
    assert_eq!(logger(&mut within).as_deref(), Some(r#""hers""#));
    entry.is_answered();
    drop(entry);
    server.says(&board, &log);
    assert_eq!(logger(&mut outside).as_deref(), Some(r#""hers""#));
}

/// An agent that can be told things at any time, by this name if it has one.
fn attached(board: &Arc<Switchboard>, name: Option<&str>) -> (Presence, events::Receiver) {
    let (standing, outside) = events::channel(8);
    let agent = Presence::new(Some(standing)).named(name.map(AgentName::new));
    board.attach(&agent, &"s".into());
    (agent, outside)
}

/// A call that has been answered.
fn called(board: &Arc<Switchboard>, agent: &Presence) {
    board.enter(agent, &"s".into(), LogLevel::UNSAID, None).is_answered();
}

fn methods(events: &mut events::Receiver) -> Vec<String> {
    let methods = std::iter::from_fn(|| events.try_recv()).map(|event| match event {
        Event::Notice { method, .. } => method,
        Event::Question(question) => question.method.clone(),
        Event::Progress(_) => "progress".to_owned(),
    });
    methods.collect()
}

/// Whatever says something of somebody.
const TALK: [&str; 4] = [
    "notifications/message",
    "notifications/elicitation/complete",
    "notifications/tasks/status",
    "notifications/unheard/of",
];

fn talks(server: &Server, board: &Arc<Switchboard>) {
    for method in TALK {
        let params = json!({"level": "error", "data": "of whom?", "taskId": "t"});
        server.says(board, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

#[tokio::test]
async fn a_process_that_one_agent_alone_has_used_speaks_to_it_and_one_that_others_have_to_nobody() {
    let (server, board) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&board, Some("ann"));
    let (bob, mut to_bob) = attached(&board, Some("bob"));
    talks(&server, &board);
    assert_eq!((methods(&mut to_ann).len(), methods(&mut to_bob).len()), (0, 0), "of nobody");
    called(&board, &ann);
    talks(&server, &board);
    assert_eq!(methods(&mut to_ann), TALK);
    called(&board, &bob);
    board.detach(ann.id);
    talks(&server, &board);
    let (sender, mut within) = events::channel(8);
    let _entry = board.enter(&bob, &"s".into(), LogLevel::UNSAID, Some(&sender));
    talks(&server, &board);
    assert_eq!(methods(&mut to_bob).len() + methods(&mut within).len(), 0, "it may be of ann");
    board.begin_process();
    talks(&server, &board);
    assert_eq!(methods(&mut within), TALK, "this one has never heard of ann");
}

#[tokio::test]
async fn what_an_earlier_process_still_says_is_nobodys() {
    let (server, board) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&board, Some("ann"));
    let before = board.begin_process();
    called(&board, &ann);
    board.begin_process();
    let late = json!({"jsonrpc": "2.0", "method": TALK[0], "params": {"data": "late"}});
    if let Ok(Some(incoming)) = server.peer.take(&Bytes::from(late.to_string()), &server.writer) {
        board.hear(before, incoming);
    }
    assert!(methods(&mut to_ann).is_empty());
}

#[tokio::test]
async fn of_two_sessions_of_one_name_the_one_that_calls_hears_and_of_two_that_call_neither() {
    let (server, board) = (Server::new(), shared(false));
    let (one, mut to_one) = attached(&board, Some("ann"));
    let (other, mut to_other) = attached(&board, Some("ann"));
    let (sender, mut within) = events::channel(8);
    let _entry = board.enter(&one, &"s".into(), LogLevel::UNSAID, Some(&sender));
    talks(&server, &board);
    assert_eq!(methods(&mut within), TALK);
    let _other = board.enter(&other, &"s".into(), LogLevel::UNSAID, None);
    talks(&server, &board);
    let heard = [&mut within, &mut to_one, &mut to_other].map(methods);
    assert!(heard.iter().all(Vec::is_empty), "{heard:?}");
}

#[tokio::test]
async fn a_question_that_may_be_of_another_agents_call_is_put_to_nobody() {
    let (mut server, board) = (Server::new(), shared(false));
    let named = |name: &str| Presence::new(None).named(Some(AgentName::new(name)));
    called(&board, &named("ann"));
    let (sender, mut events) = events::channel(8);
    let entry = board.enter(&named("bob"), &"s".into(), LogLevel::UNSAID, Some(&sender));
    server.asks(&board, "elicitation/create");
    assert_eq!(server.answer().await["error"]["code"], INVALID_REQUEST);
    assert!(question(&mut events).is_none() && board.asks());
    drop(entry);
    // Of sessions that have no names, one that left nothing to do cannot be meant.
    board.begin_process();
    called(&board, &Presence::new(None));
    let (entry, mut events) = calling(&board);
    server.asks(&board, "elicitation/create");
    assert!(question(&mut events).is_some());
    drop((entry, events));
    let (_entry, mut events) = calling(&board);
    server.asks(&board, "elicitation/create");
    assert!(question(&mut events).is_none(), "the last call was given up, and may go on there");
}

#[tokio::test]
async fn a_task_is_told_of_to_whose_it_is_and_one_of_two_to_nobody() {
    let (server, board) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&board, Some("ann"));
    let (bob, mut to_bob) = attached(&board, Some("bob"));
    let [anns, bobs]: [Arc<str>; 2] = ["ann".into(), "bob".into()];
    called(&board, &ann);
    called(&board, &bob);
    board.claim_task(&ann, "t", &anns);
    assert!(board.may_hold_task("t", &anns) && !board.may_hold_task("t", &bobs));
    talks(&server, &board);
    assert_eq!(methods(&mut to_ann), [TALK[2]]);
    board.claim_task(&bob, "t", &bobs);
    assert!(!board.may_hold_task("t", &anns) && !board.may_hold_task("t", &bobs));
    talks(&server, &board);
    assert_eq!((methods(&mut to_ann).len(), methods(&mut to_bob).len()), (0, 0));
}

#[tokio::test]
async fn whether_a_resource_is_told_of_depends_on_an_agents_own_subscriptions() {
    let (server, board) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&board, Some("ann"));
    let (bob, mut to_bob) = attached(&board, Some("bob"));
    board.subscribe(&ann, "file:///a", "a_file:///a", None);
    let said = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "file:///a/b"}});
    let uris = |events: &mut events::Receiver| {
        let uris = std::iter::from_fn(|| events.try_recv()).map(|event| match event {
            Event::Notice { params, .. } => {
                params.unwrap().member("uri").unwrap().as_str().into_owned()
            }
            _ => panic!("another event"),
        });
        uris.collect::<Vec<_>>()
    };
    server.says(&board, &said);
    let alone = uris(&mut to_ann);
    board.subscribe(&bob, "file:///a/b", "b_file:///a/b", None);
    server.says(&board, &said);
    assert_eq!(uris(&mut to_ann), alone);
    assert_eq!(alone, [r#""file:///a/b""#]);
    assert_eq!(uris(&mut to_bob), [r#""b_file:///a/b""#]);
}
