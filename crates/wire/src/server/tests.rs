use std::io::Cursor;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex, sink};

use super::*;
use tokio::sync::mpsc;

/// The server's end of the streams.
struct Server {
    input: Lines<BufReader<DuplexStream>>,
    output: DuplexStream,
}

impl Server {
    async fn reads(&mut self) -> String {
        self.input.next_line().await.unwrap().unwrap()
    }

    async fn says(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

fn link(max: usize) -> (ServerConnection, mpsc::UnboundedReceiver<IncomingMessage>, Server) {
    // Two pipes: each closes when one of its ends is dropped, like the pipes of a child process.
    let (writer, input) = duplex(1 << 16);
    let (reader, output) = duplex(1 << 16);
    let (heard, hearing) = mpsc::unbounded_channel();
    let hear = move |incoming| heard.send(incoming).unwrap();
    let connection = connect(reader, writer, max, "test", hear, &TaskTracker::new());
    (connection, hearing, Server { input: BufReader::new(input).lines(), output })
}

fn done(step: RequestEvent) -> Result<RpcOutcome, RequestError> {
    match step {
        RequestEvent::Completed(outcome) => outcome,
        RequestEvent::Progress(params) => panic!("progress: {params:?}"),
    }
}

fn raw(text: &str) -> RawJson {
    RawJson::encode(&serde_json::value::RawValue::from_string(text.to_owned()).unwrap())
}

// invariant: bytes-unchanged
#[tokio::test]
async fn arguments_and_results_pass_byte_for_byte() {
    let (connection, _heard, mut server) = link(1 << 20);
    let (name, arguments) = (raw(r#""add""#), raw(r#"{"a":1.0,"b": 1e3}"#));
    let mut request = connection
        .send_request("tools/call", &[("name", &name), ("arguments", &arguments)], &[], false)
        .await
        .unwrap();
    assert_eq!(
        server.reads().await,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1.0,"b": 1e3}}}"#
    );
    server.says(r#"{"result":{"sum":123456789012345678901234567890.0},"id":1}"#).await;
    assert_eq!(
        done(request.next().await),
        Ok(RpcOutcome::Result(raw(r#"{"sum":123456789012345678901234567890.0}"#)))
    );
}

#[tokio::test]
async fn progress_arrives_in_order_and_before_the_response() {
    let (connection, _heard, mut server) = link(1 << 20);
    let meta = [("traceparent".into(), raw(r#""00""#))];
    let mut request = connection.send_request("x", &[], &meta, true).await.unwrap();
    assert_eq!(
        server.reads().await,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"traceparent":"00","progressToken":1}}}"#
    );
    for n in 0..20 {
        server
            .says(&format!(
                r#"{{"method":"notifications/progress","params":{{"progressToken":1,"progress":{n}}}}}"#
            ))
            .await;
    }
    server.says(r#"{"id":1,"result":{}}"#).await;
    connection.closed_or_idle().await;
    for n in 0..20 {
        let RequestEvent::Progress(params) = request.next().await else {
            panic!("answer before progress {n}")
        };
        assert!(params.as_str().ends_with(&format!(r#""progress":{n}}}"#)), "{params:?}");
    }
    assert_eq!(done(request.next().await), Ok(RpcOutcome::Result(raw("{}"))));
}

impl ServerConnection {
    /// Lets the reading task handle everything that was written so far.
    async fn closed_or_idle(&self) {
        for _ in 0..100 {
            yield_now().await;
        }
    }
}

#[tokio::test]
async fn reader_yields_between_long_messages() {
    let long = "x".repeat(LONG);
    let line =
        format!("{{\"method\":\"notifications/message\",\"params\":{{\"data\":\"{long}\"}}}}\n");
    // All input is ready from the start.
    let reader = Cursor::new(line.repeat(3).into_bytes());
    let (turns, (heard, mut hearing)) = (Arc::new(AtomicUsize::new(0)), mpsc::unbounded_channel());
    let at = Arc::clone(&turns);
    let hear = move |_| heard.send(at.load(Ordering::Relaxed)).unwrap();
    let _link = connect(reader, sink(), 1 << 20, "test", hear, &TaskTracker::new());
    let mut told = Vec::new();
    while told.len() < 3 {
        yield_now().await;
        turns.fetch_add(1, Ordering::Relaxed);
        told.extend(hearing.try_recv());
    }
    assert!(told.is_sorted_by(|one, next| one < next), "{told:?}");
}

#[tokio::test]
async fn malformed_and_repeated_responses_are_ignored() {
    let (connection, _heard, mut server) = link(1 << 20);
    let mut first = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says("starting up ...").await;
    server.says(r#"{"id":1,"result":1}"#).await;
    server.says(r#"{"id":1,"result":2}"#).await;
    server.says(r#"{"id":1000000099,"result":3}"#).await;
    server.says("\u{1F980} [1,2").await;
    assert_eq!(done(first.next().await), Ok(RpcOutcome::Result(raw("1"))));
    let mut second = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says(r#"{"id":2,"error":{"code":-32050,"data":[1.50]}}"#).await;
    assert_eq!(
        done(second.next().await),
        Ok(RpcOutcome::Error(raw(r#"{"code":-32050,"data":[1.50]}"#)))
    );
}

// invariant: bad-input-fails-alone
#[tokio::test]
async fn oversized_response_fails_only_its_request() {
    let (connection, _heard, mut server) = link(1000);
    let mut big = connection.send_request("x", &[], &[], false).await.unwrap();
    let mut small = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says(&format!(r#"{{"result":"{}","id":1}}"#, "x".repeat(5000))).await;
    server.says(r#"{"id":2,"result":"ok"}"#).await;
    assert_eq!(done(big.next().await), Err(RequestError::Oversized(5020)));
    assert_eq!(done(small.next().await), Ok(RpcOutcome::Result(raw(r#""ok""#))));
}

// invariant: one-response
#[tokio::test]
async fn dropped_request_is_cancelled_and_its_late_response_ignored() {
    let (connection, _heard, mut server) = link(1 << 20);
    let request = connection.send_request("x", &[], &[], false).await.unwrap();
    server.reads().await;
    drop(request);
    assert_eq!(
        server.reads().await,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#
    );
    server.says(r#"{"id":1,"result":{}}"#).await;
    let mut next = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says(r#"{"id":2,"result":{}}"#).await;
    assert!(done(next.next().await).is_ok());
}

#[tokio::test]
async fn end_of_output_fails_pending_and_later_requests() {
    let (connection, _heard, server) = link(1 << 20);
    let mut request = connection.send_request("x", &[], &[], false).await.unwrap();
    drop(server);
    assert_eq!(done(request.next().await), Err(RequestError::Closed));
    connection.closed().await;
    assert!(connection.send_request("x", &[], &[], false).await.is_err());
}

#[tokio::test]
async fn close_fails_pending_requests_while_output_stays_open() {
    let (connection, _heard, _server) = link(1 << 20);
    let mut request = connection.send_request("x", &[], &[], false).await.unwrap();
    connection.close();
    assert_eq!(done(request.next().await), Err(RequestError::Closed));
    connection.closed().await;
    assert!(connection.send_request("x", &[], &[], false).await.is_err());
}

#[tokio::test]
async fn input_is_closed_even_if_the_server_does_not_read() {
    let (connection, _heard, mut server) = link(1 << 20);
    let long = RawJson::encode(&"x".repeat(1000));
    let params = [("long", &long)];
    for _ in 0..1000 {
        // Blocks once the pipe and the queue are full.
        let request = connection.send_request("x", &params, &[], false);
        let _ = tokio::time::timeout(Duration::ZERO, request).await;
    }
    connection.close_input();
    while server.input.next_line().await.unwrap().is_some() {}
}

// invariant: bad-input-fails-alone
#[tokio::test]
async fn malformed_response_fails_its_request_at_once() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"mean":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"mean":-Infinity}}"#,
        r#"{"result":{"text":"a "quoted" word"},"id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"text":"cut"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"id":1,"result":{},}"#,
        r#"done {"id":"1","result":{}}"#,
        r#"{"id":1,"id":1,"result":{}}"#,
        "{\"id\":1,\"result\":\"a\tb\"}",
    ] {
        let (connection, _heard, mut server) = link(1 << 20);
        let mut broken = connection.send_request("x", &[], &[], false).await.unwrap();
        let mut other = connection.send_request("x", &[], &[], false).await.unwrap();
        server.says(line).await;
        let Err(RequestError::Malformed(why)) = done(broken.next().await) else {
            panic!("{line} was accepted");
        };
        assert!(why.contains("in `"), "{why}");
        server.says(r#"{"id":2,"result":1}"#).await;
        assert_eq!(done(other.next().await), Ok(RpcOutcome::Result(raw("1"))));
    }
}

#[tokio::test]
async fn excerpt_of_a_malformed_response_shows_the_place_of_the_error() {
    let (connection, _heard, mut server) = link(1 << 20);
    let mut broken = connection.send_request("x", &[], &[], false).await.unwrap();
    let long = "y".repeat(5000);
    server.says(&format!(r#"{{"id":1,"result":{{"a":"{long}","mean":NaN}},"b":"{long}"}}"#)).await;
    let Err(RequestError::Malformed(why)) = done(broken.next().await) else { panic!() };
    assert!(why.contains(r#""mean":NaN"#) && why.len() < 300, "{why}");
}

#[tokio::test]
async fn invalid_utf8_fails_its_request_at_once() {
    let (connection, _heard, mut server) = link(1 << 20);
    let mut broken = connection.send_request("x", &[], &[], false).await.unwrap();
    server.output.write_all(b"{\"id\":1,\"result\":\"caf\xe9\"}\n").await.unwrap();
    let Err(RequestError::Malformed(why)) = done(broken.next().await) else { panic!() };
    assert!(why.contains("valid UTF-8"), "{why}");
}

#[tokio::test]
async fn responses_that_share_a_line_fail_their_requests() {
    let (connection, _heard, mut server) = link(1 << 20);
    let mut first = connection.send_request("x", &[], &[], false).await.unwrap();
    let mut second = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says(r#"{"id":1,"result":1}{"id":2,"result":2}"#).await;
    assert!(matches!(done(first.next().await), Err(RequestError::Malformed(_))));
    assert!(matches!(done(second.next().await), Err(RequestError::Malformed(_))));
}

// invariant: one-response
#[tokio::test]
async fn malformed_request_of_the_server_gets_an_error_and_fails_no_request() {
    let (connection, _heard, mut server) = link(1 << 20);
    let mut call = connection.send_request("x", &[], &[], false).await.unwrap();
    server.reads().await;
    server.says(r#"{"id":1,"method":"roots/list","params":NaN}"#).await;
    let refused = server.reads().await;
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32700"#), "{refused}");
    server.says(r#"{"id":1,"result":1}"#).await;
    assert_eq!(done(call.next().await), Ok(RpcOutcome::Result(raw("1"))));
}

#[tokio::test]
async fn error_with_a_null_id_fails_the_only_request() {
    let (connection, _heard, mut server) = link(1 << 20);
    let mut call = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says(r#"{"id":null,"error":{"code":-32603,"message":"kaboom"}}"#).await;
    let error = raw(r#"{"code":-32603,"message":"kaboom"}"#);
    assert_eq!(done(call.next().await), Ok(RpcOutcome::Error(error)));
}

#[tokio::test]
async fn error_with_a_null_id_fails_no_request_that_it_may_not_belong_to() {
    let error = r#"{"id":null,"error":{"code":-32601,"message":"unknown notification"}}"#;
    let (connection, _heard, mut server) = link(1 << 20);
    connection.notify("notifications/initialized", None);
    let mut listing = connection.send_request("x", &[], &[], false).await.unwrap();
    server.says(error).await;
    server.says(r#"{"id":1,"result":1}"#).await;
    assert_eq!(done(listing.next().await), Ok(RpcOutcome::Result(raw("1"))));
    let mut two = [
        connection.send_request("x", &[], &[], false).await.unwrap(),
        connection.send_request("x", &[], &[], false).await.unwrap(),
    ];
    server.says(error).await;
    server.says(r#"{"id":2,"result":2}"#).await;
    server.says(r#"{"id":3,"result":3}"#).await;
    assert_eq!(done(two[0].next().await), Ok(RpcOutcome::Result(raw("2"))));
    assert_eq!(done(two[1].next().await), Ok(RpcOutcome::Result(raw("3"))));
}

#[tokio::test]
async fn unusable_output_is_stored_for_the_report_of_a_failed_start() {
    let (connection, _heard, mut server) = link(1 << 20);
    server.says("Content-Length: 52\r\n\r").await;
    server.says(r#"{"id":0,"result":{"a":1}}"#).await;
    server.says(r#"{"id":null,"method":"notifications/message"}"#).await;
    connection.closed_or_idle().await;
    assert_eq!(
        connection.unusable_output(),
        ["Content-Length: 52", r#"response with the unknown id 0: {"a":1}"#]
    );
    for n in 0..100 {
        server.says(&format!("{n}{}", "é".repeat(1000))).await;
    }
    connection.closed_or_idle().await;
    let stored = connection.unusable_output();
    assert!(stored.len() <= 4 && stored.iter().all(|line| line.len() <= 300), "{stored:?}");
    assert!(stored[3].starts_with("99"), "{stored:?}");
}
