//! Calls that wait for an approval outside the client: approved, denied, ignored and withdrawn, and
//! agents that try to approve their own calls.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use mcp_workbench_core::gateway::PendingCall;
use mcp_workbench_serve::admin::approval_statement;
use pretty_assertions::assert_eq;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli_top::Desk;
use crate::support::http::HttpClient;
use crate::support::{Agent, RequestId, TestEnvironment, command, fake, wait};

const PASSPHRASE: &str = "correct horse battery";
const OPERATOR: &str = "an-operator-token-0123456789";
const AGENT: &str = "an-agents-token-0123456789";

fn bench(approvals: Value) -> TestEnvironment {
    let mut approvals = approvals;
    approvals["notify"] = json!(false);
    TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("dangerousTools", json!(["srv:echo"]))
        .set("audit", json!({ "file": "audit.jsonl" }))
        .set("approvals", approvals)
        .server("box", "srv", fake(json!({ "tools": ["echo", "count"] })))
}

/// A key whose private part this test knows, unlike any program of a real user.
fn known_key() -> (Ed25519KeyPair, String) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key");
    let public = hex::encode(pair.public_key());
    (pair, format!("v1:{}:{public}", "00".repeat(16)))
}

fn keyed() -> TestEnvironment {
    bench(json!({ "key": known_key().1 }))
}

fn plain(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().begin(false, json!({}));
    agent.tools();
    agent
}

fn calls(agent: &Agent) -> Value {
    agent.call("count", json!({})).structured()["calls"]["echo"].clone()
}

/// Waits until this many calls wait, and returns them.
#[track_caller]
fn pending(desk: &mut Desk, count: usize) -> Vec<PendingCall> {
    wait("the calls don't wait", || {
        let reply = desk.ask(&json!({ "ask": "approvals" }));
        let calls: Vec<PendingCall> = serde_json::from_value(reply["calls"].clone()).ok()?;
        (calls.len() == count).then_some(calls)
    })
}

fn answer(desk: &mut Desk, id: &str, approve: bool, signature: Option<&str>) -> Value {
    desk.ask(&json!({ "ask": "answer", "id": id, "approve": approve, "signature": signature }))
}

fn sign(call: &PendingCall) -> String {
    hex::encode(known_key().0.sign(&approval_statement(call)))
}

fn audited(bench: &TestEnvironment, agent: &Agent) -> Vec<Value> {
    agent.close_stdin();
    agent.wait_end();
    let audit = std::fs::read_to_string(bench.path("audit.jsonl")).expect("an audit log");
    let lines = audit.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["kind"] == "approval").collect()
}

#[track_caller]
fn refused(agent: &Agent, call: &RequestId, reason: &str) {
    let answer = agent.wait(call);
    assert!(answer.is_tool_error(), "{}", answer.line);
    let text = answer.text();
    assert!(text.starts_with("`box/srv/echo` was not called: "), "{text}");
    assert!(text.contains(reason) && text.contains("\nWhat to do: "), "{text}");
}

/// A command on a terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn new(bench: &TestEnvironment, args: &[&str]) -> Self {
        let config = bench.path_text("workbench.json");
        let args: Vec<&str> = args.iter().copied().chain(["--config", &config]).collect();
        let program = bench.command(&args);
        let words: Vec<_> =
            program.get_args().map(|arg| format!("'{}'", arg.to_string_lossy())).collect();
        let program_name = program.get_program().to_string_lossy().into_owned();
        let line = format!("exec '{program_name}' {}", words.join(" "));
        let mut script = command("script");
        script.args(["-qec", &line, "/dev/null"]).env_clear();
        for (name, value) in program.get_envs() {
            if let Some(value) = value {
                script.env(name, value);
            }
        }
        script.current_dir(bench.dir()).env("TERM", "xterm").env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("`script` of util-linux");
        let shown = Arc::<Mutex<String>>::default();
        let (mut output, text) = (child.stdout.take().expect("a stream"), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut some) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..count]));
            }
        });
        Self { keys: child.stdin.take().expect("a stream"), child, shown }
    }

    /// Waits until this text is shown, then types.
    #[track_caller]
    fn asked(&mut self, text: &str, keys: &str) -> &mut Self {
        wait(text, || self.shown.lock().unwrap().contains(text).then_some(()));
        self.keys.write_all(keys.as_bytes()).expect("keys");
        self.keys.flush().expect("keys");
        self
    }

    #[track_caller]
    fn ends(mut self) -> (ExitStatus, String) {
        let status = wait("still running", || self.child.try_wait().expect("a child"));
        let shown = self.shown.lock().unwrap().clone();
        (status, shown)
    }
}

/// Creates a key on a terminal and returns it.
fn create_key(bench: &TestEnvironment) -> String {
    bench.write_config();
    let mut terminal = Terminal::new(bench, &["approvals", "key", "--force"]);
    let typed = format!("{PASSPHRASE}\r");
    terminal.asked("New passphrase: ", &typed).asked("Repeat the passphrase: ", &typed);
    let (status, shown) = terminal.ends();
    assert!(status.success() && shown.contains("wrote the public part"), "{shown}");
    assert!(!shown.contains("horse"), "the passphrase was shown: {shown}");
    let text = std::fs::read_to_string(bench.config_path()).expect("a file");
    assert!(!text.contains("horse"), "{text}");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    config["approvals"]["key"].as_str().expect("a key").to_owned()
}

// invariant: agent-cannot-approve
#[test]
fn call_is_approved_with_the_passphrase_on_a_terminal() {
    let empty = bench(json!({}));
    let bench = bench(json!({ "key": create_key(&empty) }));
    let agent = plain(&bench);
    let call = agent.send_call("echo", json!({ "path": "/x\u{202e}" }));
    let mut desk = Desk::new(&bench);
    let waiting = pending(&mut desk, 1);
    let id = &waiting[0].id[..8];
    let listed = bench.run(["approvals"]).stdout;
    for text in [id, "`echo` of server `srv` in toolbox `box`", r#"{"path":"/x\u{202e}"}"#] {
        assert!(listed.contains(text), "{text} in\n{listed}");
    }
    // Without a terminal, even the right passphrase is refused.
    let piped = bench.run_with_input(["approvals", "approve", id], &format!("{PASSPHRASE}\n"));
    assert_eq!(piped.code, Some(1), "{piped}");
    for (passphrase, says, is_approved) in [
        ("", "not approved", false),
        ("wrong horse battery", "wrong passphrase", false),
        (PASSPHRASE, "approved", true),
    ] {
        let mut terminal = Terminal::new(&bench, &["approvals", "approve", id]);
        terminal.asked("Passphrase to approve this call", &format!("{passphrase}\r"));
        let (status, shown) = terminal.ends();
        assert!(shown.contains(says) && shown.contains(r#"{"path":"/x\u{202e}"}"#), "{shown}");
        assert_eq!(status.success(), is_approved, "{shown}");
    }
    assert_eq!(agent.wait(&call).structured(), json!({ "path": "/x\u{202e}" }));
    assert_eq!(calls(&agent), 1);
    let records = audited(&bench, &agent);
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!(
        [&record["outcome"], &record["by"], &record["tool"], &record["id"]],
        ["approved", "key", "echo", &*waiting[0].id]
    );
}

#[test]
fn key_needs_a_long_passphrase_typed_twice_on_a_terminal() {
    let bench = bench(json!({}));
    bench.write_config();
    let before = std::fs::read_to_string(bench.config_path()).expect("a file");
    for (first, second, says) in [
        ("short", None, "at least 12 are required"),
        (PASSPHRASE, Some("correct horse batterx"), "the passphrases differ"),
        ("\u{3}", None, "cancelled"),
    ] {
        let mut terminal = Terminal::new(&bench, &["approvals", "key"]);
        terminal.asked("New passphrase: ", &format!("{first}\r"));
        if let Some(second) = second {
            terminal.asked("Repeat the passphrase: ", &format!("{second}\r"));
        }
        let (status, shown) = terminal.ends();
        assert!(!status.success() && shown.contains(says), "{shown}");
    }
    let piped =
        bench.run_with_input(["approvals", "key"], "correct horse battery\n".repeat(2).as_str());
    assert!(piped.code == Some(1) && piped.stderr.contains("need a terminal"), "{piped}");
    assert_eq!(std::fs::read_to_string(bench.config_path()).expect("a file"), before);
    let bench = keyed();
    let again = bench.run(["approvals", "key"]);
    assert!(
        again.code == Some(2) && again.stderr.contains("already has an approval key"),
        "{again}"
    );
}

#[test]
fn watch_asks_about_each_call() {
    let bench = keyed();
    let agent = plain(&bench);
    let mut terminal = Terminal::new(&bench, &["approvals", "--watch"]);
    terminal.asked("waiting for calls", "");
    let call = agent.send_call("echo", json!({ "n": 1 }));
    terminal.asked("Approve this call?", "d").asked("denied", "q");
    let (status, shown) = terminal.ends();
    assert!(status.success() && shown.contains(r#"{"n":1}"#), "{shown}");
    refused(&agent, &call, "the user denied the call");
    assert_eq!(calls(&agent), Value::Null);
}

// invariant: confirm-before-send
#[test]
fn denied_ignored_and_cancelled_calls_never_reach_the_server() {
    let bench = bench(json!({ "key": known_key().1, "timeoutMs": 1000 }));
    let agent = plain(&bench);
    let ignored = agent.send_call("echo", json!({}));
    refused(&agent, &ignored, "it was not approved within 1 s");

    let bench = keyed();
    let agent = plain(&bench);
    let mut desk = Desk::new(&bench);
    let denied = agent.send_call("echo", json!({}));
    let id = pending(&mut desk, 1).remove(0).id;
    assert_eq!(bench.run(["approvals", "deny", &id]).code, Some(0));
    refused(&agent, &denied, "the user denied the call");
    let cancelled = agent.send_call("echo", json!({}));
    let gone = pending(&mut desk, 1).remove(0);
    agent.cancel(&cancelled);
    pending(&mut desk, 0);
    let late = answer(&mut desk, &gone.id, true, Some(&sign(&gone)));
    assert_eq!((&late["answer"], &late["kind"]), (&json!("error"), &json!("unknown")));
    assert_eq!(calls(&agent), Value::Null);
    let outcomes = audited(&bench, &agent);
    let outcomes: Vec<_> = outcomes.iter().map(|it| (&it["outcome"], &it["by"])).collect();
    assert_eq!(
        outcomes,
        [(&json!("denied"), &json!("local")), (&json!("withdrawn"), &Value::Null)]
    );
}

#[test]
fn waiting_call_reports_progress() {
    let bench = keyed();
    let agent = plain(&bench);
    let call = agent.send_call("echo", json!({}));
    agent.wait_progress(&call, 1);
    let progress = agent.progress(&call);
    assert_eq!(progress[0]["message"], "waiting for an approval of the call");
    agent.cancel(&call);
}

#[test]
fn calls_of_two_processes_are_listed_and_answered_separately() {
    let bench = keyed();
    let (one, other) =
        (bench.agent_with(["--agent", "one"]), bench.agent_with(["--agent", "other"]));
    let (one, other) = (one.begin(false, json!({})), other.begin(true, json!({})));
    let sent = [&one, &other].map(|agent| {
        agent.tools();
        agent.send_call("echo", json!({}))
    });
    let list = || -> Vec<Value> {
        let output = bench.run(["approvals", "--json"]);
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"))
    };
    let all = wait("two calls", || Some(list()).filter(|all| all.len() == 2));
    let of = |name: &str| all.iter().find(|call| call["agent"] == name).expect("a call");
    let pids = [of("one"), of("other")].map(|call| call["pid"].clone());
    assert_eq!(pids, [json!(one.pid()), json!(other.pid())]);
    let denied = bench.run(["approvals", "deny", of("one")["id"].as_str().unwrap()]);
    assert_eq!(denied.code, Some(0), "{denied}");
    refused(&one, &sent[0], "the user denied the call");
    let [left] = &list()[..] else { panic!("the other call was removed") };
    assert_eq!(left["agent"], "other");
    other.cancel(&sent[1]);
    let unknown = bench.run(["approvals", "deny", "ffffffffffff"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("no call with the ID"), "{unknown}");
}

// invariant: agent-cannot-approve
#[test]
fn program_with_the_socket_cannot_approve() {
    let bench = keyed();
    let agent = plain(&bench);
    let mut desk = Desk::new(&bench);
    let sent = [1, 2].map(|n| agent.send_call("echo", json!({ "n": n })));
    let waiting = pending(&mut desk, 2);
    let (first, second) = (&waiting[0], &waiting[1]);
    let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).expect("a key");
    let forged = hex::encode(other.sign(&approval_statement(first)));
    // A hostile program shows harmless arguments under the ID of another call, and gets this signed.
    let harmless = sign(&PendingCall { arguments: "{}".to_owned(), ..first.clone() });
    for signature in
        [None, Some(""), Some("00"), Some(&*forged), Some(&harmless), Some(&sign(second))]
    {
        let refused = answer(&mut desk, &first.id, true, signature);
        assert_eq!((&refused["answer"], &refused["kind"]), (&json!("error"), &json!("notAllowed")));
    }
    assert_eq!(answer(&mut desk, &first.id, true, Some(&sign(first))), json!({ "answer": "done" }));
    agent.wait(&sent[0]).ok();
    let again = answer(&mut desk, &first.id, true, Some(&sign(first)));
    assert_eq!(again["kind"], "unknown", "an approval counts once");
    assert_eq!(calls(&agent), 1);
    assert_eq!(pending(&mut desk, 1)[0].id, second.id);
    agent.cancel(&sent[1]);
    agent.close_stdin();
    agent.wait_end();
    let audit = std::fs::read_to_string(bench.path("audit.jsonl")).expect("an audit log");
    assert!(audit.contains(r#""reason":"approval_signature""#), "{audit}");
}

// invariant: agent-cannot-approve
#[test]
fn call_through_the_socket_waits_like_an_agents_call() {
    let call =
        json!({"ask": "call", "toolbox": "box", "server": "srv", "tool": "echo", "arguments": {}});
    let bench = keyed();
    let agent = plain(&bench);
    let (mut caller, mut desk) = (Desk::new(&bench), Desk::new(&bench));
    let confirmed = json!({"ask": "call", "toolbox": "box", "server": "srv", "tool": "echo",
        "arguments": {}, "confirmed": "0"});
    assert_eq!(caller.ask(&confirmed)["kind"], "notAllowed");
    let calling = std::thread::spawn(move || caller.ask(&call));
    let waiting = pending(&mut desk, 1).remove(0);
    assert_eq!(waiting.client, "dashboard");
    assert_eq!(answer(&mut desk, &waiting.id, true, None)["kind"], "notAllowed");
    assert_eq!(answer(&mut desk, &waiting.id, true, Some(&sign(&waiting)))["answer"], "done");
    assert_eq!(calling.join().unwrap()["answer"], "called");
    assert_eq!(calls(&agent), 1);
}

// invariant: agent-cannot-approve
#[test]
fn key_that_is_added_or_replaced_by_a_reload_is_not_used() {
    for bench in [
        bench(json!({})),
        bench(json!({ "key": format!("v1:{}:{}", "00".repeat(16), "11".repeat(32)) })),
    ] {
        let is_keyed = bench.clone();
        let agent = plain(&bench);
        let changed = is_keyed.set("approvals", json!({ "key": known_key().1, "notify": false }));
        changed.write_config();
        assert_eq!(changed.run(["reload"]).code, Some(0));
        agent.wait_stderr("configuration reloaded: ");
        let call = agent.send_call("echo", json!({}));
        let mut desk = Desk::new(&bench);
        let reply = desk.ask(&json!({ "ask": "approvals" }));
        assert_ne!(reply["key"], json!(known_key().1));
        if reply["key"].is_null() {
            refused(&agent, &call, "this client cannot ask");
            continue;
        }
        let waiting = pending(&mut desk, 1).remove(0);
        assert_eq!(
            answer(&mut desk, &waiting.id, true, Some(&sign(&waiting)))["kind"],
            "notAllowed"
        );
        agent.cancel(&call);
    }
}

#[test]
fn without_a_key_the_call_is_denied_at_once() {
    for (bench, args) in [(bench(json!({})), vec![]), (keyed(), vec!["--unlisted"])] {
        let agent = bench.agent_with(args).begin(false, json!({}));
        agent.tools();
        let answer = agent.call("echo", json!({}));
        assert!(answer.text().contains("this client cannot ask"), "{}", answer.line);
        assert!(answer.text().contains("`mcp-workbench approvals key`"), "{}", answer.line);
    }
}

#[test]
fn client_is_asked_first_unless_the_operator_is() {
    let question = "elicitation/create";
    for (first, is_asked) in [("client", true), ("operator", false)] {
        let bench = bench(json!({ "key": known_key().1, "askFirst": first }));
        let agent = bench
            .agent()
            .with_reply(question, json!({ "action": "accept", "content": {} }))
            .begin(false, json!({ "elicitation": {} }));
        agent.tools();
        let call = agent.send_call("echo", json!({}));
        let mut desk = Desk::new(&bench);
        if !is_asked {
            let waiting = pending(&mut desk, 1).remove(0);
            assert_eq!(
                answer(&mut desk, &waiting.id, true, Some(&sign(&waiting)))["answer"],
                "done"
            );
        }
        agent.wait(&call).ok();
        assert_eq!(agent.transcript().iter().any(|line| line.contains(question)), is_asked);
        let by = audited(&bench, &agent)[0]["by"].clone();
        assert_eq!(by, if is_asked { "client" } else { "key" });
    }
}

// invariant: confirm-before-send
#[test]
fn approved_call_is_refused_if_the_rules_changed_meanwhile() {
    let with = |bench: TestEnvironment, tools: Value| {
        bench.set("agentPolicies", json!({ "a": { "toolOverrides": { "srv": tools } } }))
    };
    let bench = with(keyed(), json!(["echo", "count"]));
    let agent = bench.agent_with(["--agent", "a"]).begin(false, json!({}));
    agent.tools();
    let call = agent.send_call("echo", json!({}));
    let mut desk = Desk::new(&bench);
    let waiting = pending(&mut desk, 1).remove(0);
    let narrower = with(bench.clone(), json!(["count"]));
    narrower.write_config();
    assert_eq!(narrower.run(["reload"]).code, Some(0));
    agent.wait_stderr("configuration reloaded: ");
    assert_eq!(answer(&mut desk, &waiting.id, true, Some(&sign(&waiting)))["answer"], "done");
    refused(&agent, &call, "the rules have changed");
    assert_eq!(calls(&agent), Value::Null);
}

/// A request of the admin page of an HTTP workbench. Returns the status and the response.
pub(crate) fn ask_page(http: HttpClient, pid: u32, token: &str, ask: &Value) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    let headers = [("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
    let body = json!({ "to": pid, "ask": ask }).to_string();
    let reply = http.send("POST", "/page/ask", &headers, &body);
    let status = reply.status;
    (status, reply.json())
}

fn token_entry(agent: &str, token: &str) -> Value {
    json!({ "agent": agent, "sha256": hex::encode(Sha256::digest(token.as_bytes())) })
}

// invariant: agent-cannot-approve
#[test]
fn operators_approve_over_http_and_agents_cannot() {
    let auth = json!({
        "tokens": [token_entry("claude", AGENT)],
        "operators": [token_entry("me", OPERATOR), token_entry("claude", "another-operator-012345")],
    });
    let bench = bench(json!({})).set("auth", auth);
    for is_modern in [false, true] {
        let (program, http) = bench.http();
        let pid = program.0.pid();
        let agent = Agent::over_http_with((program, http), AGENT).begin(is_modern, json!({}));
        agent.tools();
        let call = agent.send_call("echo", json!({ "n": 1 }));
        let list = json!({ "ask": "approvals" });
        let waiting =
            wait("a call", || ask_page(http, pid, OPERATOR, &list).1["calls"].get(0).cloned());
        assert_eq!(waiting["agent"], "claude");
        let approve = json!({ "ask": "answer", "id": waiting["id"], "approve": true });
        // Neither the agent, nor someone without a token, nor an operator with the agent's name.
        for (token, status) in [(AGENT, 403), ("unknown-token-0123456789", 401)] {
            assert_eq!(ask_page(http, pid, token, &list).0, status);
            assert_eq!(ask_page(http, pid, token, &approve).0, status);
        }
        let (_, own) = ask_page(http, pid, "another-operator-012345", &approve);
        assert_eq!(own["kind"], "notAllowed", "{own}");
        // The socket of this process has no key.
        let unsigned = answer(&mut Desk::new(&bench), waiting["id"].as_str().unwrap(), true, None);
        assert_eq!(unsigned["kind"], "notAllowed", "{unsigned}");
        assert_eq!(calls(&agent), Value::Null);
        let (status, done) = ask_page(http, pid, OPERATOR, &approve);
        assert_eq!((status, &done["answer"]), (200, &json!("done")), "{done}");
        assert_eq!(agent.wait(&call).structured(), json!({ "n": 1 }));
        assert_eq!(calls(&agent), 1);
    }
    let audit = std::fs::read_to_string(bench.path("audit.jsonl")).expect("an audit log");
    assert!(audit.contains(r#""by":"operator","operator":"me""#), "{audit}");
}

// invariant: agent-cannot-approve
#[test]
fn command_through_the_socket_waits_and_on_a_terminal_needs_the_passphrase() {
    let empty = bench(json!({}));
    let bench = bench(json!({ "key": create_key(&empty) }));
    let agent = plain(&bench);
    let mut desk = Desk::new(&bench);
    std::thread::scope(|scope| {
        // A shell without a terminal, such as an agent's.
        let calling = scope.spawn(|| bench.run(["call", "srv:echo", "path=/x"]));
        let waiting = pending(&mut desk, 1).remove(0);
        assert_eq!(waiting.client, "mcp-workbench call");
        assert_eq!(answer(&mut desk, &waiting.id, false, None)["answer"], "done");
        let denied = calling.join().expect("a call");
        assert!(denied.stderr.contains("the user denied the call"), "{denied}");
    });
    for (passphrase, says, is_made) in
        [("wrong horse battery", "wrong passphrase", false), (PASSPHRASE, r#""path":"/x""#, true)]
    {
        let mut terminal = Terminal::new(&bench, &["call", "srv:echo", "path=/x", "--json"]);
        terminal.asked("Passphrase to make this call", &format!("{passphrase}\r"));
        let (status, shown) = terminal.ends();
        assert!(shown.contains(says), "{shown}");
        assert_eq!(status.success(), is_made, "{shown}");
    }
    // The confirmed call ran in its own process.
    assert_eq!(calls(&agent), Value::Null);
}
