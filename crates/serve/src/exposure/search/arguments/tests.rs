use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn parse(arguments: &Value) -> Result<SearchTools, String> {
    SearchTools::parse(Some(&RawJson::encode(arguments)))
}

fn queries(arguments: &Value) -> Vec<String> {
    parse(arguments).unwrap_or_else(|problem| panic!("{problem}")).queries
}

#[test]
fn accepts_all_forms_of_queries() {
    for (arguments, expected) in [
        (json!({"queries": ["a b", "c"]}), vec!["a b", "c"]),
        (json!({"queries": "a b"}), vec!["a b"]),
        (json!({"query": "a b"}), vec!["a b"]),
        (json!({"query": ["a b", "c"]}), vec!["a b", "c"]),
        (json!({"queries": "[\"a b\", \"c\"]"}), vec!["a b", "c"]),
        (json!({"queries": "[a] b"}), vec!["[a] b"]),
        (json!({"queries": [{"query": "a b"}, null]}), vec!["a b"]),
        (json!({"queries": [7, true]}), vec!["7", "true"]),
        (json!({"queries": [" a\n", "", "\u{0}\u{7}"], "query": null}), vec!["a"]),
        (json!(r#"{"queries": ["a"]}"#), vec!["a"]),
    ] {
        assert_eq!(queries(&arguments), expected, "{arguments}");
    }
}

#[test]
fn invalid_arguments_are_reported() {
    for (arguments, expected) in [
        (json!({}), "no query given"),
        (json!({"queries": []}), "no query given"),
        (json!({"queries": ["", " "]}), "no query given"),
        (json!({"queries": [["a"]]}), "`queries` is not a list of strings"),
        (json!({"queries": {"a": 1}}), "`queries` is not a list of strings"),
        (json!({"queries": "a", "toolbox": 7}), "`toolbox` is not a string"),
        (json!({"queries": "a", "limit": "many"}), "`limit` is not a number"),
        (json!({"queries": "a", "detail": "all"}), "`detail` is neither"),
        (json!([1]), "not an object"),
        (json!(7), "not an object"),
        (Value::Null, "they are missing"),
    ] {
        let problem = parse(&arguments).unwrap_err();
        assert!(problem.contains(expected), "{arguments}: {problem}");
        assert!(problem.contains("Expected {\"queries\""), "{problem}");
    }
}

#[test]
fn queries_and_limit_are_bounded() {
    let many: Vec<_> = (0..1000).map(|n| format!("query {n}")).collect();
    let args = parse(&json!({"queries": many})).unwrap();
    assert_eq!((args.queries.len(), args.left_out), (MAX_QUERIES, 1000 - MAX_QUERIES));
    let long = queries(&json!({"queries": ["ä".repeat(1_000_000)]}));
    assert_eq!(long[0].len(), MAX_QUERY);
    for (limit, expected) in [
        (json!(3), 3),
        (json!("3"), 3),
        (json!(3.7), 3),
        (json!(0), 1),
        (json!(-4), 1),
        (json!(1e99), MAX_LIMIT),
        (Value::Null, DEFAULT_LIMIT),
    ] {
        let args = parse(&json!({"queries": "a", "limit": limit})).unwrap();
        assert_eq!(args.limit, expected, "{limit}");
    }
}

#[test]
fn accepts_aliases_of_the_other_arguments() {
    let wanted = json!({"queries": "a", "toolbox": " dev ", "server_name": "", "detail": "Full"});
    let args = parse(&wanted).unwrap();
    assert_eq!((args.toolbox.as_deref(), args.server), (Some("dev"), None));
    assert_eq!(args.detail, Detail::Full);
}
