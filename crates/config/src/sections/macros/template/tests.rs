use pretty_assertions::assert_eq;

use super::{Pointer, RawTemplate, Template};
use crate::syntax::document::{self, Node};
use crate::syntax::reader::ConfigReader;

fn pointer(step: Option<&str>, path: &[&str]) -> Pointer {
    let path = path.iter().map(|key| (*key).to_owned()).collect();
    Pointer { step: step.map(str::to_owned), path }
}

fn read(text: &str) -> Result<Template, Vec<String>> {
    let tree = document::parse_jsonc(text).unwrap();
    let mut reader = ConfigReader::new(None);
    let read = RawTemplate::read(&Node::root(&tree), &mut reader);
    let findings = reader.into_findings(text);
    if findings.is_empty() {
        return Ok(read.template);
    }
    Err(findings.into_iter().map(|finding| finding.message).collect())
}

#[test]
fn json_pointers_round_trip() {
    for (text, expected) in [
        ("/inputs", pointer(None, &[])),
        ("/inputs/", pointer(None, &[""])),
        ("/inputs/a/0", pointer(None, &["a", "0"])),
        ("/steps/now", pointer(Some("now"), &[])),
        ("/steps/now/a~1b/m~0n/~01", pointer(Some("now"), &["a/b", "m~n", "~1"])),
    ] {
        let read = Pointer::parse(text).unwrap();
        assert_eq!(read, expected, "{text}");
        assert_eq!(read.to_string(), text);
    }
    for wrong in ["", "inputs/a", "/", "/steps", "/steps/", "/input/a", "/inputs/~", "/inputs/~2"] {
        assert!(Pointer::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn literals_keep_their_json_spelling() {
    let value = |text: &str| Ok(Template::Value(text.to_owned()));
    assert_eq!(
        read(r#"{"a": [1.0, 1e3, -0, 12345678901234567890], "b": {"c": null, "d": "é\n"}}"#),
        value(r#"{"a":[1.0,1e3,-0,12345678901234567890],"b":{"c":null,"d":"é\n"}}"#)
    );
    assert_eq!(read(r#"{"$gt": 5}"#), value(r#"{"$gt":5}"#));
    assert_eq!(read("[]"), value("[]"));
    assert_eq!(read("{}"), value("{}"));
}

#[test]
fn from_and_join_are_parsed() {
    let now = || pointer(Some("now"), &["time"]);
    assert_eq!(read(r#"{"$from": "/steps/now/time"}"#), Ok(Template::From(now(), None)));
    let null = Box::new(Template::Value("null".to_owned()));
    assert_eq!(
        read(r#"[{"$from": "/steps/now/time", "default": null}, 1]"#),
        Ok(Template::Array(vec![
            Template::From(now(), Some(null)),
            Template::Value("1".to_owned())
        ]))
    );
    assert_eq!(
        read(r#"{"text": {"$join": ["at ", {"$from": "/steps/now/time"}]}}"#),
        Ok(Template::Object(vec![(
            "text".to_owned(),
            Template::Join(vec![
                Template::Value("\"at \"".to_owned()),
                Template::From(now(), None)
            ])
        )]))
    );
}

#[test]
fn invalid_from_and_join_are_rejected() {
    for wrong in [
        r#"{"$from": 7}"#,
        r#"{"$from": null}"#,
        r#"{"$join": null}"#,
        r#"{"$from": "now"}"#,
        r#"{"$from": "/inputs/a", "else": 1}"#,
        r#"{"$join": "a"}"#,
        r#"{"$join": [], "more": 1}"#,
    ] {
        assert_eq!(read(wrong).unwrap_err().len(), 1, "{wrong}");
    }
}
