use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[tokio::test]
async fn queued_messages_are_classified_by_their_parts() {
    let id = || RawJson::encode(&7);
    let result = encode_response(id(), RpcOutcome::Result(RawJson::encode(&json!({"error": 1}))));
    assert_eq!(classify(&result), MessageKind::Result);
    let error = encode_response(id(), RpcOutcome::Error(error_object(-32601, "no", None)));
    assert_eq!(classify(&error), MessageKind::Error(-32601));
    let odd = encode_response(id(), RpcOutcome::Error(RawJson::encode(&"odd")));
    assert_eq!(classify(&odd), MessageKind::Error(INTERNAL_ERROR));
    assert_eq!(
        classify(&encode_notification("notifications/x", Some(id()))),
        MessageKind::Notification
    );
    assert_eq!(classify(&encode_notification("notifications/x", None)), MessageKind::Notification);
    for params in [None, Some(RawJson::encode(&json!({})))] {
        let (writer, mut outbox) = MessageWriter::detached();
        let peer = Peer::new();
        let (asked, message) =
            tokio::join!(send_raw_request(&peer, &writer, "ping", params), async {
                let message = outbox.next().await.unwrap();
                message.written.unwrap().send(()).unwrap();
                message.parts
            });
        assert_eq!(classify(&message), MessageKind::Request);
        drop(asked);
    }
}

#[tokio::test]
async fn dropped_responder_sends_the_shutdown_error() {
    let (writer, mut outbox) = MessageWriter::detached();
    let peer = Peer::with_first_id(1 << 40);
    let ask = |id: u32| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
        receive(&peer, &Bytes::from(text), &writer).unwrap()
    };
    drop(ask(1));
    let (answered, running) = (ask(2), ask(3));
    let Some(IncomingMessage::Request(answered)) = answered else { panic!("it is a request") };
    answered.responder.respond(RpcOutcome::Result(RawJson::encode(&json!({})))).await.unwrap();
    peer.set_shutdown_error(error_object(-32000, "elsewhere", None));
    drop(running);
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(classify(&outbox.next().await.unwrap().parts));
    }
    assert_eq!(
        told,
        [MessageKind::Error(INTERNAL_ERROR), MessageKind::Result, MessageKind::Error(-32000)]
    );
    let question = peer.register_outgoing().unwrap().0;
    assert!(question == 1 << 40 && peer.is_waiting(&RawJson::encode(&question)));
    assert!(!peer.is_waiting(&RawJson::encode(&1)) && !peer.is_waiting(&RawJson::encode(&"x")));
}
