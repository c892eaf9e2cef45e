use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::catalog::PrimitiveKind;
use crate::telemetry::event_bus::EventBus;
use crate::telemetry::{
    AccessDenial, AccessDenialReason, CallGuard, CallRequest, LimitReached, PrimitiveReadGuard,
    QuotaKind, ReadContext, ServerMetrics, SessionGuard, Telemetry,
};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::ArgumentCapture;
use mcp_workbench_wire::json::RawJson;

const TIMEOUT: Duration = Duration::from_secs(20);

struct Bench {
    folder: TempDir,
    observer: Telemetry,
    audit: AuditLog,
    listeners: EventBus,
    meters: Arc<ServerMetrics>,
    toolbox: ToolboxName,
    server: ServerName,
    arguments: RawJson,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let observer = Telemetry::default();
        let audit = open(&file(&folder), "one");
        Self {
            listeners: observer.build_bus(Some(&audit)),
            meters: observer.meters("dev", "git"),
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new("git"),
            arguments: RawJson::encode(&json!({"n": 1})),
            folder,
            observer,
            audit,
        }
    }

    fn call<'a>(&'a self, tool: &'a str) -> CallGuard<'a> {
        let subject = CallRequest {
            agent: None,
            client: "",
            session: 1,
            toolbox: Some(&self.toolbox),
            server: Some(&self.server),
            tool,
            arguments: Some(&self.arguments),
            meta: &[],
        };
        CallGuard::begin(&self.listeners, &self.meters, subject)
    }

    fn lines(&self) -> Vec<Value> {
        read(&file(&self.folder))
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("audit.jsonl")
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn outcomes(lines: &[Value]) -> Vec<(&str, &str)> {
    let text = |value: &'_ Value, key: &str| value[key].as_str().map(str::to_owned);
    lines
        .iter()
        .map(|line| {
            assert!(text(line, "tool").is_some() && text(line, "outcome").is_some(), "{line}");
            (line["tool"].as_str().unwrap(), line["outcome"].as_str().unwrap())
        })
        .collect()
}

fn open(file: &Path, run: &str) -> AuditLog {
    let config = AuditConfig {
        file: file.to_owned(),
        arguments: ArgumentCapture::Hash,
        max_bytes: 1 << 20,
        keep: 1,
    };
    let process = AuditProcess {
        run: run.to_owned(),
        opened: 1,
        calls: Arc::default(),
        lost: Counter::default(),
    };
    AuditLog::open(config, Redactor::default(), process).unwrap()
}

/// Waits for a file with this suffix next to the audit file.
fn wait_beside(folder: &TempDir, end: &str) -> PathBuf {
    let until = Instant::now() + TIMEOUT;
    loop {
        let found = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut found = found.filter(|path| path.to_string_lossy().ends_with(end));
        if let Some(path) = found.next() {
            return path;
        }
        assert!(Instant::now() < until, "no file that ends in `{end}`");
        std::thread::yield_now();
    }
}

// invariant: every-call-recorded
#[test]
fn writes_one_line_per_call_for_every_outcome() {
    let bench = Bench::new();
    bench.call("good").end(CallOutcome::Ok, Some(2));
    drop(bench.call("given up"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _call = bench.call("broken");
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let running = bench.call("running");
    assert!(bench.audit.writer_handle().finish(TIMEOUT));
    running.end(CallOutcome::Ok, None);
    let lines = bench.lines();
    assert_eq!(
        outcomes(&lines),
        [
            ("good", "ok"),
            ("given up", "cancelled"),
            ("broken", "internal_error"),
            ("running", "shutting_down"),
        ]
    );
    let text = bench.observer.render();
    assert!(text.contains("outcome=\"ok\"} 2") && text.contains("outcome=\"internal_error\"} 1"));
}

#[test]
fn a_new_process_recovers_the_in_flight_calls_of_a_killed_one() {
    let bench = Bench::new();
    let running = bench.call("slow");
    let note = wait_beside(&bench.folder, ".open");
    let left = fs::read(&note).unwrap();
    // As if the process had been killed now.
    fs::write(bench.folder.path().join("audit.jsonl.dead-1.open"), &left).unwrap();
    let next = open(&file(&bench.folder), "two");
    assert_eq!(outcomes(&bench.lines()), [("slow", "lost")]);
    running.end(CallOutcome::Ok, None);
    assert!(bench.audit.writer_handle().finish(TIMEOUT) && next.writer_handle().finish(TIMEOUT));
    assert_eq!(outcomes(&bench.lines()), [("slow", "lost"), ("slow", "ok")]);
    assert!(!note.exists());
}

#[test]
fn lost_records_are_counted_in_the_file() {
    let bench = Bench::new();
    bench.audit.0.queue.count_lost(3);
    bench.call("good").end(CallOutcome::Ok, None);
    assert!(bench.audit.writer_handle().finish(TIMEOUT));
    let lines = bench.lines();
    assert_eq!((&lines[0]["kind"], &lines[0]["records"]), (&json!("lost"), &json!(3)));
    assert_eq!(lines[1]["tool"], "good");
}

#[test]
fn writes_one_line_per_read_for_every_outcome() {
    let bench = Bench::new();
    let server = ServerRef { toolbox: bench.toolbox.clone(), server: bench.server.clone() };
    let read = |what, name: &str| {
        let read = ReadContext {
            at: SystemTime::now(),
            agent: None,
            session: 1,
            server: &server,
            what,
            name: name.to_owned().into(),
            rule: None,
        };
        PrimitiveReadGuard::begin(&bench.listeners, read)
    };
    read(PrimitiveKind::Resource, "file:///a").end(CallOutcome::Ok, Some(7));
    drop(read(PrimitiveKind::Prompt, &"x".repeat(1_000_000)));
    assert!(bench.audit.writer_handle().finish(TIMEOUT));
    let [whole, given_up] = &bench.lines()[..] else { panic!("two lines") };
    let what = |line: &Value| ["kind", "outcome", "name", "server"].map(|key| line[key].clone());
    assert_eq!(what(whole), ["resource", "ok", "file:///a", "git"]);
    assert_eq!(whole["resultBytes"], 7);
    let cut = format!("{}…", "x".repeat(200));
    assert_eq!(what(given_up), ["prompt", "cancelled", &cut, "git"]);
}

#[test]
fn repeated_denials_are_summed_in_a_second_line() {
    let bench = Bench::new();
    let ann = || Some(AgentName::new("ann"));
    let address = "2001:db8:1:2::3".parse().ok();
    for _ in 0..5 {
        let denied = AccessDenial { agent: None, reason: AccessDenialReason::InvalidToken };
        bench.listeners.emit(Event::AccessDenied(&denied, address));
    }
    let denied = AccessDenial { agent: ann(), reason: AccessDenialReason::NoPolicy };
    bench.listeners.emit(Event::AccessDenied(&denied, address));
    let reached = LimitReached {
        owner: QuotaOwner::new(ann().as_ref(), address),
        quota: QuotaKind::Sessions,
    };
    bench.listeners.emit(Event::LimitReached(&reached));
    let server = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("git") };
    let owner = QuotaOwner::Server(server);
    let reached = LimitReached { owner, quota: QuotaKind::ListingEntries };
    bench.listeners.emit(Event::LimitReached(&reached));
    assert!(bench.audit.writer_handle().finish(TIMEOUT));
    let mut lines = bench.lines();
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("time");
    }
    let eve = |times: u64| json!({"kind": "denied", "address": "2001:db8:1:2::", "reason": "invalid_token", "times": times});
    assert_eq!(
        lines,
        [
            eve(1),
            json!({"kind": "denied", "agent": "ann", "reason": "no_policy", "times": 1}),
            json!({"kind": "limit", "agent": "ann", "quota": "sessions", "times": 1}),
            json!({"kind": "limit", "toolbox": "dev", "server": "git", "quota": "listing_entries", "times": 1}),
            eve(4),
        ]
    );
}

#[test]
fn adopted_session_is_recorded_without_its_id() {
    let bench = Bench::new();
    let guest = SessionGuard::begin(bench.listeners.clone(), Some(&AgentName::new("ann")), 7);
    guest.report_adoption(2);
    assert!(bench.audit.writer_handle().finish(TIMEOUT));
    let line = &bench.lines()[0];
    let session = line["session"].as_str().unwrap();
    assert!(session.ends_with("-7"), "{session}");
    let mut members: Vec<_> = line.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["agent", "kind", "session", "time", "times"]);
    assert_eq!((&line["kind"], &line["times"]), (&json!("session_adopted"), &json!(2)));
}

#[test]
fn concurrent_starts_use_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let audit = file(&folder);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let audit = audit.clone();
            std::thread::spawn(move || key(&audit).unwrap())
        })
        .collect();
    let keys: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == KEY));
}
