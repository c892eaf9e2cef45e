use std::fs;
use std::time::{Duration, SystemTime};

use pretty_assertions::assert_eq;

use super::*;
use crate::catalog::PrimitiveKind;
use crate::telemetry::context::CallStart;
use crate::telemetry::event::{
    AccessDenialReason, ClientSummary, LlmContext, ReadContext, SessionContext, SignInChange,
    SignInContext,
};
use crate::telemetry::llm_outcome::LlmOutcome;
use crate::telemetry::outcome::CallEnd;
use crate::telemetry::quota::{QuotaKind, QuotaOwner};
use crate::telemetry::record::{AuditEncoder, LlmRecord, ReadRecord, SignInRecord};
use crate::telemetry::redaction::Redactor;
use crate::telemetry::rejections::{Rejection, RejectionCause};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::ArgumentCapture;
use mcp_workbench_wire::json::RawJson;

fn call(time: u32, tool: &str, outcome: &str, ms: u32) -> String {
    line(time, tool, &format!("\"decision\":\"allowed\",\"outcome\":\"{outcome}\""), ms)
}

fn line(time: u32, tool: &str, end: &str, ms: u32) -> String {
    format!(
        "{{\"time\":\"2026-11-20T10:00:{time:02}.000Z\",\"kind\":\"call\",\"agent\":\"claude\",\
         \"session\":\"x-1\",\"toolbox\":\"dev\",\"server\":\"git\",\"tool\":\"{tool}\",\
         \"argumentBytes\":10,{end},\"ms\":{ms}.500,\"resultBytes\":20}}\n"
    )
}

fn summarise(text: &str, since: Option<&str>) -> AuditSummary {
    let mut stats = StatsBuilder::default();
    stats.summarise(text.as_bytes(), since);
    stats.finish()
}

#[test]
fn counts_calls_by_tool_and_outcome() {
    let mut text: String = (0..20).map(|ms| call(ms, "log", "ok", ms)).collect();
    text += &call(1, "log", "tool_error", 100);
    text += &line(2, "push", r#""decision":"denied","stoppedBy":"rate""#, 0);
    text += &line(2, "push", r#""decision":"unknown""#, 0);
    text += &call(3, "push", "cancelled", 7);
    text += &call(4, "pull", "lost", 0);
    let summary = summarise(&text, None);
    assert_eq!(summary.calls(), 25);
    assert_eq!(
        (summary.agents.as_slice(), summary.sessions),
        (["claude".to_owned()].as_slice(), 1)
    );
    let log = summary.tool("dev", "git", "log").unwrap();
    assert_eq!((log.calls, log.failed(), log.denied()), (21, 1, 0));
    assert_eq!((log.argument_bytes, log.result_bytes), (210, 420));
    let percentiles = [0, 50, 95, 100].map(|percent| log.percentile(percent));
    assert_eq!(percentiles, [Some(0.5), Some(10.5), Some(19.5), Some(100.5)]);
    let push = summary.tool("dev", "git", "push").unwrap();
    assert_eq!((push.calls, push.failed(), push.denied()), (3, 0, 2));
    let outcomes: Vec<_> = push.outcomes().collect();
    assert_eq!(outcomes, [("unknown_tool", 1), ("denied", 1), ("cancelled", 1)]);
    assert_eq!(push.percentile(50), Some(7.5), "calls that were not made have no latency");
    assert_eq!(summary.tool("dev", "git", "pull").unwrap().failed(), 1);
    assert_eq!(summary.tools.iter().map(|tool| tool.calls).collect::<Vec<_>>(), [21, 3, 1]);
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let most = call(1, "log", "ok", 1).replace(":10,", ":18446744073709551615,");
    let lost = "{\"time\":\"a\",\"kind\":\"lost\",\"records\":18446744073709551615}\n";
    let summary = summarise(&[&*most, &most, lost, lost].concat(), None);
    assert_eq!(summary.tool("dev", "git", "log").unwrap().argument_bytes, u64::MAX);
    assert_eq!(summary.lost, u64::MAX);
}

#[test]
fn counts_saved_bytes_lost_records_and_malformed_lines() {
    let text = "{\"time\":\"b\",\"kind\":\"session\",\"withoutWorkbenchBytes\":1000,\"shownBytes\":100}\n\
                {\"time\":\"c\",\"kind\":\"session\",\"withoutWorkbenchBytes\":10,\"shownBytes\":100}\n\
                {\"time\":\"c\",\"kind\":\"session\",\"directBytes\":10,\"shownBytes\":1}\n\
                {\"time\":\"a\",\"kind\":\"lost\",\"records\":3}\n\
                {\"time\":\"d\",\"kind\":\"something new\",\"x\":[1]}\n\n\
                {\"time\":\"e\",\"torn";
    let summary = summarise(text, None);
    assert_eq!((summary.saved_bytes(), summary.lost, summary.unreadable), (900, 3, 1));
    assert_eq!(summary.unclear_sessions, 1, "an older version wrote less");
    assert_eq!((summary.from.as_str(), summary.to.as_str()), ("a", "d"));
}

#[test]
fn clients_with_a_tool_search_are_counted_separately() {
    let line = |client: &str, search: &str, without: u32, shown: u32| {
        format!(
            "{{\"time\":\"b\",\"kind\":\"session\",\"client\":\"{client}\"{search},\
             \"withoutWorkbenchBytes\":{without},\"shownBytes\":{shown}}}\n"
        )
    };
    let search = ",\"hasToolSearch\":true";
    let text = line("gemini-cli", "", 90_000, 4_000)
        + &line("claude-code", search, 2_000, 5_000)
        + &line("claude-code", search, 2_000, 1_500)
        + &line("gemini-cli", "", 90_000, 100_000);
    let summary = summarise(&text, None);
    let [claude, gemini] = summary.clients.as_slice() else { panic!("{:?}", summary.clients) };
    assert_eq!(
        (claude.name.as_str(), claude.has_tool_search, claude.sessions),
        ("claude-code", true, 2)
    );
    assert_eq!(
        (claude.shown_bytes, claude.without_workbench_bytes, claude.saved_bytes),
        (6_500, 4_000, 500)
    );
    assert_eq!((gemini.has_tool_search, gemini.sessions, gemini.saved_bytes), (false, 2, 86_000));
    assert_eq!(summary.saved_bytes(), 86_500);
}

#[test]
fn sums_requests_and_tokens_by_model() {
    let line = |model: &str, outcome: &str, ms: u32| {
        format!(
            "{{\"time\":\"a\",\"kind\":\"llm\",\"request\":\"x-1\",\"session\":\"x-1\",\
             \"model\":\"{model}\",\"purpose\":\"tool\",\"outcome\":\"{outcome}\",\
             \"ms\":{ms}.500,\"tokensRead\":100,\"tokensWritten\":7}}\n"
        )
    };
    let mut text: String = (0..20).map(|ms| line("small", "ok", ms)).collect();
    text += &line("small", "rate_limited", 1000);
    text += &line("small", "cancelled", 1000);
    text += &line("sampling", "sampling_unsupported", 1);
    text += &line("small", "ok", 1).replace(":100,", ":18446744073709551615,");
    let summary = summarise(&text, None);
    let [small, sampling] = summary.models.as_slice() else { panic!("{:?}", summary.models) };
    assert_eq!((small.name.as_str(), small.requests, small.failed), ("small", 23, 1));
    assert_eq!((small.tokens_read, small.tokens_written), (u64::MAX, 161));
    assert_eq!([50, 95].map(|percent| small.percentile(percent)), [Some(9.5), Some(18.5)]);
    assert_eq!((sampling.requests, sampling.failed, sampling.percentile(50)), (1, 1, None));
    assert_eq!((summary.calls(), summary.sessions, summary.unreadable), (0, 0, 0));
}

#[test]
fn counts_denials_quotas_and_reads() {
    let line = |rest: &str| format!("{{\"time\":\"a\",{rest}}}\n");
    let wrong = r#""kind":"denied","address":"10.0.0.1","reason":"invalid_token","times":"#;
    let read = r#""toolbox":"dev","server":"git","name":"x","resultBytes":7,"#;
    let text = line(r#""kind":"limit","agent":"eve","quota":"processes","times":2"#)
        + &line(r#""kind":"limit","toolbox":"dev","server":"git","quota":"scopes","times":3"#)
        + &line(&format!("{wrong}1"))
        + &line(&format!("{wrong}21"))
        + &line(r#""kind":"denied","reason":"origin","times":1"#)
        + &line(&format!(r#""kind":"resource",{read}"outcome":"ok""#))
        + &line(&format!(r#""kind":"resource",{read}"outcome":"protocol_error""#))
        + &line(&format!(r#""kind":"prompt",{read}"decision":"unknown""#));
    let summary = summarise(&text, None);
    let told = summary.incidents.iter().map(|(incident, times)| {
        (incident.is_limit, incident.cause.as_str(), incident.who.as_str(), *times)
    });
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [
            (false, "invalid_token", "10.0.0.1", 22),
            (true, "scopes", "git", 3),
            (true, "processes", "eve", 2),
            (false, "origin", "", 1),
        ],
    );
    let [reads] = summary.reads.as_slice() else { panic!("{:?}", summary.reads) };
    assert_eq!((reads.toolbox.as_str(), reads.server.as_str()), ("dev", "git"));
    assert_eq!((reads.resources, reads.prompts, reads.failed, reads.result_bytes), (2, 1, 2, 21));
    assert_eq!((summary.calls(), summary.agents.len(), summary.unreadable), (0, 0, 0));
}

#[test]
fn escaped_names_are_decoded() {
    let text = call(0, r"a\u0062", "ok", 1) + &call(0, "ab", "ok", 1) + &call(0, r#"\""#, "ok", 1);
    let summary = summarise(&text, None);
    assert_eq!(summary.tool("dev", "git", "ab").map(|tool| tool.calls), Some(2));
    assert_eq!(summary.tool("dev", "git", "\"").map(|tool| tool.calls), Some(1));
}

#[test]
fn lines_before_since_are_skipped() {
    let text: String = (0..10).map(|time| call(time, "log", "ok", 1)).collect();
    assert_eq!(summarise(&text, Some("2026-11-20T10:00:07.000Z")).calls(), 3);
}

#[test]
fn reads_rotated_files_oldest_first() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.jsonl");
    assert!(audit_files(&audit).is_empty());
    for (path, time) in
        [(rotated_path(&audit, 2), 1), (rotated_path(&audit, 1), 2), (audit.clone(), 3)]
    {
        fs::write(path, call(time, "log", "ok", 1)).unwrap();
    }
    fs::write(rotated_path(&audit, 4), "").unwrap();
    let all = audit_files(&audit);
    assert_eq!(all, [rotated_path(&audit, 2), rotated_path(&audit, 1), audit]);
    assert_eq!(StatsBuilder::read(&all, None).unwrap().finish().calls(), 3);
}

#[test]
fn only_whole_lines_at_the_end_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let [old, new] = [call(1, "log", "ok", 1), call(2, "log", "ok", 1)];
    fs::write(rotated_path(&audit, 1), &old).unwrap();
    fs::write(&audit, format!("{new}{new}")).unwrap();
    let (files, line) = (audit_files(&audit), u64::try_from(new.len()).unwrap());
    for (bytes, calls) in [
        (0, 0),
        (line - 1, 0),
        (line, 1),
        (2 * line - 1, 1),
        (2 * line, 2),
        (3 * line - 1, 2),
        (3 * line, 3),
        (u64::MAX, 3),
    ] {
        let summary = StatsBuilder::read_last(&files, None, bytes).unwrap().finish();
        assert_eq!((summary.calls(), summary.unreadable), (calls, 0), "{bytes} bytes");
    }
}

/// Binds the members that `AuditEncoder` writes to those that are read here.
#[test]
fn reads_every_kind_of_line_that_the_audit_log_writes() {
    let secrets = Redactor::default();
    let encoder = AuditEncoder::new("run".to_owned(), ArgumentCapture::None, vec![7; 32], secrets);
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let (agent, took) = (AgentName::new("ann"), Duration::from_millis(3));
    let server = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("git") };
    let end = |outcome| CallEnd { outcome, took, result_bytes: Some(20), ..CallEnd::default() };
    let start = CallStart {
        number: 1,
        at,
        agent: Some(agent.clone()),
        session: 2,
        toolbox: Some(server.toolbox.clone()),
        server: Some(server.server.clone()),
        tool: "log".to_owned(),
        arguments: Some(RawJson::from_text("12345678")),
    };
    let mut lines = Vec::new();
    for outcome in [CallOutcome::Ok, CallOutcome::Denied, CallOutcome::UnknownTool] {
        encoder.encode_call(&mut lines, &start, &end(outcome));
    }
    encoder.encode_in_flight(&mut lines, &start);
    for what in [PrimitiveKind::Resource, PrimitiveKind::Prompt] {
        let read = ReadContext {
            at,
            agent: Some(&agent),
            session: 2,
            server: &server,
            what,
            name: "x".into(),
            rule: None,
        };
        encoder.read(&mut lines, &ReadRecord::new(&read, &end(CallOutcome::UnknownTool)));
    }
    let llm = LlmContext {
        agent: Some(&agent),
        session: 2,
        model: "haiku",
        reported_model: None,
        purpose: "choose",
        at,
        took,
        tokens: [5, 6],
        attempts: 1,
    };
    encoder.llm_request(&mut lines, &LlmRecord::new(&llm, LlmOutcome::Ok, 3));
    let program = ClientSummary { name: "claude".to_owned(), has_tool_search: true };
    let session = SessionContext {
        program,
        baseline_bytes: 90,
        served_bytes: 30,
        ..SessionContext::default()
    };
    encoder.session(&mut lines, &session);
    let rejections = [
        (Some(QuotaOwner::Agent(agent)), RejectionCause::Denied(AccessDenialReason::NoToken)),
        (Some(QuotaOwner::Server(server)), RejectionCause::Limit(QuotaKind::Reconnects)),
    ];
    for (who, cause) in rejections {
        AuditEncoder::encode_rejection(&mut lines, &Rejection { who, cause }, 4);
    }
    let sign_in = SignInContext { server: "git", account: Some("ann"), why: "" };
    encoder.sign_in(&mut lines, &SignInRecord::new(&sign_in, SignInChange::SignedIn));
    AuditEncoder::lost(&mut lines, 8);

    let summary = summarise(std::str::from_utf8(&lines).unwrap(), None);
    assert_eq!((summary.unreadable, summary.lost, summary.sessions), (0, 8, 1));
    assert_eq!(
        (summary.agents.as_slice(), &*summary.from),
        (&["ann".to_owned()][..], "1970-01-01T00:00:01.000Z")
    );
    let tool = summary.tool("dev", "git", "log").unwrap();
    let outcomes: Vec<_> = tool.outcomes().collect();
    assert_eq!(outcomes, [("ok", 1), ("unknown_tool", 1), ("denied", 1), ("lost", 1)]);
    let bytes = 4 * start.arguments.as_ref().map_or(0, RawJson::len) as u64;
    assert_eq!(
        (tool.argument_bytes, tool.result_bytes, tool.percentile(50)),
        (bytes, 60, Some(3.0))
    );
    let [reads] = &*summary.reads else { panic!("{:?}", summary.reads) };
    assert_eq!((&*reads.toolbox, &*reads.server, reads.result_bytes), ("dev", "git", 40));
    assert_eq!((reads.resources, reads.prompts, reads.failed), (1, 1, 2));
    let [model] = &*summary.models else { panic!("{:?}", summary.models) };
    assert_eq!((&*model.name, model.requests, model.failed), ("haiku", 1, 0));
    assert_eq!((model.tokens_read, model.tokens_written, model.percentile(50)), (5, 6, Some(3.0)));
    let [client] = &*summary.clients else { panic!("{:?}", summary.clients) };
    assert_eq!((&*client.name, client.has_tool_search, client.sessions), ("claude", true, 1));
    assert_eq!(
        (client.shown_bytes, client.without_workbench_bytes, client.saved_bytes),
        (30, 90, 60)
    );
    let rejected: Vec<_> = summary
        .incidents
        .iter()
        .map(|(rejection, times)| (rejection.is_limit, &*rejection.cause, &*rejection.who, *times))
        .collect();
    let denial = AccessDenialReason::NoToken.as_str();
    let limit = QuotaKind::Reconnects.as_str();
    assert_eq!(rejected, [(false, denial, "ann", 4), (true, limit, "git", 4)]);
    let [login] = &*summary.logins else { panic!("{:?}", summary.logins) };
    assert_eq!((&*login.server, &*login.account, login.signed_in), ("git", "ann", 1));
}
