//! Signing in at servers over HTTP, with a real authorization server (oidc-provider) and a scripted browser.

mod asked;
pub(crate) mod authority;
mod elsewhere;
mod reading;
mod told;

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::sign_in::authority::Authority;
use crate::support::Bench;

/// A configuration that has the server alone, and records calls.
fn bench(authority: &Authority) -> Bench {
    Bench::new()
        .server("dev", "hub", json!({ "url": authority.mcp }))
        .set("toolMode", json!("proxy"))
        .set("audit", json!({ "file": "audit.jsonl" }))
}

/// Somebody who has signed in at the server.
fn signed_in() -> (Authority, Bench) {
    signed_in_at(Authority::start())
}

fn signed_in_at(authority: Authority) -> (Authority, Bench) {
    let bench = bench(&authority);
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    (authority, bench)
}

/// Somebody who has signed in, and whose token has expired; the next one lasts.
fn signed_in_a_while_ago() -> (Authority, Bench) {
    let authority = Authority::start();
    authority.set("ttl=2");
    let (authority, bench) = signed_in_at(authority);
    // It has to have expired by the clock of the authorization server.
    sleep(Duration::from_millis(2500));
    authority.set("ttl=3600");
    (authority, bench)
}

/// The token of an agent.
fn token(agent: &str) -> String {
    format!("a-token-for-{agent}-0123")
}

/// A workbench that two agents come to, `claude` and `codex`.
fn of_agents(bench: Bench) -> Bench {
    let tokens = ["claude", "codex"].map(|agent| {
        let digest = Sha256::digest(token(agent));
        let sha256 = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        json!({ "agent": agent, "sha256": sha256 })
    });
    bench.set("auth", json!({ "tokens": tokens }))
}

/// Where the logins of a test are.
pub(crate) fn credentials(bench: &Bench) -> Vec<PathBuf> {
    let folder = bench.path("home/.local/state/mcp-workbench/credentials");
    let files = fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "json")).collect()
}

pub(crate) fn login(bench: &Bench) -> Value {
    let [file] = &credentials(bench)[..] else { panic!("not one login") };
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Every text of a record that is long enough to be a secret.
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
fn somebody_signs_in_and_calls_and_signs_out() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let before = bench.run(["check", "--connect"]).to_string();
    assert!(before.contains("wants sign-in") && before.contains("auth login hub"), "{before}");
    let agent = bench.agent();
    agent.initialize();
    let refused = format!("{:?}", agent.use_tool(["dev", "hub", "read"], json!({})));
    let hint = "run `mcp-workbench auth login hub`, then call again";
    assert!(refused.contains("it wants you to sign in") && refused.contains(hint), "{refused}");

    let signed_in = authority.sign_in(&bench, &["hub"]);
    assert_eq!(signed_in.code, Some(0), "{signed_in}");
    assert!(signed_in.stdout.ends_with("signed in at hub\n"), "{signed_in}");
    // The workbench that was told no takes it without a restart.
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
        assert!(!told.iter().any(|text| text.contains(secret)), "{secret} was told");
    }
    assert!(told[5].contains(r#""kind":"sign_in","server":"hub","outcome":"signed_in""#));

    assert_eq!(bench.run(["auth", "logout", "hub"]).stdout, "signed out at hub\n");
    assert_eq!(credentials(&bench), Vec::<PathBuf>::new());
    assert_eq!(bench.run(["call", "dev", "hub", "read"]).code, Some(1));
}

pub(crate) fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    // There is a socket as well.
    files.filter(|path| path.is_file()).collect()
}

#[test]
fn an_expired_token_is_renewed_once_for_fifty_calls_of_two_processes() {
    let (authority, bench) = signed_in_a_while_ago();
    // One after the other, for each writes the configuration anew.
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
fn killed_while_a_token_is_renewed_it_says_afterwards_what_to_do() {
    let (authority, bench) = signed_in_a_while_ago();
    authority.set("hold=3000");
    let agent = bench.agent().tolerant();
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
fn an_authorization_server_that_is_down_costs_no_login() {
    let (authority, bench) = signed_in_a_while_ago();
    authority.set("down=true");
    assert_eq!(bench.run(["call", "dev", "hub", "read"]).code, Some(1));
    assert!(login(&bench).to_string().contains("refresh"));
    authority.set("down=false");
    let after = bench.run(["call", "dev", "hub", "read"]);
    assert!(after.stdout.contains("read by ann"), "{after}");
}

#[test]
fn who_is_thrown_out_is_asked_to_sign_in_again() {
    let (authority, bench) = signed_in();
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
    authority.ask("/revoke");
    let after = bench.run(["call", "dev", "hub", "read"]);
    assert!(after.stderr.contains("auth login hub"), "{after}");
    assert_eq!(credentials(&bench).len(), 1, "what the client is stays known");
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
}

#[test]
fn more_is_asked_for_beside_what_was_granted_after_a_restart() {
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
fn who_says_no_is_heard() {
    let authority = Authority::start();
    authority.set("deny=true");
    let bench = bench(&authority);
    let denied = authority.sign_in(&bench, &["hub"]);
    assert_eq!(denied.code, Some(1), "{denied}");
    assert!(denied.stderr.contains("you declined"), "{denied}");
}

#[test]
fn the_address_may_be_pasted_where_the_browser_is_elsewhere() {
    let authority = Authority::start();
    authority.set("paste=true");
    let bench = bench(&authority);
    let pasted = authority.sign_in(&bench, &["hub"]);
    assert_eq!(pasted.code, Some(0), "{pasted}");
}

#[test]
fn the_login_of_one_caller_never_serves_another() {
    let authority = Authority::start();
    let bench = of_agents(bench(&authority));
    assert_eq!(authority.sign_in(&bench, &["hub", "--for", "claude"]).code, Some(0));
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
    assert!(codex.contains("auth login hub --for codex"), "{codex}");
    assert!(bench.run(["call", "dev", "hub", "read"]).stderr.contains("auth login hub"));
}
