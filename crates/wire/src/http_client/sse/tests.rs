use pretty_assertions::assert_eq;

use super::*;

fn read(max: usize, stream: &[u8], step: usize) -> (Vec<SseEvent>, SseParser) {
    let mut events = SseParser::new(max);
    for chunk in stream.chunks(step) {
        events.read(chunk);
    }
    (std::iter::from_fn(|| events.next()).collect(), events)
}

fn message(text: &'static str) -> SseEvent {
    SseEvent::Message(Bytes::from_static(text.as_bytes()))
}

#[test]
fn events_do_not_depend_on_chunk_boundaries() {
    let stream = "\u{feff}id: 1\nretry: 250\ndata: \n\n\
                  : a comment\r\nevent: message\r\nid: 2\r\ndata:{\"a\":\"ä: b\"}\r\n\r\n\
                  data: {\rdata: }\r\r\
                  event: endpoint\ndata: /messages\n\n\
                  data\n\n\
                  id: 3\ndata: cut";
    for step in 1..stream.len() {
        let (found, events) = read(100, stream.as_bytes(), step);
        let other =
            SseEvent::Other { name: "endpoint".to_owned(), data: Bytes::from_static(b"/messages") };
        let all = [message("{\"a\":\"ä: b\"}"), message("{\n}"), other];
        assert_eq!(found, all, "step {step}");
        assert_eq!(events.last_id(), Some("2"));
        assert_eq!(events.retry(), Some(Duration::from_millis(250)));
    }
}

#[test]
fn oversized_event_does_not_affect_the_next() {
    let long = "x".repeat(500);
    let stream =
        format!("data: {long}\n\ndata: {0}\ndata: {0}\n\n: {long}\ndata: ok\n\n", "y".repeat(60));
    for step in [1, 7, 1000] {
        let (found, _) = read(100, stream.as_bytes(), step);
        let lengths: Vec<_> = found
            .iter()
            .map(|event| match event {
                SseEvent::Oversized(edges) => (edges.length, edges.tail.last()),
                _ => (0, None),
            })
            .collect();
        assert_eq!(lengths, [(500, Some(&b'x')), (121, Some(&b'y')), (0, None)], "step {step}");
        assert_eq!(found.last(), Some(&message("ok")));
    }
}

#[test]
fn reconnect_drops_partial_event_and_keeps_last_id() {
    let (_, mut events) = read(100, b"id: 7\nretry: 5\ndata: x\n\ndata: unfin", 100);
    events.reconnect();
    events.read(b"data: whole\n\n");
    assert_eq!(events.next(), Some(message("whole")));
    assert_eq!(events.last_id(), Some("7"));
    assert_eq!(events.retry(), Some(Duration::from_millis(5)));
}

#[test]
fn long_ids_and_types_are_not_stored() {
    let long = "x".repeat(MAX_ID);
    let stream = format!("id: {long}\nevent: {long}\ndata: 1\n\nid: {long}y\ndata: 2\n\n");
    let (found, events) = read(1_000_000, stream.as_bytes(), 1000);
    let other = SseEvent::Other { name: "x".repeat(MAX_NAME), data: Bytes::from_static(b"1") };
    assert_eq!(found, [other, message("2")]);
    assert_eq!(events.last_id(), Some(long.as_str()));
}
