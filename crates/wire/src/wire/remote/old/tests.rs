use std::net::TcpListener;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wire::mailbox::RequestError;
use crate::wire::remote::tests::{EVENTS, Got, JSON, Server, answer, ask, error, result};
use crate::wire::remote::{Failure, Transport};
use crate::wire::server::{Link, Lost, Outcome};

/// The most bytes of a message in these tests.
const MAX: usize = 4096;

/// A server that has just been asked for its stream.
struct Old {
    server: Server,
    link: Link,
    stream: Got,
}

impl Old {
    /// Begins a session up to where the first message is posted.
    async fn begin(said: &str) -> (Self, crate::wire::outgoing::Pending) {
        let mut server = Server::start().await;
        let (link, _) = server.link_by(Transport::Sse, MAX);
        let greeting = ask(&link, "initialize").await;
        let mut stream = server.next().await;
        assert_eq!((stream.line.as_str(), stream.header("accept")), ("GET", "text/event-stream"));
        assert_eq!(stream.header("authorization"), "Bearer hunter2");
        stream.begins("200 OK", EVENTS, said).await;
        (Self { server, link, stream }, greeting)
    }

    /// Begins a session as it should be.
    async fn begun() -> Self {
        let (mut old, greeting) = Self::begin("event: endpoint\ndata: /post?sessionId=1\n\n").await;
        old.answers(json!({"protocolVersion": "2024-11-05"})).await;
        assert_eq!(result(greeting).await["protocolVersion"], "2024-11-05");
        old
    }

    /// Acknowledges the next message and answers it on the stream.
    async fn answers(&mut self, result: Value) {
        let got = self.accepts().await;
        self.says(&answer(&got["id"], result)).await;
    }

    /// Acknowledges the next message.
    async fn accepts(&mut self) -> Value {
        let got = self.server.next().await;
        assert_eq!((got.line.as_str(), got.path.as_str()), ("POST", "/post?sessionId=1"));
        assert_eq!(got.header("authorization"), "Bearer hunter2");
        let body = got.body.clone();
        got.says("202 Accepted", "", "Accepted").await;
        body
    }

    async fn says(&mut self, message: &str) {
        self.stream.adds(&format!("event: message\ndata: {message}\n\n")).await;
    }
}

#[tokio::test]
async fn messages_go_where_the_server_says_and_answers_come_on_its_stream() {
    let mut old = Old::begun().await;
    // Whoever speaks later does not move it.
    old.stream.adds(": still here\n\nevent: endpoint\ndata: /other\n\n").await;
    let (one, other) = (ask(&old.link, "a").await, ask(&old.link, "b").await);
    let (first, second) = (old.accepts().await, old.accepts().await);
    let by_method = |got: &Value| got["method"].clone();
    old.says(&answer(&second["id"], by_method(&second))).await;
    old.says(&answer(&first["id"], by_method(&first))).await;
    assert_eq!((result(one).await, result(other).await), (json!("a"), json!("b")));
    drop(ask(&old.link, "slow").await);
    assert_eq!(old.accepts().await["method"], "slow");
    assert_eq!(old.accepts().await["method"], "notifications/cancelled");
    old.link.close_input();
    old.stream.waits_for_hang_up().await;
}

#[tokio::test]
async fn an_endpoint_of_another_server_is_refused_and_gets_nothing() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let there = elsewhere.local_addr().unwrap();
    for said in [format!("http://{there}/post"), format!("//{there}/post"), "http://[".to_owned()] {
        let (mut old, greeting) = Old::begin(&format!("event: endpoint\ndata: {said}\n\n")).await;
        let error = error(greeting).await;
        assert_eq!(error["data"], json!(Failure::Broken));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("another server") || message.contains("no address"), "{message}");
        // Nor is anything sent to the server itself.
        drop(old.link);
        assert!(old.server.has_none().await);
    }
    assert!(elsewhere.accept().is_err(), "somebody came");
}

#[tokio::test]
async fn an_absolute_endpoint_of_its_own_is_taken() {
    let mut server = Server::start().await;
    let (link, _) = server.link_by(Transport::Sse, MAX);
    let mut greeting = ask(&link, "initialize").await;
    let mut stream = server.next().await;
    let endpoint = server.url.join("/post").unwrap();
    stream.begins("200 OK", EVENTS, &format!("event: endpoint\ndata: {endpoint}\n\n")).await;
    let got = server.next().await;
    assert_eq!(got.path, "/post");
    // Some servers answer where nothing should be.
    let body = answer(&got.body["id"], json!("here"));
    got.says("202 Accepted", JSON, &body).await;
    let Ok(Outcome::Result(result)) = greeting.done().await else { panic!("no result") };
    assert_eq!(result.as_str(), "\"here\"");
}

#[tokio::test]
async fn a_server_that_never_says_where_messages_go_is_given_up() {
    let (mut old, greeting) = Old::begin(": wait\n\n").await;
    tokio::time::pause();
    let error = error(greeting).await;
    assert!(error["message"].as_str().unwrap().contains("within 10 s"), "{error}");
    assert!(old.server.has_none().await);
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_session() {
    let mut old = Old::begun().await;
    let mut call = ask(&old.link, "tools/call").await;
    old.accepts().await;
    drop(old.stream);
    assert_eq!(call.done().await.unwrap_err(), RequestError::Closed);
    assert_eq!(old.link.lost(), Some(Lost::Connection));
}

#[tokio::test]
async fn what_was_certainly_not_taken_is_told_from_what_may_have_been() {
    let mut old = Old::begun().await;
    let (mut taken, mut later) = (ask(&old.link, "a").await, ask(&old.link, "b").await);
    for _ in 0..2 {
        let got = old.server.next().await;
        if got.body["method"] == "a" {
            got.says("202 Accepted", "", "").await;
        } else {
            got.says("503 Service Unavailable", "retry-after: 5\r\n", "").await;
        }
    }
    let mut trouble = old.link.trouble();
    trouble.wait_for(Option::is_some).await.unwrap();
    // The note is made in the same breath as the pause begins.
    tokio::task::yield_now().await;
    drop(old.stream);
    assert_eq!(later.done().await.unwrap_err(), RequestError::NotSent);
    assert_eq!(taken.done().await.unwrap_err(), RequestError::Closed);
}

#[tokio::test]
async fn a_message_that_is_refused_fails_alone() {
    let mut old = Old::begun().await;
    let refused = ask(&old.link, "a").await;
    old.server.next().await.says("500 Internal Server Error", "", "hunter2").await;
    let message = error(refused).await["message"].to_string();
    assert!(message.contains("500") && !message.contains("hunter2"), "{message}");
    let call = ask(&old.link, "b").await;
    old.answers(json!(1)).await;
    assert_eq!(result(call).await, json!(1));
}

#[tokio::test]
async fn an_event_that_is_too_long_costs_its_request_alone() {
    let mut old = Old::begun().await;
    let (mut long, short) = (ask(&old.link, "a").await, ask(&old.link, "b").await);
    let (one, other) = (old.accepts().await, old.accepts().await);
    let (one, other) = if one["method"] == "a" { (one, other) } else { (other, one) };
    let (id, text) = (&one["id"], "x".repeat(3 * MAX));
    old.says(&format!(r#"{{"result":"{text}","jsonrpc":"2.0","id":{id}}}"#)).await;
    old.says(&answer(&other["id"], json!(2))).await;
    let Err(RequestError::Oversized(length)) = long.done().await else { panic!("no such error") };
    assert!(length > 3 * MAX, "{length}");
    assert_eq!(result(short).await, json!(2));
}

#[tokio::test]
async fn an_endless_event_before_the_endpoint_takes_no_more_room_than_a_message() {
    let (mut old, greeting) = Old::begin("data: ").await;
    for _ in 0..64 {
        old.stream.adds(&"x".repeat(MAX)).await;
    }
    old.stream.adds("\n\nevent: endpoint\ndata: post?sessionId=1\n\n").await;
    old.answers(json!({})).await;
    assert_eq!(result(greeting).await, json!({}));
}

#[tokio::test]
async fn a_server_that_knows_nothing_of_the_newer_transport_is_tried_in_the_older() {
    for status in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        let mut server = Server::start().await;
        let (link, _) = server.link_by(Transport::Either, MAX);
        let greeting = ask(&link, "initialize").await;
        server.next().await.says(status, "", "").await;
        let mut stream = server.next().await;
        assert_eq!(stream.line, "GET");
        stream.begins("200 OK", EVENTS, "event: endpoint\ndata: post\n\n").await;
        let got = server.next().await;
        assert_eq!((got.path.as_str(), &got.body["method"]), ("/post", &json!("initialize")));
        let id = got.body["id"].clone();
        got.says("202 Accepted", "", "").await;
        stream.adds(&format!("data: {}\n\n", answer(&id, json!("old")))).await;
        assert_eq!(result(greeting).await, json!("old"));
        assert!(link.is_old());
    }
}

#[tokio::test]
async fn a_refusal_that_has_another_reason_stays_what_it_is() {
    for status in ["401 Unauthorized", "403 Forbidden", "410 Gone", "500 Internal Server Error"] {
        let mut server = Server::start().await;
        let (link, _) = server.link_by(Transport::Either, MAX);
        let greeting = ask(&link, "initialize").await;
        server.next().await.says(status, "", "").await;
        assert!(error(greeting).await["message"].as_str().unwrap().contains(status));
        assert!(server.has_none().await, "{status}");
    }
    // What is not there in the older way either is told as it was at first, or as it matters.
    for (second, told) in [("404 Not Found", "405"), ("410 Gone", "410"), ("403 Forbidden", "403")]
    {
        let mut server = Server::start().await;
        let (link, _) = server.link_by(Transport::Either, MAX);
        let greeting = ask(&link, "initialize").await;
        server.next().await.says("405 Method Not Allowed", "", "").await;
        server.next().await.says(second, "", "").await;
        let error = error(greeting).await;
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
    }
}
