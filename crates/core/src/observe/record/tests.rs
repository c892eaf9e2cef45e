use std::time::UNIX_EPOCH;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::catalog::{Definition, ToolDefinition};
use crate::name::{ServerName, ToolboxName};
use crate::raw::Raw;

fn scribe(kept: KeptArguments) -> Scribe {
    let secrets = Secrets::of_environment([("API_KEY", "hunter22")]);
    Scribe::new("00c0ffee".to_owned(), kept, vec![7; 32], secrets)
}

fn facts(tool: &str, arguments: Option<serde_json::Value>) -> CallFacts {
    CallFacts {
        number: 3,
        at: UNIX_EPOCH + Duration::from_millis(1_234),
        agent: Some(AgentName::new("claude")),
        session: 2,
        toolbox: Some(ToolboxName::new("dev")),
        server: Some(ServerName::new("git")),
        tool: tool.to_owned(),
        arguments: arguments.map(|value| Raw::encode(&value)),
    }
}

fn end(ending: Ending) -> CallEnd {
    CallEnd { ending, took: Duration::from_micros(12_045), result_bytes: None }
}

fn line(scribe: &Scribe, facts: &CallFacts, details: &CallDetails, end: CallEnd) -> String {
    let mut line = Vec::new();
    scribe.call(&mut line, facts, details, end);
    String::from_utf8(line).unwrap()
}

#[test]
fn a_line_says_who_called_what_and_what_became_of_it() {
    let facts = facts("commit", Some(json!({"text": "hunter22", "apiKey": "x", "n": 1})));
    let details = CallDetails { rule: Some("toolOverrides.git".into()), ..CallDetails::default() };
    let end = CallEnd { result_bytes: Some(20), ..end(Ending::Ok) };
    assert_eq!(
        line(&scribe(KeptArguments::None), &facts, &details, end),
        "{\"time\":\"1970-01-01T00:00:01.234Z\",\"kind\":\"call\",\"call\":\"00c0ffee-3\",\
         \"agent\":\"claude\",\"session\":\"00c0ffee-2\",\"toolbox\":\"dev\",\"server\":\"git\",\
         \"tool\":\"commit\",\"argumentBytes\":38,\"decision\":\"allowed\",\
         \"rule\":\"toolOverrides.git\",\"outcome\":\"ok\",\"ms\":12.045,\"resultBytes\":20}\n"
    );
    let hashed = line(&scribe(KeptArguments::Hash), &facts, &details, end);
    assert!(hashed.contains("\"argumentsHash\":\"") && !hashed.contains("hunter22"), "{hashed}");
    let whole = line(&scribe(KeptArguments::Whole), &facts, &details, end);
    assert!(
        whole.contains("\"arguments\":{\"text\":\"***\",\"apiKey\":\"***\",\"n\":1}"),
        "{whole}"
    );
}

#[test]
fn equal_arguments_have_equal_hashes_and_none_without_the_key() {
    let hash = |key: u8, text: &[u8]| {
        Scribe::new(String::new(), KeptArguments::Hash, vec![key; 32], Secrets::default())
            .hash(text)
    };
    assert_eq!(hash(1, b"{}"), hash(1, b"{}"));
    assert_ne!(hash(1, b"{}"), hash(1, b"{ }"));
    assert_ne!(hash(1, b"{}"), hash(2, b"{}"));
    assert_eq!(hash(1, b"{}").len(), 2 * HASH);
}

#[test]
fn a_tool_that_is_denied_is_told_from_one_that_is_not_there() {
    let scribe = scribe(KeptArguments::Hash);
    let raw = Raw::encode(&json!({"name": "push", "inputSchema": {}}));
    let (tools, _) = ToolDefinition::read_all([raw]);
    let listing = Arc::new(Listing { tools, ..Listing::default() });
    let details = CallDetails {
        listing: Some(listing),
        rule: Some("filters".into()),
        ..CallDetails::default()
    };
    let denied = line(&scribe, &facts("push", None), &details, end(Ending::Unknown));
    assert!(
        denied.contains("\"decision\":\"denied\",\"rule\":\"filters\",\"outcome\":\"denied\""),
        "{denied}"
    );
    let unknown = line(&scribe, &facts("pull", None), &details, end(Ending::Unknown));
    assert!(unknown.contains("\"decision\":\"unknown\",\"outcome\":\"unknown\""), "{unknown}");
}

#[test]
fn what_is_refused_says_why_without_secrets_and_in_short() {
    let reason = format!("no hunter22 {}", "ä".repeat(MAX_NAME));
    let details = CallDetails { reason: Some(reason), ..CallDetails::default() };
    let scribe = scribe(KeptArguments::Hash);
    let line = line(&scribe, &facts("push", None), &details, end(Ending::Refused));
    assert!(line.contains("\"decision\":\"refused\""), "{line}");
    assert!(line.contains("\"reason\":\"no *** ää") && line.contains("ä…\""), "{line}");
}

#[test]
fn a_made_up_name_breaks_no_line() {
    let scribe = scribe(KeptArguments::Hash);
    let details = CallDetails::default();
    let facts = facts("a\n\"b\u{2028}", None);
    let line = line(&scribe, &facts, &details, end(Ending::Unknown));
    assert_eq!(line.lines().count(), 1);
    let read: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(read["tool"], "a\n\"b\u{2028}");
}

#[test]
fn a_line_says_how_the_call_went() {
    let scribe = scribe(KeptArguments::None);
    let details = CallDetails {
        is_dangerous: true,
        is_confirmed: true,
        is_cached: true,
        waited: Duration::from_millis(2),
        stopped_by: Some(Stop::Rate),
        ..CallDetails::default()
    };
    let facts = facts("log", None);
    let usual = line(&scribe, &facts, &CallDetails::default(), end(Ending::Ok));
    let marked = line(&scribe, &facts, &details, end(Ending::Refused));
    for mark in [
        r#""stoppedBy":"rate""#,
        r#""dangerous":true"#,
        r#""confirmed":true"#,
        r#""cached":true"#,
        r#""waitedMs":2.000"#,
    ] {
        assert!(marked.contains(mark), "no {mark} in {marked}");
        let key = mark.split_once(':').unwrap().0;
        assert!(!usual.contains(key), "{key} in {usual}");
    }
}
