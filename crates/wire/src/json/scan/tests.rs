use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert_eq, prop_oneof, proptest};
use serde_json::value::RawValue;

use super::*;

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn entries(found: Scanned<JsonEntries<'_>>, text: &str) -> Scanned<Vec<(String, String)>> {
    let entry = |entry: JsonEntry<'_>| {
        (String::from_utf8_lossy(entry.key.text).into_owned(), text[entry.value].to_owned())
    };
    found?.map(|found| found.map(entry)).collect()
}

/// Concatenated fragments of valid and almost valid JSON.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\""),
        Just("\\"),
        Just(" "),
        Just("\n"),
        Just("\u{1}"),
        Just("\u{c}"),
        Just("a"),
        Just("\\u00e9"),
        Just("\\ud800"),
        Just("\\x"),
        Just("\\u12g4"),
        Just("-"),
        Just("0"),
        Just("17"),
        Just("."),
        Just("e"),
        Just("E+"),
        Just("true"),
        Just("false"),
        Just("null"),
        Just("nul"),
        Just("\"a\":"),
        Just("\"b\""),
        Just("é🦀"),
        Just("[[{"),
        Just("}]]"),
        Just("a text of more than thirty-two bytes, to be sure of it"),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Valid JSON that is truncated or changed in one place.
fn damaged() -> impl Strategy<Value = String> {
    let text = r#"{"a":[1,-2.5e+7,"x\u0041\n, and more of it to pass the first thirty-two bytes"],"b":{"c":null,"":[[],{}]},"d":true}"#;
    (0..text.len(), "[ -~\u{1}]?", any::<bool>()).prop_map(move |(at, instead, cut)| {
        let rest = if cut { "" } else { &text[at + 1..] };
        format!("{}{instead}{rest}", &text[..at])
    })
}

proptest! {
    #[test]
    fn validity_matches_serde(text in prop_oneof![pieces(), damaged()]) {
        prop_assert_eq!(check(text.as_bytes()).is_ok(), is_json(&text), "{}", text);
    }

    #[test]
    fn members_and_items_match_serde(values in vec(damaged(), 0..4), space in "[ \t\r\n]{0,2}") {
        let values: Vec<_> = values.into_iter().filter(|text| is_json(text)).chain([r#""\\\"x""#.to_owned()]).collect();
        let inside = values.join(&format!("{space},{space}"));
        let text = format!("{space}[{space}{inside}{space}]{space}");
        let items: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
        let found = entries(JsonEntries::of_array(text.as_bytes(), StringHint::of(text.as_bytes())), &text).unwrap();
        prop_assert_eq!(found.len(), items.len());
        for ((_, found), item) in found.iter().zip(items) {
            prop_assert_eq!(found, item.get());
        }
        let members: Vec<_> = values.iter().map(|value| format!("\"k\\\"\"{space}:{space}{value}")).collect();
        let text = format!("{space}{{{space}{}{space}}}{space}", members.join(&format!("{space},{space}")));
        let found = entries(JsonEntries::of_object(text.as_bytes(), StringHint::of(text.as_bytes())), &text).unwrap();
        let expected: Vec<_> = values.iter().map(|value| ("k\\\"".to_owned(), value.clone())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn objects_and_arrays_are_scanned_to_the_end(text in prop_oneof![pieces(), damaged()]) {
        let object = entries(JsonEntries::of_object(text.as_bytes(), StringHint::of(text.as_bytes())), &text);
        let array = entries(JsonEntries::of_array(text.as_bytes(), StringHint::of(text.as_bytes())), &text);
        let first = text.trim_start_matches([' ', '\t', '\r', '\n']).chars().next();
        prop_assert_eq!(object.is_ok(), is_json(&text) && first == Some('{'));
        prop_assert_eq!(array.is_ok(), is_json(&text) && first == Some('['));
    }
}

#[test]
fn nesting_depth_is_unlimited() {
    for levels in [1, 63, 64, 65, 127, 128, 129, 192, 193, 100_000] {
        let text = "[{\"a\":".repeat(levels) + "[]" + &"}]".repeat(levels);
        assert_eq!(check(text.as_bytes()), Ok(()), "{levels}");
        let crossed = "[{\"a\":".repeat(levels) + "[]" + &"]}".repeat(levels);
        assert!(check(crossed.as_bytes()).is_err(), "{levels}");
        assert!(check(&text.as_bytes()[..text.len() - 1]).is_err(), "{levels}");
        // Pop and push again across the 64-level boundaries of the bit stack.
        let twice = format!("[{text},{text}]");
        assert_eq!(check(twice.as_bytes()), Ok(()), "{levels}");
    }
}

#[test]
fn control_characters_are_found_at_every_offset() {
    for at in 0..100 {
        let mut text = format!("\"{}\"", "é".repeat(50)).into_bytes();
        text[at + 1] = 0x1f;
        assert_eq!(
            check(&text),
            Err(JsonSyntaxError { at: at + 1, expected: "an escaped control character" })
        );
        text[at + 1] = 0x7f;
        assert_eq!(check(&text), Ok(()));
    }
}

#[test]
fn errors_name_the_expected_token_and_offset() {
    let error = check(br#"{"a":1,}"#).unwrap_err();
    assert_eq!(error.to_string(), "expected a key at byte 7");
}
