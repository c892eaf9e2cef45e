use std::net::TcpListener;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::http_client::tests::{EVENTS, Got, JSON, Server, answer, ask, error, result};
use crate::http_client::{HttpTransportError, TransportMode};
use crate::mailbox::RequestError;
use crate::server::{DisconnectReason, RpcOutcome, ServerConnection};

const MAX: usize = 4096;

/// A server that has received the GET for its event stream.
struct Old {
    server: Server,
    connection: ServerConnection,
    stream: Got,
}

impl Old {
    /// Starts a session, up to the point where the first message is posted.
    async fn begin(said: &str) -> (Self, crate::outgoing::PendingRequest) {
        let mut server = Server::start().await;
        let (connection, _) = server.link_by(TransportMode::Sse, MAX);
        let pending = ask(&connection, "initialize").await;
        let mut stream = server.next().await;
        assert_eq!((stream.line.as_str(), stream.header("accept")), ("GET", "text/event-stream"));
        assert_eq!(stream.header("authorization"), "Bearer hunter2");
        stream.begins("200 OK", EVENTS, said).await;
        (Self { server, connection, stream }, pending)
    }

    async fn begun() -> Self {
        let (mut old, pending) = Self::begin("event: endpoint\ndata: /post?sessionId=1\n\n").await;
        old.answers(json!({"protocolVersion": "2024-11-05"})).await;
        assert_eq!(result(pending).await["protocolVersion"], "2024-11-05");
        old
    }

    /// Acknowledges the next message and responds on the event stream.
    async fn answers(&mut self, result: Value) {
        let got = self.accepts().await;
        self.says(&answer(&got["id"], result)).await;
    }

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
async fn messages_go_to_the_endpoint_and_responses_come_on_the_stream() {
    let mut old = Old::begun().await;
    // A second `endpoint` event is ignored.
    old.stream.adds(": still here\n\nevent: endpoint\ndata: /other\n\n").await;
    let (one, other) = (ask(&old.connection, "a").await, ask(&old.connection, "b").await);
    let (first, second) = (old.accepts().await, old.accepts().await);
    let by_method = |got: &Value| got["method"].clone();
    old.says(&answer(&second["id"], by_method(&second))).await;
    old.says(&answer(&first["id"], by_method(&first))).await;
    assert_eq!((result(one).await, result(other).await), (json!("a"), json!("b")));
    drop(ask(&old.connection, "slow").await);
    assert_eq!(old.accepts().await["method"], "slow");
    assert_eq!(old.accepts().await["method"], "notifications/cancelled");
    old.connection.close_input();
    old.stream.waits_for_hang_up().await;
}

// invariant: token-per-server
#[tokio::test]
async fn cross_origin_endpoint_is_rejected() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let there = elsewhere.local_addr().unwrap();
    for said in [format!("http://{there}/post"), format!("//{there}/post"), "http://[".to_owned()] {
        let (mut old, pending) = Old::begin(&format!("event: endpoint\ndata: {said}\n\n")).await;
        let error = error(pending).await;
        assert_eq!(error["data"], json!(HttpTransportError::Broken));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("another origin") || message.contains("invalid URL"), "{message}");
        // The server itself gets no message either.
        drop(old.connection);
        assert!(old.server.has_none().await);
    }
    assert!(elsewhere.accept().is_err(), "a connection was made to the other origin");
}

#[tokio::test]
async fn absolute_same_origin_endpoint_is_accepted() {
    let mut server = Server::start().await;
    let (connection, _) = server.link_by(TransportMode::Sse, MAX);
    let mut pending = ask(&connection, "initialize").await;
    let mut stream = server.next().await;
    let endpoint = server.url.join("/post").unwrap();
    stream.begins("200 OK", EVENTS, &format!("event: endpoint\ndata: {endpoint}\n\n")).await;
    let got = server.next().await;
    assert_eq!(got.path, "/post");
    // Some servers respond in the body of the POST.
    let body = answer(&got.body["id"], json!("here"));
    got.says("202 Accepted", JSON, &body).await;
    let Ok(RpcOutcome::Result(result)) = pending.response().await else { panic!("no result") };
    assert_eq!(result.as_str(), "\"here\"");
}

#[tokio::test]
async fn missing_endpoint_event_times_out() {
    let (mut old, pending) = Old::begin(": wait\n\n").await;
    tokio::time::pause();
    let error = error(pending).await;
    assert!(error["message"].as_str().unwrap().contains("within 10 s"), "{error}");
    assert!(old.server.has_none().await);
}

#[tokio::test]
async fn end_of_stream_ends_the_session() {
    let mut old = Old::begun().await;
    let mut call = ask(&old.connection, "tools/call").await;
    old.accepts().await;
    drop(old.stream);
    assert_eq!(call.response().await.unwrap_err(), RequestError::Closed);
    assert_eq!(old.connection.disconnect_reason(), Some(DisconnectReason::Connection));
}

#[tokio::test]
async fn undelivered_requests_fail_as_not_sent() {
    let mut old = Old::begun().await;
    let (mut taken, mut later) = (ask(&old.connection, "a").await, ask(&old.connection, "b").await);
    for _ in 0..2 {
        let got = old.server.next().await;
        if got.body["method"] == "a" {
            got.says("202 Accepted", "", "").await;
        } else {
            got.says("503 Service Unavailable", "retry-after: 5\r\n", "").await;
        }
    }
    let mut trouble = old.connection.unavailable_reason();
    trouble.wait_for(Option::is_some).await.unwrap();
    // The reason is set in the same poll that starts the retry delay.
    tokio::task::yield_now().await;
    drop(old.stream);
    assert_eq!(later.response().await.unwrap_err(), RequestError::NotSent);
    assert_eq!(taken.response().await.unwrap_err(), RequestError::Closed);
}

#[tokio::test]
async fn rejected_message_does_not_end_the_session() {
    let mut old = Old::begun().await;
    let refused = ask(&old.connection, "a").await;
    old.server.next().await.says("500 Internal Server Error", "", "hunter2").await;
    let message = error(refused).await["message"].to_string();
    assert!(message.contains("500") && !message.contains("hunter2"), "{message}");
    let call = ask(&old.connection, "b").await;
    old.answers(json!(1)).await;
    assert_eq!(result(call).await, json!(1));
}

#[tokio::test]
async fn oversized_event_fails_only_its_request() {
    let mut old = Old::begun().await;
    let (mut long, short) = (ask(&old.connection, "a").await, ask(&old.connection, "b").await);
    let (one, other) = (old.accepts().await, old.accepts().await);
    let (one, other) = if one["method"] == "a" { (one, other) } else { (other, one) };
    let (id, text) = (&one["id"], "x".repeat(3 * MAX));
    old.says(&format!(r#"{{"result":"{text}","jsonrpc":"2.0","id":{id}}}"#)).await;
    old.says(&answer(&other["id"], json!(2))).await;
    let Err(RequestError::Oversized(length)) = long.response().await else {
        panic!("no such error")
    };
    assert!(length > 3 * MAX, "{length}");
    assert_eq!(result(short).await, json!(2));
}

#[tokio::test]
async fn oversized_event_before_the_endpoint_is_bounded() {
    let (mut old, pending) = Old::begin("data: ").await;
    for _ in 0..64 {
        old.stream.adds(&"x".repeat(MAX)).await;
    }
    old.stream.adds("\n\nevent: endpoint\ndata: post?sessionId=1\n\n").await;
    old.answers(json!({})).await;
    assert_eq!(result(pending).await, json!({}));
}

#[tokio::test]
async fn client_falls_back_to_sse_after_400_404_or_405() {
    for status in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        let mut server = Server::start().await;
        let (connection, _) = server.link_by(TransportMode::StreamableThenSse, MAX);
        let pending = ask(&connection, "initialize").await;
        server.next().await.says(status, "", "").await;
        let mut stream = server.next().await;
        assert_eq!(stream.line, "GET");
        stream.begins("200 OK", EVENTS, "event: endpoint\ndata: post\n\n").await;
        let got = server.next().await;
        assert_eq!((got.path.as_str(), &got.body["method"]), ("/post", &json!("initialize")));
        let id = got.body["id"].clone();
        got.says("202 Accepted", "", "").await;
        stream.adds(&format!("data: {}\n\n", answer(&id, json!("old")))).await;
        assert_eq!(result(pending).await, json!("old"));
        assert!(connection.uses_sse());
    }
}

#[tokio::test]
async fn other_rejections_are_reported_without_fallback() {
    for status in ["401 Unauthorized", "403 Forbidden", "410 Gone", "500 Internal Server Error"] {
        let mut server = Server::start().await;
        let (connection, _) = server.link_by(TransportMode::StreamableThenSse, MAX);
        let pending = ask(&connection, "initialize").await;
        server.next().await.says(status, "", "").await;
        assert!(error(pending).await["message"].as_str().unwrap().contains(status));
        assert!(server.has_none().await, "{status}");
    }
    // If HTTP with SSE isn't supported either, the first status is reported, unless the second says
    // more.
    for (second, told) in [("404 Not Found", "405"), ("410 Gone", "410"), ("403 Forbidden", "403")]
    {
        let mut server = Server::start().await;
        let (connection, _) = server.link_by(TransportMode::StreamableThenSse, MAX);
        let pending = ask(&connection, "initialize").await;
        server.next().await.says("405 Method Not Allowed", "", "").await;
        server.next().await.says(second, "", "").await;
        let error = error(pending).await;
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
    }
}
