//! Property tests of message parsing, line reading and request matching.

use bytes::Bytes;
use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_oneof, proptest};
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio_util::task::TaskTracker;

use crate::envelope::{JsonRpcMessage, RpcOutcome, recover_id};
use crate::json::{Member, RawJson};
use crate::line::{InputLine, LineReader};
use crate::server::{self, RequestEvent};

/// JSON text in many spellings: odd numbers, escapes, white space, repeated keys, deep nesting.
fn json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("0".to_owned()),
        Just("-0.0".to_owned()),
        Just("1e400".to_owned()),
        Just("1E-7".to_owned()),
        "-?[1-9][0-9]{0,39}",
        "[1-9][0-9]{0,5}\\.[0-9]{1,30}(e[0-9]{1,3})?",
    ];
    let string = any::<String>().prop_map(|text| {
        // Half of the strings get an equivalent spelling with escapes.
        let plain = serde_json::to_string(&text).unwrap_or_default();
        if text.len() % 2 == 0 { plain } else { plain.replace('a', "\\u0061") }
    });
    let leaf = prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number, string,];
    leaf.prop_recursive(12, 64, 6, |inner| {
        let space = "[ \t]{0,2}";
        prop_oneof![
            (vec(inner.clone(), 0..6), space)
                .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(","))),
            (vec(("[a-d]", inner), 0..6), space).prop_map(|(members, space)| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| format!("\"{key}\"{space}:{value}"))
                    .collect();
                format!("{{{space}{}}}", members.join(&format!("{space},")))
            }),
        ]
    })
}

fn raw(text: &str) -> RawJson {
    RawJson::encode(&RawValue::from_string(text.to_owned()).expect("JSON"))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

/// Reference implementation of the line reader.
fn expected(bytes: &[u8], max: usize) -> Vec<Result<Vec<u8>, usize>> {
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let ended = memchr::memchr_iter(b'\n', bytes).count();
    lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| {
            let bare = line.strip_suffix(b"\r").filter(|_| index < ended).unwrap_or(line);
            if line.len() > max { Err(line.len()) } else { Ok(bare.to_vec()) }
        })
        .filter(|line| !line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()))
        .collect()
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_read_boundaries(
        bytes in vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..400),
        cuts in vec(1_usize..40, 0..40),
        max in 1_usize..60,
    ) {
        let found = run(async {
            let (mut writer, reader) = tokio::io::duplex(16);
            let mut lines = LineReader::new(reader, max);
            let write = async {
                let mut rest = &bytes[..];
                for cut in cuts.iter().chain(std::iter::repeat(&7)) {
                    let (now, later) = rest.split_at((*cut).min(rest.len()));
                    writer.write_all(now).await.expect("room");
                    rest = later;
                    if rest.is_empty() {
                        break;
                    }
                }
                drop(writer);
            };
            let read = async {
                let mut found = Vec::new();
                while let Some(line) = lines.next().await {
                    found.push(match line {
                        InputLine::Message(line) => Ok(line.to_vec()),
                        InputLine::Oversized { length, .. } => Err(length),
                    });
                }
                found
            };
            tokio::join!(write, read).1
        });
        assert_eq!(found, expected(&bytes, max));
    }

    #[test]
    fn parsed_messages_preserve_the_inner_json_text(id in "[1-9][0-9]{0,8}", inside in json()) {
        let line = Bytes::from(format!(r#"{{"jsonrpc":"2.0","params":{inside},"method":"m","id":{id}}}"#));
        match JsonRpcMessage::parse(&line) {
            Ok(JsonRpcMessage::Request { id: got, params, .. }) => {
                assert_eq!(got, raw(&id));
                // A `null` member counts as absent.
                assert_eq!(params, (inside != "null").then(|| raw(&inside)));
            }
            other => panic!("{other:?}"),
        }
        let line = Bytes::from(format!(r#"{{"result":{inside},"id":{id}}}"#));
        match JsonRpcMessage::parse(&line) {
            Ok(JsonRpcMessage::Response { id: got, outcome: RpcOutcome::Result(result) }) => {
                assert_eq!((got, result), (raw(&id), raw(&inside)));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parsing_arbitrary_bytes_does_not_panic(bytes in vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a0 \\\\]{0,60}") {
        for line in [Bytes::from(bytes), Bytes::from(text)] {
            let _ = JsonRpcMessage::parse(&line);
            let _ = recover_id(&line, &line);
        }
    }

    #[test]
    fn edits_touch_only_one_member(inside in vec(("[a-f]", json()), 0..6), value in json()) {
        let members: Vec<_> = inside.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let object = raw(&format!("{{{}}}", members.join(",")));
        let (value, before) = (raw(&value), object.members().expect("an object"));
        let other = |members: Vec<Member>| -> Vec<_> {
            members.into_iter().filter(|(key, _)| key != "a").collect()
        };

        let set = object.with_member("a", &value).expect("an object").members().expect("JSON");
        prop_assert!(set.iter().filter(|(key, _)| key == "a").all(|(_, set)| *set == value));
        prop_assert!(set.iter().any(|(key, _)| key == "a"));
        assert_eq!(other(set), other(before.clone()));

        let without = object.without_member("a").expect("an object").members().expect("JSON");
        assert_eq!(without, other(before.clone()));

        let first = object.with_first(&[("z", &value)]).expect("an object").members().expect("JSON");
        assert_eq!(&first[0], &("z".into(), value));
        assert_eq!(&first[1..], &before[..]);
    }

    #[test]
    fn responses_in_any_order_reach_their_requests(
        order in Just((0_usize..12).collect::<Vec<_>>()).prop_shuffle(),
        noise in vec(prop_oneof![
            Just(r#"{"id":999,"result":{}}"#.to_owned()),
            Just(r#"{"id":1999999999,"result":{}}"#.to_owned()),
            Just(r#"{"method":"notifications/progress","params":{}}"#.to_owned()),
            "[ -~]{0,40}",
        ], 12),
        results in vec(json(), 12),
    ) {
        run(async {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            let (reader, writer) = tokio::io::split(ours);
            let tasks = TaskTracker::new();
            let connection = server::connect(reader, writer, 1 << 20, "test", |_| {}, &tasks);
            let (_input, mut output) = tokio::io::split(theirs);
            let mut requests = Vec::new();
            for _ in 0..12 {
                requests.push(connection.send_request("m", &[], &[], false).await.expect("sent"));
            }
            for (at, noise) in order.iter().zip(&noise) {
                let (id, result) = (1 + at, &results[*at]);
                let lines = format!("{noise}\n{{\"id\":{id},\"result\":{result}}}\n");
                output.write_all(lines.as_bytes()).await.expect("room");
            }
            for (request, result) in requests.iter_mut().zip(&results) {
                match request.next().await {
                    RequestEvent::Completed(Ok(RpcOutcome::Result(got))) => assert_eq!(got, raw(result)),
                    other => panic!("{other:?}"),
                }
            }
        });
    }
}
