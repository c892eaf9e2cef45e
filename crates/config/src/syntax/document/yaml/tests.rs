use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};

use super::parse;
use crate::syntax::document::Node;
use crate::syntax::reader::ConfigReader;

fn read(text: &str) -> Result<Json, String> {
    let tree = parse(text).map_err(|finding| {
        let (line, column) = finding.position.unwrap();
        let hint = finding.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{line}:{column}: {}{hint}", finding.message)
    })?;
    let mut reader = ConfigReader::new(None);
    let node = Node::root(&tree);
    let read = reader.read_json(&node);
    let findings = reader.into_findings(text);
    findings.first().map_or(Ok(read), |finding| Err(finding.message.clone()))
}

fn fault(text: &str) -> String {
    read(text).expect_err(text)
}

#[test]
fn scalars_and_collections_become_json() {
    let text = "\
# A comment
text: plain text with 'quotes' and: colons
quoted: \"a\\tb\"
single: 'it''s'
number: -1.5e3
whole: 12
yes: yes
on: true
nothing:
tilde: ~
list:
- a
- [1, {b: c}]
literal: |
  two
  lines
folded: >-
  one
  line
date: 2026-01-02
version: 1.2.3
empty: {}
1: one
"
    .replace("and: colons", "colons");
    let wanted = json!({
        "text": "plain text with 'quotes' colons", "quoted": "a\tb", "single": "it's",
        "number": -1500.0, "whole": 12, "yes": "yes", "on": true, "nothing": null, "tilde": null,
        "list": ["a", [1, { "b": "c" }]], "literal": "two\nlines\n", "folded": "one line",
        "date": "2026-01-02", "version": "1.2.3", "empty": {}, "1": "one",
    });
    let read = read(&text).unwrap();
    assert_eq!(read["number"].as_f64(), Some(-1500.0));
    let without = |mut value: Json| {
        value.as_object_mut().unwrap().remove("number");
        value
    };
    assert_eq!(without(read), without(wanted));
}

#[test]
fn a_file_without_anything_is_null() {
    for text in ["", "\n", "# only this\n", "---\n", "--- \n...\n"] {
        assert_eq!(read(text), Ok(Json::Null), "{text:?}");
    }
}

#[test]
fn aliases_are_copied() {
    let read = read("a: &x {b: 1}\nc: *x\nd: [*x]\ne: &y 5\nf: *y").unwrap();
    let wanted = json!({ "a": { "b": 1 }, "c": { "b": 1 }, "d": [{ "b": 1 }], "e": 5, "f": 5 });
    assert_eq!(read, wanted);
}

#[test]
fn unsupported_yaml_is_rejected_with_its_position() {
    for (text, wanted) in [
        (
            "a: 1\n---\nb: 2",
            "2:1: expected one document, found another (remove everything from \
             this `---` on, or move it to another file)",
        ),
        (
            "a: !mine b",
            "1:4: unsupported tag `!mine` (remove the tag: the syntax of a value determines its type)",
        ),
        (
            "a: !!binary aGk=",
            "1:4: unsupported tag `!!binary` (remove the tag: the syntax of a value determines its \
             type)",
        ),
        ("? [a, b]\n: c", "1:3: expected a string as key (put the key in double quotes)"),
        ("~: c", "1:1: expected a string as key (put the key in double quotes)"),
        (
            "é:\n  ü: 0x1F",
            "2:6: `0x1F` is not a valid JSON number (use decimal digits, or put a string in double \
             quotes)",
        ),
        (
            "a: 007",
            "1:4: `007` is not a valid JSON number (use decimal digits, or put a string in double \
             quotes)",
        ),
        (
            "a: +49123",
            "1:4: `+49123` is not a valid JSON number (use decimal digits, or put a string in double \
             quotes)",
        ),
        (
            "a: .inf",
            "1:4: `.inf` is not a valid JSON number (use decimal digits, or put a string in double \
             quotes)",
        ),
        (
            "a: &x [*x]",
            "1:8: this alias refers to a value that contains it (write the value itself)",
        ),
        ("a: *x", "1:4: unknown alias: no value before it has this anchor"),
        (
            "x: &x {a: 1}\ny:\n  <<: *x",
            "3:3: merge keys (`<<`) are not supported (write the keys themselves, or use an alias for \
             a whole value)",
        ),
        ("a:\n\tb: 1", "2:2: tab in the indentation (indent with spaces)"),
        ("a: b: c", "1:5: unexpected ':' (put strings that contain `: ` in double quotes)"),
        ("a: \"b", "1:4: unclosed quote"),
        (
            r#"a: "\ud83d\ude00""#,
            r"1:4: invalid escape (write the character itself, or `\U` and eight digits; YAML has no `\u…` pairs)",
        ),
        ("\0", "1:1: unprintable character"),
    ] {
        assert_eq!(fault(text), wanted, "{text}");
    }
}

#[test]
fn lines_may_end_as_on_windows() {
    assert_eq!(read("a: 1\r\nb:\r\n  c: ü\r\n"), Ok(json!({ "a": 1, "b": { "c": "ü" } })));
    assert!(fault("ä: 1\r\nb: 007\r\n").starts_with("2:4: "));
}

#[test]
fn alias_bombs_and_deep_nesting_are_rejected_quickly() {
    let began = Instant::now();
    let mut laughs = "l0: &l0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    for level in 1..20 {
        let below = level - 1;
        let all = vec![format!("*l{below}"); 10].join(", ");
        laughs.extend([format!("l{level}: &l{level} [{all}]\n")]);
    }
    assert!(fault(&laughs).contains("more than 200000 values"), "{}", fault(&laughs));
    let deep = [
        "[".repeat(50_000),
        "{a: ".repeat(50_000),
        "- ".repeat(50_000),
        "? ".repeat(50_000),
        (0..5_000).map(|depth| " ".repeat(depth) + "a:\n").collect(),
        (1..200).fold("x0: &x0 [a]\n".to_owned(), |text, level| {
            format!("{text}x{level}: &x{level} [*x{}]\n", level - 1)
        }),
    ];
    for text in deep {
        let found = fault(&text);
        assert!(found.contains("nested too deeply"), "{found}");
    }
    assert!(fault(&"[a,".repeat(20_000)).contains("nested too deeply"));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn malformed_text_does_not_panic() {
    let text = "a: &x {b: [1, 'c', \"d\\u00e9\"]}\ne: |+\n  f\n\n? g\n: !!str h\ni: *x\n- j\n%TAG ! x\n...";
    let marks =
        ["", "&", "*", "!", "-", "?", ":", "|", ">", "\t", "\"", "'", "{", "]", "%", "é", "\0"];
    for (at, was) in text.char_indices() {
        _ = read(&text[..at]);
        for now in marks {
            _ = read(&[&text[..at], now, &text[at + was.len_utf8()..]].concat());
            _ = read(&[&text[..at], now, &text[at..]].concat());
        }
    }
}

#[test]
fn long_values_are_truncated_in_messages() {
    let long = "1".repeat(100_000);
    for text in [format!("a: {long}"), format!("a: 0{long}"), format!("a: !x{long} b")] {
        let found = fault(&text);
        assert!(found.len() < 200, "{}", found.len());
    }
    let key = "k".repeat(100_000);
    assert!(fault(&format!("? {key}\n: a")).ends_with("key longer than 1000 bytes"));
}

#[test]
fn large_integers_are_rejected_rather_than_rounded() {
    assert_eq!(read("[18446744073709551615, -0]").unwrap()[0], json!(u64::MAX));
    for text in ["18446744073709551616", "-9223372036854775809"] {
        assert!(fault(text).contains("is too large"), "{}", fault(text));
    }
    assert_eq!(read("1.5e300"), Ok(json!(1.5e300)));
}

#[test]
fn deep_and_wide_documents_parse_quickly() {
    let began = Instant::now();
    let keys = "k".repeat(900);
    let (open, close) = (format!("{{? {keys} : ").repeat(90), "}".repeat(90));
    let wide: Vec<_> = (0..50_000).map(|number| format!("{number}: a")).collect();
    assert!(read(&format!("{open}{{{}}}{close}", wide.join(","))).is_ok());
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn aliases_of_long_texts_count_towards_the_limit() {
    let long = "x".repeat(64 * 1024);
    let many =
        |aliases: usize| format!("a: &x \"{long}\"\nb: [{}]", vec!["*x"; aliases].join(", "));
    assert!(read(&many(100)).is_ok());
    let fault = fault(&many(1000));
    assert!(fault.contains("including those of aliases"), "{fault}");
}
