//! Rules that must hold of the wire whatever comes over it.

use bytes::Bytes;
use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_oneof, proptest};
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio_util::task::TaskTracker;

use crate::raw::{Member, Raw};
use crate::wire::envelope::{Message, Outcome, id_at_edges};
use crate::wire::line::{Line, LineReader};
use crate::wire::server::{self, Step};

/// JSON text of every spelling: odd numbers, odd escapes, white space, repeated keys, deep nesting.
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
        // Half of them spelled in escapes, which mean the same.
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

fn raw(text: &str) -> Raw {
    Raw::encode(&RawValue::from_string(text.to_owned()).expect("JSON"))
}

/// Runs a future to its end on a runtime of its own.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

/// The lines that a line reader should make of some bytes.
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
    fn lines_are_the_same_however_the_bytes_arrive(
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
                        Line::Message(line) => Ok(line.to_vec()),
                        Line::Oversized { length, .. } => Err(length),
                    });
                }
                found
            };
            tokio::join!(write, read).1
        });
        assert_eq!(found, expected(&bytes, max));
    }

    #[test]
    fn a_message_keeps_the_text_of_what_is_inside(id in "[1-9][0-9]{0,8}", inside in json()) {
        let line = Bytes::from(format!(r#"{{"jsonrpc":"2.0","params":{inside},"method":"m","id":{id}}}"#));
        match Message::parse(&line) {
            Ok(Message::Request { id: got, params, .. }) => {
                assert_eq!(got, raw(&id));
                // A member that is `null` is one that is not there.
                assert_eq!(params, (inside != "null").then(|| raw(&inside)));
            }
            other => panic!("{other:?}"),
        }
        let line = Bytes::from(format!(r#"{{"result":{inside},"id":{id}}}"#));
        match Message::parse(&line) {
            Ok(Message::Answer { id: got, outcome: Outcome::Result(result) }) => {
                assert_eq!((got, result), (raw(&id), raw(&inside)));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a0 \\\\]{0,60}") {
        for line in [Bytes::from(bytes), Bytes::from(text)] {
            let _ = Message::parse(&line);
            let _ = id_at_edges(&line, &line);
        }
    }

    #[test]
    fn edits_touch_one_member_alone(inside in vec(("[a-f]", json()), 0..6), value in json()) {
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
    fn every_request_gets_its_own_answer_in_any_order(
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
            let link = server::connect(reader, writer, 1 << 20, "test", |_| {}, &tasks);
            let (_input, mut output) = tokio::io::split(theirs);
            let mut requests = Vec::new();
            for _ in 0..12 {
                requests.push(link.request("m", &[], &[], false).await.expect("sent"));
            }
            for (at, noise) in order.iter().zip(&noise) {
                let (id, result) = (1 + at, &results[*at]);
                let lines = format!("{noise}\n{{\"id\":{id},\"result\":{result}}}\n");
                output.write_all(lines.as_bytes()).await.expect("room");
            }
            for (request, result) in requests.iter_mut().zip(&results) {
                match request.next().await {
                    Step::Done(Ok(Outcome::Result(got))) => assert_eq!(got, raw(result)),
                    other => panic!("{other:?}"),
                }
            }
        });
    }
}
