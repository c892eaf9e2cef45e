use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, Lines};
use tokio_util::task::TaskTracker;

use super::*;
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
            board.hear(incoming);
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

/// An agent without a standing channel, with one request running.
fn calling(board: &Arc<Switchboard>) -> (Entry, events::Receiver) {
    let (sender, events) = events::channel(8);
    let agent = Presence::new(None);
    (board.enter(agent.id, LogLevel::UNSAID, Some(&sender)), events)
}

fn question(events: &mut events::Receiver) -> Option<Question> {
    match events.try_recv() {
        Some(Event::Question(question)) => Some(question),
        _ => None,
    }
}

#[tokio::test]
async fn a_question_goes_to_the_one_agent_that_has_a_request_running() {
    let (mut server, board) = (Server::new(), Arc::new(Switchboard::new("s".to_owned(), false)));
    let (standing, mut outside) = events::channel(8);
    board.attach(&Presence::new(Some(standing)));
    let (entry, mut events) = calling(&board);
    server.asks(&board, "elicitation/create");
    assert!(question(&mut outside).is_none());
    let asked = question(&mut events).unwrap();
    assert!(entry.patient_since().is_some(), "a person may take their time");
    asked.answer(Outcome::Result(Raw::encode(&json!({"action": "accept"})))).await;
    assert_eq!(server.answer().await["result"]["action"], "accept");
    drop(entry);
    server.asks(&board, "elicitation/create");
    assert!(question(&mut outside).is_some(), "nobody has a request running");
}

#[tokio::test]
async fn a_question_that_could_be_meant_for_two_agents_is_declined() {
    let (mut server, board) = (Server::new(), Arc::new(Switchboard::new("s".to_owned(), false)));
    let ((_a, mut first), (_b, mut second)) = (calling(&board), calling(&board));
    assert!(!board.asks());
    server.asks(&board, "sampling/createMessage");
    assert_eq!(server.answer().await["error"]["code"], INVALID_REQUEST);
    assert!(question(&mut first).is_none() && question(&mut second).is_none());
    assert!(board.asks(), "from now on each agent gets a connection of its own");
}

#[tokio::test]
async fn a_question_waits_for_the_first_agent_that_comes() {
    let (server, board) = (Server::new(), Arc::new(Switchboard::new("s".to_owned(), true)));
    server.asks(&board, "roots/list");
    let (_entry, mut events) = calling(&board);
    assert_eq!(question(&mut events).unwrap().method, "roots/list");
}

#[tokio::test]
async fn roots_are_for_servers_that_may_know_them() {
    let (mut server, board) = (Server::new(), Arc::new(Switchboard::new("s".to_owned(), false)));
    let (_entry, mut events) = calling(&board);
    server.asks(&board, "roots/list");
    assert_eq!(server.answer().await["error"]["code"], METHOD_NOT_FOUND);
    assert!(question(&mut events).is_none());
}

#[tokio::test]
async fn a_log_message_goes_to_those_who_want_to_hear_it_under_its_servers_name() {
    let (server, board) = (Server::new(), Arc::new(Switchboard::new("s".to_owned(), false)));
    let (sender, mut quiet) = events::channel(8);
    let agent = Presence::new(None);
    let _quiet = board.enter(agent.id, LogLevel::from_word("error").unwrap(), Some(&sender));
    let (_entry, mut loud) = calling(&board);
    let params = json!({"level": "info", "logger": "db", "data": 1.50});
    server.says(
        &board,
        &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
    );
    assert!(quiet.try_recv().is_none());
    let Some(Event::Notice { params, .. }) = loud.try_recv() else { panic!("no notice") };
    assert_eq!(params.unwrap().as_str(), r#"{"level":"info","logger":"s/db","data":1.5}"#);
}
