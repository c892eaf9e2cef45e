use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::Value;

use super::*;

const ISSUES: &str = r#"{ "total": 2, "items": [
  { "id": 12345678901234567890123, "title": "One\u00e9", "user": { "name": "ann", "url": "u" } },
  { "id": 1.0, "title": "Two", "user": { "name": "bob" }, "a/b": 1e400, "m~n": -0 } ], "none": [] }"#;

fn parsed(pointers: &[&str]) -> Selection {
    Selection::parse(pointers.iter().copied()).unwrap()
}

fn select(document: &str, pointers: &[&str]) -> Option<String> {
    parsed(pointers).select_from(document).unwrap().json
}

fn missing(document: &str, pointers: &[&str]) -> Vec<String> {
    let selection = parsed(pointers);
    let selected = selection.select_from(document).unwrap();
    let (fields, more) = selection.missing_in(document, &selected.is_matched);
    let more = (more > 0).then(|| format!("{more} more"));
    fields.iter().map(ToString::to_string).chain(more).collect()
}

#[test]
fn selected_values_keep_their_bytes_and_their_place() {
    for (pointers, expected) in [
        (&["/total"][..], r#"{"total":2}"#),
        (&["/items/*/title"], r#"{"items":[{"title":"One\u00e9"},{"title":"Two"}]}"#),
        (
            &["/items/*/id", "/total"],
            r#"{"total":2,"items":[{"id":12345678901234567890123},{"id":1.0}]}"#,
        ),
        (
            &["/items/1/user", "/items/*/user/name"],
            r#"{"items":[{"user":{"name":"ann"}},{"user":{ "name": "bob" }}]}"#,
        ),
        (&["/items/*/user/url"], r#"{"items":[{"user":{"url":"u"}}]}"#),
        (&["/items/1/a~1b", "/items/1/m~0n"], r#"{"items":[{"a/b":1e400,"m~n":-0}]}"#),
        (&["/*/0/title"], r#"{"items":[{"title":"One\u00e9"}]}"#),
        (&["/none/*/x"], r#"{"none":[]}"#),
    ] {
        assert_eq!(select(ISSUES, pointers).as_deref(), Some(expected), "{pointers:?}");
        assert_eq!(missing(ISSUES, pointers), [""; 0], "{pointers:?}");
    }
    assert_eq!(select(ISSUES, &[""]).as_deref(), Some(ISSUES));
    assert_eq!(select(ISSUES, &["", "/total"]).as_deref(), Some(ISSUES));
    assert!(
        parsed(&[]).is_whole() && parsed(&["/a", ""]).is_whole() && !parsed(&["/a"]).is_whole()
    );
}

#[test]
fn repeated_and_escaped_keys_are_all_selected() {
    let twice = r#"{"a":{"b":1},"\u0061":{"b":2},"c":3,"":{"":4},"\ud800":5}"#;
    assert_eq!(select(twice, &["/a/b"]).as_deref(), Some(r#"{"a":{"b":1},"\u0061":{"b":2}}"#));
    assert_eq!(select(twice, &["//"]).as_deref(), Some(r#"{"":{"":4}}"#));
    assert_eq!(select(twice, &["/*"]).as_deref(), Some(twice));
    assert_eq!(select(r#"{"*":1,"a":2}"#, &["/*"]).as_deref(), Some(r#"{"*":1,"a":2}"#));
}

#[test]
fn missing_fields_name_the_nearest_value() {
    assert_eq!(
        missing(ISSUES, &["/itms/*/title"]),
        [r#"`/itms/*/title` (the result has "total", "items", "none")"#]
    );
    assert_eq!(
        missing(ISSUES, &["/items/title", "/items/2", "/items/-", "/items/01"]),
        [
            "`/items/title` (`/items` is an array of 2)",
            "`/items/2` (`/items` is an array of 2)",
            "`/items/-` (`/items` is an array of 2)",
            "`/items/01` (`/items` is an array of 2)",
        ]
    );
    assert_eq!(
        missing(ISSUES, &["/items/*/user/age", "/total/x", "/total"]),
        [
            r#"`/items/*/user/age` (`/items/*/user` has "name", "url")"#,
            "`/total/x` (`/total` has no members)",
        ]
    );
    assert_eq!(missing("{}", &["/a"]), ["`/a` (the result is empty)"]);
    assert_eq!(select(ISSUES, &["/x", "/items/2/title"]), None);
    let many: Vec<String> = (0..MAX_POINTERS).map(|n| format!("/x{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(missing("{}", &many).last().unwrap(), "27 more");
    // Keys come from the server: they stay escaped, and their number and length are bounded.
    let odd = format!(r#"{{"a\nb":1,"{}":2}}"#, "k".repeat(100));
    assert_eq!(missing(&odd, &["/c"]), [r#"`/c` (the result has "a\nb", and 1 more)"#]);
    let wide: Vec<String> = (0..1000).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let said = missing(&format!("{{{}}}", wide.join(",")), &["/c"]).remove(0);
    assert!(said.ends_with(r#""k15", and 984 more)"#), "{said}");
}

#[test]
fn malformed_pointers_are_rejected() {
    for (pointer, expected) in [
        ("items", "`items` is not a JSON pointer: it must start with `/`, as in `/items/*/title`"),
        ("$.a", "`$.a` is not a JSON pointer: it must start with `/`, as in `/items/*/title`"),
        ("/a~2", "`/a~2` is not a JSON pointer: write `~` as `~0`, and `/` in a name as `~1`"),
        ("/a~", "`/a~` is not a JSON pointer: write `~` as `~0`, and `/` in a name as `~1`"),
    ] {
        assert_eq!(Selection::parse([pointer]).unwrap_err().to_string(), expected);
    }
    let long = "/é".repeat(100);
    let shown = "/é".repeat(30);
    assert_eq!(
        Selection::parse([&*long]).unwrap_err().to_string(),
        format!("`{shown}…` is longer than 256 bytes")
    );
    let error = Selection::parse(std::iter::repeat_n("/a", 10_000)).unwrap_err();
    assert_eq!(error.to_string(), "more than 32 JSON pointers");
}

#[test]
fn only_json_objects_and_arrays_are_selected_from() {
    let selection = parsed(&["/a"]);
    for text in ["", "text", "1", "\"{}\"", "{", "{\"a\":1} x", "{\"a\":1,}", "[1]]", "\u{feff}"] {
        assert_eq!(selection.select_from(text), None, "{text}");
    }
    let marked = "\u{feff} \r\n{\"a\" : [1, 2] }\n";
    assert_eq!(select(marked, &["/a"]).as_deref(), Some(r#"{"a":[1, 2]}"#));
    assert_eq!(select("[1,2,3]", &["/2", "/0"]).as_deref(), Some("[1,3]"));
}

#[test]
fn deep_and_long_documents_are_selected_in_one_pass() {
    let deep = format!(r#"{{"d":{}{},"a":1}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(select(&deep, &["/a", "/d/0/0/1"]).as_deref(), Some(r#"{"a":1}"#));
    let longest = "/0".repeat(MAX_POINTER_BYTES / 2);
    let nested = "[".repeat(500) + "7" + &"]".repeat(500);
    assert_eq!(select(&nested, &[&longest]).as_deref(), Some(&*nested));
    let rows = vec![r#"{"id":1,"text":"….","tags":[]}"#; 100_000].join(",");
    let selected = select(&format!("[{rows}]"), &["/*/id", "/*/tags/*/name"]).unwrap();
    assert_eq!(selected.matches(r#"{"id":1,"tags":[]}"#).count(), 100_000);
}

/// JSON texts with few keys, so that pointers match, and odd white space and numbers.
fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("-0".to_owned()),
        Just("1e400".to_owned()),
        Just(r#""\u0061\n""#.to_owned()),
        Just("[ ]".to_owned()),
        Just("{ }".to_owned()),
        "[1-9][0-9]{20}",
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let key = prop_oneof!["[abc]", Just("\\u0061".to_owned()), Just("0".to_owned())];
        let members = vec((key, inner.clone(), "[ \n]{0,1}"), 0..4);
        let members = members.prop_map(|all| {
            let all = all.iter().map(|(key, value, s)| format!("{s}\"{key}\"{s}:{s}{value}{s}"));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        });
        prop_oneof![members, vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(", ")))]
    })
}

/// The values that a pointer selects, found without the code under test.
fn expected<'a>(value: &'a Value, tokens: &[&str]) -> Vec<&'a Value> {
    let Some((token, rest)) = tokens.split_first() else { return vec![value] };
    let children: Vec<&Value> = match value {
        Value::Object(members) if *token == "*" => members.values().collect(),
        Value::Object(members) => members.get(*token).into_iter().collect(),
        Value::Array(items) if *token == "*" => items.iter().collect(),
        Value::Array(items) => {
            token.parse().ok().and_then(|at: usize| items.get(at)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    children.into_iter().flat_map(|child| expected(child, rest)).collect()
}

/// The scalars and empty containers of a text, as written.
fn leaves(text: &str) -> Vec<String> {
    let text = text.replace([' ', '\n'], "");
    let mut leaves = Vec::new();
    for part in text.split([',', ':']) {
        leaves.push(part.trim_matches(['[', ']', '{', '}']).to_owned());
    }
    leaves.retain(|leaf| !leaf.is_empty());
    leaves
}

proptest! {
    #[test]
    fn selected_values_are_parts_of_the_document(
        document in document(),
        pointers in vec(vec("[abc0*1]", 1..4), 1..4),
    ) {
        let texts: Vec<String> = pointers.iter().map(|tokens| format!("/{}", tokens.join("/"))).collect();
        let selection = Selection::parse(texts.iter().map(String::as_str)).unwrap();
        let Some(SelectedFields { json, is_matched }) = selection.select_from(&document) else {
            let is_container = document.starts_with(['{', '[']);
            prop_assert!(!is_container);
            return Ok(());
        };
        prop_assert_eq!(json.is_some(), is_matched.contains(&true));
        let own = leaves(&document);
        if let Some(json) = &json {
            prop_assert!(json.len() <= document.len());
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok());
            let mut rest = own.iter();
            // Every token is the document's, in the same order and byte for byte.
            prop_assert!(leaves(json).iter().all(|leaf| rest.any(|own| own == leaf)), "{}", json);
            // A selection of a selection selects the same, but for shifted array positions.
            if texts.iter().all(|text| !text.contains(['0', '1'])) {
                let again = selection.select_from(json).unwrap();
                prop_assert_eq!(again.json.as_ref(), Some(json));
            }
        }
        // Values of repeated keys can't be compared, and numbers may be out of range.
        let is_unique = |text: &str| crate::json::exact::ExactJson::parse(text.as_bytes()).is_ok();
        if is_unique(&document) && let Ok(value) = serde_json::from_str::<Value>(&document.replace("1e400", "1")) {
            for (tokens, is_matched) in pointers.iter().zip(&is_matched) {
                let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
                let is_found = !expected(&value, &tokens).is_empty();
                // `*` also matches an empty array or object.
                prop_assert!(*is_matched == is_found || *is_matched && tokens.contains(&"*"), "{:?}", tokens);
            }
        }
        let (fields, more) = selection.missing_in(&document, &is_matched);
        prop_assert_eq!(fields.len() + more, is_matched.iter().filter(|is_matched| !**is_matched).count());
    }

    #[test]
    fn arbitrary_pointers_and_documents_never_panic(pointer in any::<String>(), document in "[\\[\\]{}\":,a0\\\\ -]{0,30}") {
        for pointer in [&pointer, &format!("/{pointer}")] {
            if let Ok(selection) = Selection::parse([&**pointer])
                && let Some(selected) = selection.select_from(&document)
            {
                selection.missing_in(&document, &selected.is_matched);
            }
        }
    }
}
