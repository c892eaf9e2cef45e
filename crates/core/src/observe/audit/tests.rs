use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::name::{AgentName, ServerName, ServerRef, ToolboxName};
use crate::observe::listeners::Listeners;
use crate::observe::{
    DeniedAccess, DeniedFor, Holding, LimitReached, Meters, ObservedCall, Observer, ReadContext,
    Readable, Subject,
};
use crate::raw::Raw;
use crate::settings::KeptArguments;

const PATIENCE: Duration = Duration::from_secs(20);

struct Bench {
    folder: TempDir,
    observer: Observer,
    audit: Audit,
    listeners: Listeners,
    meters: Arc<Meters>,
    toolbox: ToolboxName,
    server: ServerName,
    arguments: Raw,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let observer = Observer::default();
        let audit = open(&file(&folder), "one");
        Self {
            listeners: observer.with(Some(&audit)),
            meters: observer.meters("dev", "git"),
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new("git"),
            arguments: Raw::encode(&json!({"n": 1})),
            folder,
            observer,
            audit,
        }
    }

    fn call<'a>(&'a self, tool: &'a str) -> ObservedCall<'a> {
        let subject = Subject {
            agent: None,
            session: 1,
            toolbox: Some(&self.toolbox),
            server: Some(&self.server),
            tool,
            arguments: Some(&self.arguments),
            meta: &[],
        };
        self.listeners.begin_call(&self.meters, subject)
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

fn open(file: &Path, run: &str) -> Audit {
    let config = AuditConfig {
        file: file.to_owned(),
        arguments: KeptArguments::Hash,
        max_bytes: 1 << 20,
        keep: 1,
    };
    let process =
        Process { run: run.to_owned(), opened: 1, calls: Arc::default(), lost: Counter::default() };
    Audit::open(config, Secrets::default(), process).unwrap()
}

/// Waits until a file beside the audit file is there, which ends in this.
fn wait_beside(folder: &TempDir, end: &str) -> PathBuf {
    let until = Instant::now() + PATIENCE;
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

#[test]
fn every_call_has_a_line_however_it_ends() {
    let bench = Bench::new();
    bench.call("good").end(Ending::Ok, Some(2));
    drop(bench.call("given up"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _call = bench.call("broken");
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let running = bench.call("running");
    assert!(bench.audit.writing().finish(PATIENCE));
    running.end(Ending::Ok, None);
    let lines = bench.lines();
    assert_eq!(
        outcomes(&lines),
        [
            ("good", "ok"),
            ("given up", "cancelled"),
            ("broken", "panicked"),
            ("running", "shutting_down"),
        ]
    );
    let text = bench.observer.render();
    assert!(text.contains("outcome=\"ok\"} 2") && text.contains("outcome=\"panicked\"} 1"));
}

#[test]
fn a_call_that_runs_for_a_moment_is_noted_and_found_by_who_comes_next() {
    let bench = Bench::new();
    let running = bench.call("slow");
    let note = wait_beside(&bench.folder, ".open");
    let left = fs::read(&note).unwrap();
    // As if the process had been killed then.
    fs::write(bench.folder.path().join("audit.jsonl.dead-1.open"), &left).unwrap();
    let next = open(&file(&bench.folder), "two");
    assert_eq!(outcomes(&bench.lines()), [("slow", "lost")]);
    running.end(Ending::Ok, None);
    assert!(bench.audit.writing().finish(PATIENCE) && next.writing().finish(PATIENCE));
    assert_eq!(outcomes(&bench.lines()), [("slow", "lost"), ("slow", "ok")]);
    assert!(!note.exists());
}

#[test]
fn records_without_room_are_counted_and_that_is_written() {
    let bench = Bench::new();
    bench.audit.0.queue.lose(3);
    bench.call("good").end(Ending::Ok, None);
    assert!(bench.audit.writing().finish(PATIENCE));
    let lines = bench.lines();
    assert_eq!((&lines[0]["kind"], &lines[0]["records"]), (&json!("lost"), &json!(3)));
    assert_eq!(lines[1]["tool"], "good");
}

#[test]
fn a_read_has_a_line_however_it_ends() {
    let bench = Bench::new();
    let server = ServerRef { toolbox: bench.toolbox.clone(), server: bench.server.clone() };
    let read = |what, name: &str| {
        bench.listeners.begin_read(ReadContext {
            at: SystemTime::now(),
            agent: None,
            session: 1,
            server: &server,
            what,
            name: name.to_owned().into(),
            rule: None,
        })
    };
    read(Readable::Resource, "file:///a").end(Ending::Ok, Some(7));
    drop(read(Readable::Prompt, &"x".repeat(1_000_000)));
    assert!(bench.audit.writing().finish(PATIENCE));
    let [whole, given_up] = &bench.lines()[..] else { panic!("two lines") };
    let what = |line: &Value| ["kind", "outcome", "name", "server"].map(|key| line[key].clone());
    assert_eq!(what(whole), ["resource", "ok", "file:///a", "git"]);
    assert_eq!(whole["resultBytes"], 7);
    let cut = format!("{}…", "x".repeat(200));
    assert_eq!(what(given_up), ["prompt", "cancelled", &cut, "git"]);
}

#[test]
fn who_is_denied_again_and_again_has_two_lines() {
    let bench = Bench::new();
    let ann = || Some(AgentName::new("ann"));
    let address = "2001:db8:1:2::3".parse().ok();
    for _ in 0..5 {
        let denied = DeniedAccess { agent: None, why: DeniedFor::InvalidToken };
        bench.listeners.tell(Event::AccessDenied(&denied, address));
    }
    let denied = DeniedAccess { agent: ann(), why: DeniedFor::NoRules };
    bench.listeners.tell(Event::AccessDenied(&denied, address));
    let reached =
        LimitReached { payer: Payer::new(ann().as_ref(), address), what: Holding::Sessions };
    bench.listeners.tell(Event::LimitReached(&reached));
    assert!(bench.audit.writing().finish(PATIENCE));
    let mut lines = bench.lines();
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("time");
    }
    let eve = |times: u64| json!({"kind": "denied", "address": "2001:db8:1:2::", "why": "invalid_token", "times": times});
    assert_eq!(
        lines,
        [
            eve(1),
            json!({"kind": "denied", "agent": "ann", "why": "no_rules", "times": 1}),
            json!({"kind": "limit", "agent": "ann", "what": "sessions", "times": 1}),
            eve(4),
        ]
    );
}

#[test]
fn a_session_that_was_taken_over_has_a_line_without_its_id() {
    let bench = Bench::new();
    let guest = bench.listeners.welcome(Some(&AgentName::new("ann")), 7);
    guest.is_adopted(2);
    assert!(bench.audit.writing().finish(PATIENCE));
    let line = &bench.lines()[0];
    let session = line["session"].as_str().unwrap();
    assert!(session.ends_with("-7"), "{session}");
    let mut members: Vec<_> = line.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["agent", "kind", "session", "time", "times"]);
    assert_eq!((&line["kind"], &line["times"]), (&json!("session_adopted"), &json!(2)));
}

#[test]
fn two_that_begin_at_once_have_one_key() {
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
