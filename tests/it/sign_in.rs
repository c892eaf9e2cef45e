//! Login to servers over HTTP, with a real authorization server (oidc-provider) and a scripted
//! browser.

pub(crate) mod authority;
mod hostile;
mod reading;
mod remote_browser;
mod reporting;
mod url_elicitation;

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::sign_in::authority::Authority;
use crate::support::TestEnvironment;

fn bench(authority: &Authority) -> TestEnvironment {
    TestEnvironment::new()
        .server("dev", "hub", json!({ "url": authority.mcp }))
        .set("toolMode", json!("proxy"))
        .set("audit", json!({ "file": "audit.jsonl" }))
}

fn signed_in() -> (Authority, TestEnvironment) {
    signed_in_at(Authority::start())
}

fn signed_in_at(authority: Authority) -> (Authority, TestEnvironment) {
    let bench = bench(&authority);
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    (authority, bench)
}

/// Logged in, with an expired access token. Renewed tokens last an hour.
fn signed_in_a_while_ago() -> (Authority, TestEnvironment) {
    let authority = Authority::start();
    authority.set("ttl=2");
    let (authority, bench) = signed_in_at(authority);
    // Wait until the token has expired by the clock of the authorization server.
    sleep(Duration::from_millis(2500));
    authority.set("ttl=3600");
    (authority, bench)
}

fn token(agent: &str) -> String {
    format!("a-token-for-{agent}-0123")
}

/// Adds tokens for the agents `claude` and `codex`.
fn of_agents(bench: TestEnvironment) -> TestEnvironment {
    let tokens = ["claude", "codex"].map(|agent| {
        let digest = Sha256::digest(token(agent));
        let sha256 = hex::encode(digest);
        json!({ "agent": agent, "sha256": sha256 })
    });
    bench.set("auth", json!({ "tokens": tokens }))
}

pub(crate) fn credentials(bench: &TestEnvironment) -> Vec<PathBuf> {
    let folder = bench.path("home/.local/state/mcp-workbench/credentials");
    let files = fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "json")).collect()
}

pub(crate) fn login(bench: &TestEnvironment) -> Value {
    let [file] = &credentials(bench)[..] else { panic!("expected exactly one login") };
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Collects the secrets of a record: long texts in fields for tokens, secrets and values.
pub(crate) fn texts(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| texts(value, name, found));
        }
        Value::String(text)
            if (name.contains("token") || name.contains("secret") || name == "value")
                && text.len() >= 20
                && !text.starts_with("http") =>
        {
            found.push(text.clone());
        }
        _ => {}
    }
}

#[test]
fn login_call_and_logout() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let before = bench.run(["check", "--connect"]).to_string();
    assert!(before.contains("requires sign-in") && before.contains("auth login hub"), "{before}");
    let agent = bench.agent();
    agent.initialize();
    let refused = format!("{:?}", agent.use_tool(["dev", "hub", "read"], json!({})));
    let hint = "run `mcp-workbench auth login hub`, then try again";
    assert!(refused.contains("sign-in required") && refused.contains(hint), "{refused}");

    let signed_in = authority.sign_in(&bench, &["hub"]);
    assert_eq!(signed_in.code, Some(0), "{signed_in}");
    assert!(signed_in.stdout.ends_with("signed in to hub\n"), "{signed_in}");
    // The running workbench uses the login without a restart.
    let called = format!("{:?}", agent.use_tool(["dev", "hub", "read"], json!({})));
    assert!(called.contains("read by ann"), "{called}");
    let status = bench.run(["auth", "status", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        json!([status[0]["state"], status[0]["issuer"], status[0]["isRenewable"]]),
        json!(["signed_in", authority.issuer, true])
    );

    let mut secrets = Vec::new();
    texts(&login(&bench), "", &mut secrets);
    assert!(secrets.len() >= 2, "{secrets:?}");
    let mut told = vec![status.to_string(), signed_in.to_string(), refused, called, agent.stderr()];
    told.push(fs::read_to_string(bench.path("audit.jsonl")).unwrap());
    let kept = bench.path("home/.cache");
    for file in walk(&kept) {
        told.push(String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned());
    }
    for secret in &secrets {
        assert!(!told.iter().any(|text| text.contains(secret)), "{secret} was leaked");
    }
    assert!(told[5].contains(r#""kind":"sign_in","server":"hub","outcome":"signed_in""#));

    assert_eq!(bench.run(["auth", "logout", "hub"]).stdout, "signed out of hub\n");
    assert_eq!(credentials(&bench), Vec::<PathBuf>::new());
    assert_eq!(bench.run(["call", "dev", "hub", "read"]).code, Some(1));
}

pub(crate) fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    // Skips sockets.
    files.filter(|path| path.is_file()).collect()
}

#[test]
fn expired_token_is_renewed_once_across_processes() {
    let (authority, bench) = signed_in_a_while_ago();
    // Sequential, because each start rewrites the configuration.
    let agents = [(); 2].map(|()| {
        let agent = bench.agent();
        agent.initialize();
        agent
    });
    let calls: Vec<_> = agents
        .iter()
        .flat_map(|agent| (0..25).map(move |_| agent))
        .map(|agent| {
            let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
            (agent, agent.send_call("use_tool", json!({ "tool": tool, "arguments": {} })))
        })
        .collect();
    for (agent, call) in calls {
        let answer = format!("{:?}", agent.wait(&call));
        assert!(answer.contains("read by ann"), "{answer}");
    }
    let counts = authority.counts();
    assert_eq!((&counts["refresh"], &counts["refused"]), (&json!(1), &json!(0)), "{counts}");
}

#[test]
fn crash_during_renewal_is_recoverable() {
    let (authority, bench) = signed_in_a_while_ago();
    authority.set("hold=3000");
    let agent = bench.agent().allowing_violations();
    agent.initialize();
    let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
    let _call = agent.send_call("use_tool", json!({ "tool": tool, "arguments": {} }));
    authority.wait_for("refresh", 1);
    agent.kill();
    authority.set("hold=0");
    let after = bench.run(["call", "dev", "hub", "read"]);
    let is_told = after.stderr.contains("auth login hub");
    assert!(after.stdout.contains("read by ann") || is_told, "{after}");
    assert_eq!(bench.run(["auth", "status"]).code, Some(0));
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
}

#[test]
fn unreachable_authorization_server_keeps_the_login() {
    let (authority, bench) = signed_in_a_while_ago();
    authority.set("down=true");
    assert_eq!(bench.run(["call", "dev", "hub", "read"]).code, Some(1));
    assert!(login(&bench).to_string().contains("refresh"));
    authority.set("down=false");
    let after = bench.run(["call", "dev", "hub", "read"]);
    assert!(after.stdout.contains("read by ann"), "{after}");
}

#[test]
fn asks_to_sign_in_again_after_revocation() {
    let (authority, bench) = signed_in();
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
    authority.ask("/revoke");
    let after = bench.run(["call", "dev", "hub", "read"]);
    assert!(after.stderr.contains("auth login hub"), "{after}");
    assert_eq!(credentials(&bench).len(), 1, "the client registration was lost");
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
}

#[test]
fn login_requests_additional_scopes_after_a_restart() {
    let (authority, bench) = signed_in();
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
    let refused = bench.run(["call", "dev", "hub", "write"]);
    assert!(refused.stderr.contains("auth login hub"), "{refused}");
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    for tool in ["write", "read"] {
        let called = bench.run(["call", "dev", "hub", tool]);
        assert!(called.stdout.contains(&format!("{tool} by ann")), "{called}");
    }
}

#[test]
fn reports_access_denied() {
    let authority = Authority::start();
    authority.set("deny=true");
    let bench = bench(&authority);
    let denied = authority.sign_in(&bench, &["hub"]);
    assert_eq!(denied.code, Some(1), "{denied}");
    assert!(denied.stderr.contains("access denied"), "{denied}");
}

#[test]
fn callback_url_can_be_pasted() {
    let authority = Authority::start();
    authority.set("paste=true");
    let bench = bench(&authority);
    let pasted = authority.sign_in(&bench, &["hub"]);
    assert_eq!(pasted.code, Some(0), "{pasted}");
}

#[test]
fn logins_are_not_shared_between_agents() {
    let authority = Authority::start();
    let bench = of_agents(bench(&authority));
    assert_eq!(authority.sign_in(&bench, &["hub", "--agent", "claude"]).code, Some(0));
    let (_program, http) = bench.http();
    let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
    let ask = |agent: &str| {
        let token = format!("Bearer {}", token(agent));
        let params = json!({ "name": "use_tool", "arguments": { "tool": tool, "arguments": {} } });
        http.modern("tools/call", params, &[("Authorization", &token), ("Mcp-Name", "use_tool")])
            .text()
    };
    let (claude, codex) = (ask("claude"), ask("codex"));
    assert!(claude.contains("read by ann"), "{claude}");
    assert!(codex.contains("auth login hub --agent codex"), "{codex}");
    assert!(bench.run(["call", "dev", "hub", "read"]).stderr.contains("auth login hub"));
}
