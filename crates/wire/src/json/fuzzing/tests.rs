use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_oneof, proptest};

use super::*;

/// Checks the corpus of a fuzz target, which must have more than `least` inputs.
pub(crate) fn check_found(target: &str, least: usize, check: fn(&[u8])) {
    let fuzz = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fuzz");
    if !fuzz.exists() {
        return; // The packaged crate doesn't contain `fuzz/`.
    }
    let seeds: Vec<_> = fs::read_dir(fuzz.join("corpus").join(target)).unwrap().collect();
    assert!(seeds.len() > least, "{} seeds", seeds.len());
    for seed in seeds {
        check(&fs::read(seed.unwrap().path()).unwrap());
    }
}

#[test]
fn corpus_holds() {
    check_found("json", 5, check);
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("-0".to_owned()),
        Just("1e400".to_owned()),
        Just("1.0".to_owned()),
        "[1-9][0-9]{29}",
        Just(r#""\ud800""#.to_owned()),
        Just(r#"{ "a" :[{}], "a":{"a":1E+2}}"#.to_owned()),
        Just(r#"[{"a":{"\ud800":"\ud83d\ude00"}}]"#.to_owned()),
        Just(r#"["\ud800",{"\\ud800" :"\udfff"}]"#.to_owned()),
        (0_usize..300).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
}

/// Keys in escaped form, without quotes.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]",
        1 => Just("\\u0061".to_owned()),
        1 => Just("\\ud83d\\ude00".to_owned()),
        1 => Just("\\udc00".to_owned()),
        1 => any::<String>().prop_map(|text| {
            serde_json::to_string(&text).unwrap().trim_matches('"').replace('\\', "\\\\")
        }),
    ]
}

proptest! {
    #[test]
    fn arbitrary_edits_hold(
        members in vec((key(), value(), "[ \t\r]{0,2}"), 0..6),
        key in "[ab\u{0}\"\\\\\u{1f600}]{0,2}",
        value in value(),
    ) {
        let members = members.iter().map(|(key, value, s)| format!("{s}\"{key}\"{s}:{s}{value}{s}"));
        let object = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        check(format!("{object}\n{key}\n{value}").as_bytes());
    }

    #[test]
    fn edits_of_other_values_hold(whole in value(), key in key(), value in value()) {
        check(format!("{whole}\n{key}\n{value}").as_bytes());
    }
}
