use std::net::SocketAddr;

use serde_json::json;
use tokio::net::TcpListener;

use crate::http_client::tests::{Server, answer, ask, error, result};
use crate::http_client::{HttpTransportError, TransportMode};

const LATER: &str = "retry-after: 1\r\n";

#[tokio::test]
async fn retry_after_is_honored_at_most_twice() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let mut server = Server::start().await;
        let (connection, _) = server.link_by(TransportMode::Streamable, 1 << 20);
        let call = ask(&connection, "tools/call").await;
        server.next().await.says(status, LATER, "").await;
        server.next().await.says(status, LATER, "").await;
        let got = server.next().await;
        let body = answer(&got.body["id"], json!(1));
        got.says("200 OK", crate::http_client::tests::JSON, &body).await;
        assert_eq!(result(call).await, json!(1));

        let call = ask(&connection, "tools/call").await;
        for _ in 0..3 {
            server.next().await.says(status, "retry-after: 0\r\n", "").await;
        }
        assert!(error(call).await["message"].as_str().unwrap().contains(status));
        assert!(server.has_none().await);
    }
}

// invariant: at-most-once
#[tokio::test]
async fn possibly_delivered_requests_are_not_retried() {
    for (status, headers) in [
        ("500 Internal Server Error", LATER),
        ("502 Bad Gateway", LATER),
        ("504 Gateway Timeout", LATER),
        // Without `Retry-After`, or with a long delay, the request isn't retried.
        ("503 Service Unavailable", ""),
        ("429 Too Many Requests", "retry-after: 3600\r\n"),
    ] {
        let mut server = Server::start().await;
        let (connection, _) = server.link_by(TransportMode::Streamable, 1 << 20);
        let call = ask(&connection, "tools/call").await;
        server.next().await.says(status, headers, "").await;
        assert!(error(call).await["message"].as_str().unwrap().contains(status));
        assert!(server.has_none().await, "{status}");
    }
    let mut server = Server::start().await;
    let (connection, _) = server.link_by(TransportMode::Streamable, 1 << 20);
    let call = ask(&connection, "tools/call").await;
    drop(server.next().await);
    assert_eq!(error(call).await["data"], json!(HttpTransportError::Broken));
    assert!(server.has_none().await);
}

#[tokio::test]
async fn request_is_delivered_after_a_server_restart() {
    let (connection, address): (_, SocketAddr) = {
        let server = Server::start().await;
        let connection = server.link_by(TransportMode::Streamable, 1 << 20).0;
        (connection, server.leaves().await)
    };
    let mut trouble = connection.unavailable_reason();
    let pending = ask(&connection, "initialize").await;
    // The handshake isn't retried.
    assert_eq!(error(pending).await["data"], json!(HttpTransportError::Unreachable));
    let call = ask(&connection, "tools/call").await;
    trouble.wait_for(Option::is_some).await.unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    let mut server = Server::at(listener);
    server.next().await.answers(json!("back")).await;
    assert_eq!(result(call).await, json!("back"));
    assert_eq!(*trouble.borrow_and_update(), None);
}
