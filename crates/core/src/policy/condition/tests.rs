use serde_json::{Number, Value, json};

use super::*;

fn test(test: ArgumentTest, arguments: &str) -> Result<(), String> {
    let when = PolicyCondition {
        arguments: vec![("/path".to_owned(), test)],
        ..PolicyCondition::default()
    };
    let condition = Condition::new(RulePath::new(&["when"]), &when, None);
    check([&condition].into_iter(), Some(arguments.as_bytes())).map_err(|refusal| refusal.reason)
}

fn matches(pattern: &str) -> ArgumentTest {
    ArgumentTest { matches: Some(pattern.to_owned()), ..ArgumentTest::default() }
}

#[test]
fn strings_are_matched_by_regex() {
    let workspace = || matches("^/workspace/");
    assert_eq!(test(workspace(), r#"{"path": "/workspace/a"}"#), Ok(()));
    assert_eq!(test(workspace(), r#"{"path": ["/workspace/a", "/workspace/b"]}"#), Ok(()));
    for refused in [
        r#"{"path": "/etc/passwd"}"#,
        r#"{"path": ["/workspace/a", "/etc/passwd"]}"#,
        r#"{"path": []}"#,
        r#"{"path": null}"#,
        r#"{"path": 3}"#,
        r#"{"path": {"/workspace/": 1}}"#,
        r#"{"other": "/workspace/"}"#,
        r#"["/workspace/"]"#,
        "{}",
    ] {
        assert!(test(workspace(), refused).is_err(), "{refused}");
    }
    let inside = ArgumentTest { not_matches: Some(r"(^|/)\.\.(/|$)".to_owned()), ..workspace() };
    assert_eq!(test(inside.clone(), r#"{"path": "/workspace/a..b"}"#), Ok(()));
    assert!(test(inside, r#"{"path": "/workspace/../etc"}"#).is_err());
}

fn test_at(pointer: &str, test: ArgumentTest, arguments: &str) -> Result<(), String> {
    let when = PolicyCondition {
        arguments: vec![(pointer.to_owned(), test)],
        ..PolicyCondition::default()
    };
    let condition = Condition::new(RulePath::new(&["when"]), &when, None);
    check([&condition].into_iter(), Some(arguments.as_bytes())).map_err(|refusal| refusal.reason)
}

#[test]
fn star_requires_every_element_to_match() {
    let test = |arguments: &str| test_at("/files/*/path", matches("^/w/"), arguments);
    assert_eq!(test(r#"{"files": [{"path": "/w/a"}, {"path": "/w/b", "x": 1}]}"#), Ok(()));
    assert_eq!(test(r#"{"files": [{"path": ["/w/a", "/w/b"]}]}"#), Ok(()));
    for refused in [
        r#"{"files": [{"path": "/w/a"}, {"path": "/etc"}]}"#,
        r#"{"files": [{"path": "/w/a"}, {}]}"#,
        r#"{"files": [{"path": "/w/a"}, "/w/b"]}"#,
        r#"{"files": []}"#,
        r#"{"files": {"0": {"path": "/w/a"}}}"#,
        r#"{"files": {"*": {"path": "/w/a"}}}"#,
        r#"{"files": "/w/a"}"#,
        r#"{"files": null}"#,
        r#"{"files": [[{"path": "/w/a"}]]}"#,
        "{}",
    ] {
        assert!(test(refused).is_err(), "{refused}");
    }
    assert_eq!(
        test(r#"{"files": [{}]}"#).unwrap_err(),
        "allowed only if every argument `/files/*/path` matches `^/w/`; the list is missing or \
         empty, or an element lacks it"
    );
}

#[test]
fn not_matches_is_checked_in_every_element() {
    let never =
        || ArgumentTest { not_matches: Some("secret".to_owned()), ..ArgumentTest::default() };
    let test = |arguments: &str| test_at("/rows/*/cells/*", never(), arguments);
    assert_eq!(test(r#"{"rows": [{"cells": ["a"]}, {"cells": ["b", "c"]}]}"#), Ok(()));
    for refused in [
        r#"{"rows": [{"cells": ["a"]}, {"cells": ["b", "a secret"]}]}"#,
        r#"{"rows": [{"cells": ["a"]}, {"cells": "a secret"}]}"#,
        r#"{"rows": [{"cells": ["a"]}, {"Cells": ["a secret"]}]}"#,
        r#"{"rows": [{"cells": [{"a": "secret"}]}]}"#,
        r#"{"rows": []}"#,
    ] {
        assert!(test(refused).is_err(), "{refused}");
    }
}

#[test]
fn tilde_two_escapes_a_literal_star() {
    let a = || matches("^a$");
    assert_eq!(test_at("/~2/x", a(), r#"{"*": {"x": "a"}}"#), Ok(()));
    assert!(test_at("/~2/x", a(), r#"{"y": {"x": "a"}}"#).is_err());
    assert!(test_at("/*/x", a(), r#"{"*": {"x": "a"}}"#).is_err(), "not a list");
    assert_eq!(test_at("/a*/~1~0~02", a(), r#"{"a*": {"/~~2": "a"}}"#), Ok(()));
    assert_eq!(test_at("/x/1", a(), r#"{"x": ["b", "a"]}"#), Ok(()));
    for pointer in ["/x/01", "/x/+1", "/x/-1", "/x/2", "x/1"] {
        assert!(test_at(pointer, a(), r#"{"x": ["b", "a"]}"#).is_err(), "{pointer}");
    }
}

#[test]
fn numbers_must_be_within_the_bounds() {
    let range = || ArgumentTest {
        min: Some(1.into()),
        max: Number::from_f64(2.5),
        ..ArgumentTest::default()
    };
    for kept in ["1", "2.5", "1e0", "[1, 2]"] {
        assert_eq!(test(range(), &format!(r#"{{"path": {kept}}}"#)), Ok(()), "{kept}");
    }
    for left in ["0.999", "2.51", "-1", "1e300", "\"2\"", "true", "[1, 3]"] {
        assert!(test(range(), &format!(r#"{{"path": {left}}}"#)).is_err(), "{left}");
    }
}

#[test]
fn numbers_are_compared_with_the_bounds_exactly() {
    let within = |min: Option<i64>, max: Option<u64>, number: &str| {
        let bounds = ArgumentTest {
            min: min.map(Into::into),
            max: max.map(Into::into),
            ..ArgumentTest::default()
        };
        test(bounds, &format!(r#"{{"path": {number}}}"#)).is_ok()
    };
    let max = 1 << 53;
    for kept in ["9007199254740992", "9007199254740992.0", "9007199254740991.999999999", "-1e400"] {
        assert!(within(None, Some(max), kept), "{kept}");
    }
    for left in ["9007199254740993", "9007199254740992.0000000000000001", "1e400", "1E+16"] {
        assert!(!within(None, Some(max), left), "{left}");
    }
    for (number, is_kept) in [("-0", true), ("0e5", true), ("-1e-400", false), ("1e400", true)] {
        assert_eq!(within(Some(0), None, number), is_kept, "{number}");
    }
    assert!(!within(Some(0), None, "1e99999999999999999999"), "an exponent beyond 64 bits");
    assert!(within(None, Some(u64::MAX), "18446744073709551615"));
    assert!(!within(None, Some(u64::MAX), "18446744073709551616"));
}

#[test]
fn names_that_differ_only_in_case_are_ambiguous() {
    for similar in [
        r#"{"path": "a", "PATH": "b"}"#,
        r#"{"Path": "b", "path": "a"}"#,
        r#"{"p\u0061th": "a", "pAth": "b"}"#,
    ] {
        let why = test(matches("^a"), similar).unwrap_err();
        assert!(why.ends_with("missing or ambiguous"), "{why}");
    }
    let unusual = "{\"tasks\": \"a\", \"ta\u{17f}\u{212a}s\": \"b\"}";
    assert!(test_at("/tasks", matches("^a"), unusual).is_err());
    let dotted = "{\"size\": \"a\", \"s\u{130}ze\": \"b\"}";
    assert!(test_at("/size", matches("^a"), dotted).is_err());
    assert_eq!(test(matches("^a"), r#"{"path": "a", "paths": "b", "x": {"PATH": "b"}}"#), Ok(()));
}

#[test]
fn value_must_be_in_one_of() {
    let test_of = |values: &[Value]| ArgumentTest {
        one_of: Some(values.to_vec()),
        ..ArgumentTest::default()
    };
    let values = [json!("a"), json!(3), json!(null), json!(["x", "y"])];
    for kept in [r#""a""#, "3", "null", r#"["x", "y"]"#, r#"["a", 3]"#] {
        assert_eq!(test(test_of(&values), &format!(r#"{{"path": {kept}}}"#)), Ok(()), "{kept}");
    }
    assert!(test(test_of(&values), r#"{"path": "b"}"#).is_err());
    assert!(test(test_of(&values), r#"{"path": ["x"]}"#).is_err());
    let numbers = [json!(9_007_199_254_740_992_u64), json!(0.1), json!({"n": 1})];
    for kept in ["9007199254740992", "9.007199254740992e15", "0.10", r#"{"n": 1.0}"#] {
        assert_eq!(test(test_of(&numbers), &format!(r#"{{"path": {kept}}}"#)), Ok(()), "{kept}");
    }
    for left in ["9007199254740993", "0.1000000000000000055511151231257827", r#"{"n": 2}"#] {
        assert!(test(test_of(&numbers), &format!(r#"{{"path": {left}}}"#)).is_err(), "{left}");
    }
}

#[test]
fn refusal_describes_the_unmet_constraint() {
    let why = test(matches("^a"), "{}").unwrap_err();
    assert_eq!(
        why,
        "allowed only if argument `/path` matches `^a`, but it is missing or ambiguous"
    );
    let why = test(matches("^a"), r#"{"path": "b"}"#).unwrap_err();
    assert_eq!(why, "allowed only if argument `/path` matches `^a`");
}

#[test]
fn treats_conditions_that_cannot_be_evaluated_as_unmet() {
    assert!(test(matches("(unclosed"), r#"{"path": "a"}"#).is_err());
    let not = ArgumentTest { not_matches: Some("(unclosed".to_owned()), ..ArgumentTest::default() };
    assert!(test(not, r#"{"path": "a"}"#).is_err());
    let twice = test(matches("^a"), r#"{"path": "b", "path": "a"}"#).unwrap_err();
    assert!(twice.contains("duplicate name `path`"), "{twice}");
    assert!(test(matches("^a"), "{").is_err());
}

#[test]
fn working_directory_is_matched_by_globs() {
    let is_here = |glob: &str, folder: Option<&str>| {
        let working_directory = Some(vec!["/nowhere".to_owned(), glob.to_owned()]);
        let when = PolicyCondition { working_directory, ..PolicyCondition::default() };
        Condition::new(RulePath::new(&["when"]), &when, folder.map(Path::new)).matches_directory()
    };
    let glob = "/home/*/work/**";
    assert!(is_here(glob, Some("/home/me/work/a/b")));
    assert!(is_here(glob, Some("/home/me/work")));
    assert!(!is_here(glob, Some("/home/me/working")));
    assert!(!is_here(glob, Some("/home/me/too/work/a")));
    assert!(!is_here(glob, None), "the working directory is unknown");
    assert!(!is_here("/home/[", Some("/home/[")));
}
