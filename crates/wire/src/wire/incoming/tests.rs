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

#[tokio::test]
async fn what_is_given_up_is_answered_with_the_farewell() {
    let (writer, mut outbox) = Writer::detached();
    let peer = Peer::numbering_from(1 << 40);
    let ask = |id: u32| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
        peer.take(&Bytes::from(text), &writer).unwrap()
    };
    drop(ask(1));
    let (answered, running) = (ask(2), ask(3));
    let Some(Incoming::Request(answered)) = answered else { panic!("it is a request") };
    answered.reply.answer(Outcome::Result(Raw::encode(&json!({})))).await.unwrap();
    peer.bid_farewell(error_object(-32000, "elsewhere", None));
    drop(running);
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(sent(&outbox.next().await.unwrap().parts));
    }
    assert_eq!(told, [Sent::Error(INTERNAL_ERROR), Sent::Result, Sent::Error(-32000)]);
    let question = peer.number().unwrap().0;
    assert!(question == 1 << 40 && peer.is_waiting(&Raw::encode(&question)));
    assert!(!peer.is_waiting(&Raw::encode(&1)) && !peer.is_waiting(&Raw::encode(&"x")));
}
