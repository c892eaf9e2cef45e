use std::net::SocketAddr;

use serde_json::json;
use tokio::net::TcpListener;

use crate::wire::remote::tests::{Server, answer, ask, error, result};
use crate::wire::remote::{Failure, Transport};

const LATER: &str = "retry-after: 1\r\n";

#[tokio::test]
async fn what_a_server_wants_later_is_sent_again_then_and_twice_at_most() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let mut server = Server::start().await;
        let (link, _) = server.link_by(Transport::Streamable, 1 << 20);
        let call = ask(&link, "tools/call").await;
        server.next().await.says(status, LATER, "").await;
        server.next().await.says(status, LATER, "").await;
        let got = server.next().await;
        let body = answer(&got.body["id"], json!(1));
        got.says("200 OK", super::super::tests::JSON, &body).await;
        assert_eq!(result(call).await, json!(1));

        let call = ask(&link, "tools/call").await;
        for _ in 0..3 {
            server.next().await.says(status, "retry-after: 0\r\n", "").await;
        }
        assert!(error(call).await["message"].as_str().unwrap().contains(status));
        assert!(server.has_none().await);
    }
}

#[tokio::test]
async fn what_may_have_been_taken_is_never_sent_again() {
    for (status, headers) in [
        ("500 Internal Server Error", LATER),
        ("502 Bad Gateway", LATER),
        ("504 Gateway Timeout", LATER),
        // Without a word of when, or with one that is too far away, nobody waits.
        ("503 Service Unavailable", ""),
        ("429 Too Many Requests", "retry-after: 3600\r\n"),
    ] {
        let mut server = Server::start().await;
        let (link, _) = server.link_by(Transport::Streamable, 1 << 20);
        let call = ask(&link, "tools/call").await;
        server.next().await.says(status, headers, "").await;
        assert!(error(call).await["message"].as_str().unwrap().contains(status));
        assert!(server.has_none().await, "{status}");
    }
    let mut server = Server::start().await;
    let (link, _) = server.link_by(Transport::Streamable, 1 << 20);
    let call = ask(&link, "tools/call").await;
    drop(server.next().await);
    assert_eq!(error(call).await["data"], json!(Failure::Broken));
    assert!(server.has_none().await);
}

#[tokio::test]
async fn a_server_that_is_being_restarted_gets_the_request_when_it_is_back() {
    let (link, address): (_, SocketAddr) = {
        let server = Server::start().await;
        let link = server.link_by(Transport::Streamable, 1 << 20).0;
        (link, server.leaves().await)
    };
    let mut trouble = link.trouble();
    let greeting = ask(&link, "initialize").await;
    // Whoever greets it has others to wait for.
    assert_eq!(error(greeting).await["data"], json!(Failure::Unreachable));
    let call = ask(&link, "tools/call").await;
    trouble.wait_for(Option::is_some).await.unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    let mut server = Server::at(listener);
    server.next().await.answers(json!("back")).await;
    assert_eq!(result(call).await, json!("back"));
    assert_eq!(*trouble.borrow_and_update(), None);
}
