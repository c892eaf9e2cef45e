use std::time::UNIX_EPOCH;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::catalog::{Definition, ToolDefinition};
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_wire::json::RawJson;

fn scribe(capture: ArgumentCapture) -> AuditEncoder {
    let secrets = Redactor::from_environment([("API_KEY", "hunter22")]);
    AuditEncoder::new("00c0ffee".to_owned(), capture, vec![7; 32], secrets)
}

fn facts(tool: &str, arguments: Option<serde_json::Value>) -> CallStart {
    CallStart {
        number: 3,
        at: UNIX_EPOCH + Duration::from_millis(1_234),
        agent: Some(AgentName::new("claude")),
        session: 2,
        toolbox: Some(ToolboxName::new("dev")),
        server: Some(ServerName::new("git")),
        tool: tool.to_owned(),
        arguments: arguments.map(|value| RawJson::encode(&value)),
    }
}

fn end(ending: CallOutcome) -> CallEnd {
    CallEnd { outcome: ending, took: Duration::from_micros(12_045), ..CallEnd::default() }
}

fn line(scribe: &AuditEncoder, facts: &CallStart, end: &CallEnd) -> String {
    let mut line = Vec::new();
    scribe.encode_call(&mut line, facts, end);
    String::from_utf8(line).unwrap()
}

#[test]
fn call_line_has_caller_tool_decision_and_outcome() {
    let facts = facts("commit", Some(json!({"text": "hunter22", "apiKey": "x", "n": 1})));
    let decision =
        CallDecision { rule: Some("toolOverrides.git".into()), ..CallDecision::default() };
    let end = CallEnd { result_bytes: Some(20), decision, ..end(CallOutcome::Ok) };
    assert_eq!(
        line(&scribe(ArgumentCapture::None), &facts, &end),
        "{\"time\":\"1970-01-01T00:00:01.234Z\",\"kind\":\"call\",\"call\":\"00c0ffee-3\",\
         \"agent\":\"claude\",\"session\":\"00c0ffee-2\",\"toolbox\":\"dev\",\"server\":\"git\",\
         \"tool\":\"commit\",\"argumentBytes\":38,\"decision\":\"allowed\",\
         \"rule\":\"toolOverrides.git\",\"outcome\":\"ok\",\"ms\":12.045,\"resultBytes\":20}\n"
    );
    let hashed = line(&scribe(ArgumentCapture::Hash), &facts, &end);
    assert!(hashed.contains("\"argumentsHash\":\"") && !hashed.contains("hunter22"), "{hashed}");
    let whole = line(&scribe(ArgumentCapture::Whole), &facts, &end);
    assert!(
        whole.contains("\"arguments\":{\"text\":\"***\",\"apiKey\":\"***\",\"n\":1}"),
        "{whole}"
    );
}

#[test]
fn argument_hashes_are_keyed_and_deterministic() {
    let hash = |key: u8, text: &[u8]| {
        AuditEncoder::new(String::new(), ArgumentCapture::Hash, vec![key; 32], Redactor::default())
            .hash(text)
    };
    assert_eq!(hash(1, b"{}"), hash(1, b"{}"));
    assert_ne!(hash(1, b"{}"), hash(1, b"{ }"));
    assert_ne!(hash(1, b"{}"), hash(2, b"{}"));
    assert_eq!(hash(1, b"{}").len(), 2 * HASH);
}

// invariant: forbidden-equals-missing
#[test]
fn distinguishes_denied_from_unknown_tools() {
    let scribe = scribe(ArgumentCapture::Hash);
    let raw = RawJson::encode(&json!({"name": "push", "inputSchema": {}}));
    let (tools, _) = ToolDefinition::read_all([raw]);
    let listing = Arc::new(Listing { tools, ..Listing::default() });
    let decision =
        CallDecision { listing: Some(listing), rule: Some("filters".into()), reason: None };
    let end = CallEnd { decision, ..end(CallOutcome::UnknownTool) };
    let denied = line(&scribe, &facts("push", None), &end);
    assert!(denied.contains("\"decision\":\"denied\",\"rule\":\"filters\",\"ms\""), "{denied}");
    let unknown = line(&scribe, &facts("pull", None), &end);
    assert!(unknown.contains("\"decision\":\"unknown\",\"ms\""), "{unknown}");
}

#[test]
fn denial_reasons_are_redacted_and_truncated() {
    let reason = format!("no hunter22 {}", "ä".repeat(MAX_NAME));
    let decision = CallDecision { reason: Some(reason), ..CallDecision::default() };
    let end = CallEnd { decision, ..end(CallOutcome::Denied) };
    let scribe = scribe(ArgumentCapture::Hash);
    let line = line(&scribe, &facts("push", None), &end);
    assert!(line.contains("\"decision\":\"denied\"") && !line.contains("outcome"), "{line}");
    assert!(line.contains("\"reason\":\"no *** ää") && line.contains("ä…\""), "{line}");
}

#[test]
fn control_characters_in_names_are_escaped() {
    let scribe = scribe(ArgumentCapture::Hash);
    let facts = facts("a\n\"b\u{2028}", None);
    let line = line(&scribe, &facts, &end(CallOutcome::UnknownTool));
    assert_eq!(line.lines().count(), 1);
    let read: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(read["tool"], "a\n\"b\u{2028}");
}

#[test]
fn call_line_has_progress_flags_only_when_set() {
    let scribe = scribe(ArgumentCapture::None);
    let stopped = CallEnd {
        is_dangerous: true,
        is_confirmed: true,
        is_cached: true,
        queued: Duration::from_millis(2),
        stop_reason: Some(CallStopReason::Rate),
        ..end(CallOutcome::Denied)
    };
    let facts = facts("log", None);
    let usual = line(&scribe, &facts, &end(CallOutcome::Ok));
    let marked = line(&scribe, &facts, &stopped);
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
