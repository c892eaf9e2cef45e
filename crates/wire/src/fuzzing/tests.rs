use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_oneof, proptest};

use super::*;
use crate::json::fuzzing::tests::check_found;

#[test]
fn corpus_holds() {
    check_found("wire", 10, check);
}

/// Valid and invalid lines from a peer.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let json = prop_oneof![
        Just("-0".to_owned()),
        Just("1e400".to_owned()),
        Just("1.0".to_owned()),
        Just("1e3".to_owned()),
        "[1-9][0-9]{29}",
        Just(r#""\ud800""#.to_owned()),
        Just(r#""\udfff\ud800\u0000""#.to_owned()),
        Just(r#"{"id":1,"id":2,"\u0069d":3,"\"id":4}"#.to_owned()),
        Just(r#"{"id":"id"}"#.to_owned()),
        Just(r#"{"\ud800":1}"#.to_owned()),
        Just(r#"[{"a":{"\uDFFFa" :[]}}]"#.to_owned()),
        (0_usize..300).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
        (0_usize..300).prop_map(|depth| "{\"id\":".repeat(depth) + "1" + &"}".repeat(depth)),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let key = prop_oneof![
        3 => Just("id"),
        3 => Just("method"),
        3 => Just("params"),
        2 => Just("result"),
        2 => Just("error"),
        1 => Just("jsonrpc"),
        1 => Just("\\u0069d"),
        1 => Just("\\\"id"),
        1 => Just("\\udc00"),
    ];
    let space = prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\t"), 1 => Just("\r")];
    let members = vec((key, json, space), 0..5).prop_map(|members| {
        let members = members.iter().map(|(key, value, space)| {
            let is_text = value.starts_with('"');
            let value = if *key == "method" && !is_text { "\"m\"" } else { value };
            format!("{space}\"{key}\"{space}:{space}{value}{space}")
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()
    });
    prop_oneof![
        6 => members,
        1 => vec(any::<u8>(), 0..40),
        1 => Just(b"\0\0".to_vec()),
        1 => Just(b" \t ".to_vec()),
        1 => Just(Vec::new()),
    ]
}

proptest! {
    #[test]
    fn arbitrary_messages_in_arbitrary_chunks_hold(
        max in any::<u8>(),
        sizes in vec(prop_oneof![Just(0), 1_u8..20, any::<u8>()], 3),
        lines in vec((line(), prop_oneof![3 => Just("\n"), 1 => Just("\r\n"), 1 => Just("")]), 0..12),
    ) {
        let mut input = vec![max, sizes[0], sizes[1], sizes[2]];
        for (line, end) in lines {
            input.extend(line);
            input.extend(end.as_bytes());
        }
        check(&input);
    }

    #[test]
    fn arbitrary_bytes_hold(input in vec(any::<u8>(), 0..300)) {
        check(&input);
    }
}
