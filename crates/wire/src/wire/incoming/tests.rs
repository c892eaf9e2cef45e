use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[tokio::test]
async fn what_is_sent_is_known_by_its_parts() {
    let id = || Raw::encode(&7);
    let result = answer(id(), Outcome::Result(Raw::encode(&json!({"error": 1}))));
    assert_eq!(sent(&result), Sent::Result);
    let error = answer(id(), Outcome::Error(error_object(-32601, "no", None)));
    assert_eq!(sent(&error), Sent::Error(-32601));
    let odd = answer(id(), Outcome::Error(Raw::encode(&"odd")));
    assert_eq!(sent(&odd), Sent::Error(INTERNAL_ERROR));
    assert_eq!(sent(&notification("notifications/x", Some(id()))), Sent::Notice);
    assert_eq!(sent(&notification("notifications/x", None)), Sent::Notice);
    for params in [None, Some(Raw::encode(&json!({})))] {
        let (writer, mut outbox) = Writer::detached();
        let peer = Peer::new();
        let (asked, message) = tokio::join!(peer.ask(&writer, "ping", params), async {
            let message = outbox.next().await.unwrap();
            message.written.unwrap().send(()).unwrap();
            message.parts
        });
        assert_eq!(sent(&message), Sent::Question);
        drop(asked);
    }
}
