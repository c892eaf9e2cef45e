//! Several workbenches with a shared store and key: a login at one of them is valid at all.

use std::fs;
use std::thread::{scope, sleep};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use url::Url;

use crate::replicas::fleet::{Fleet, Process, Proxy, wait_until};
use crate::sign_in::authority::Authority;
use crate::support::http::{HttpClient, Session, request};
use crate::support::test_environment::TOKEN_OF_ANN;
use crate::support::{TestEnvironment, fake};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-workbench");

/// The public URL of the proxy that the browser returns to.
const PUBLIC: &str = "https://tools.example.com/";

fn config(authority: &Authority, folder: &TempDir) -> Value {
    let key = folder.path().join("key");
    fs::write(&key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n").unwrap();
    let hub = json!({ "url": authority.mcp });
    let digest = Sha256::digest(TOKEN_OF_ANN);
    let sha256 = hex::encode(digest);
    json!({
        "toolMode": "proxy",
        "http": { "publicUrl": PUBLIC },
        "auth": { "tokens": [{ "agent": "ann", "sha256": sha256 }] },
        "sharedStore": { "url": "redis://127.0.0.1:1", "keys": [key] },
        "toolboxes": { "dev": { "description": "All tools", "mcpServers": { "hub": hub } } },
    })
}

fn call(replica: &Process) -> Value {
    let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
    let params = json!({
        "name": "use_tool",
        "arguments": { "tool": tool, "arguments": {} },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test-agent", "version": "1.0.0" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
        },
    });
    let bearer = format!("Bearer {TOKEN_OF_ANN}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "use_tool"),
    ];
    HttpClient(replica.address).post(&headers, &request(1, "tools/call", params)).last()
}

fn read(replica: &Process) -> String {
    call(replica).to_string()
}

fn page(replica: &Process) -> Url {
    let answer = call(replica);
    let page = &answer["result"]["inputRequests"]["question"]["params"]["url"];
    Url::parse(page.as_str().unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

/// Completes the login in a browser. Returns the callback path that a proxy would forward.
fn agree(authority: &Authority, page: &Url) -> String {
    let came = authority.browse(page.as_str());
    let came = Url::parse(came["url"].as_str().unwrap()).unwrap();
    format!("{}?{}", came.path(), came.query().unwrap())
}

fn come_back(replica: &Process, path: &str) -> (u16, String) {
    let host = [("Host", "tools.example.com")];
    let answer = HttpClient(replica.address).send("GET", path, &host, "");
    (answer.status, answer.text())
}

/// Asserts that the store contains no readable part of a login.
fn nothing_is_told(fleet: &Fleet, authority: &Authority) {
    let keys = fleet.ask_store("KEYS *");
    let keys: Vec<&str> = keys.lines().filter(|line| line.contains("mcp-workbench:")).collect();
    assert!(keys.iter().any(|key| key.contains(":login:")), "{keys:?}");
    let shown = |key: &str| {
        let ranged = fleet.ask_store(&format!("GETRANGE {} 0 -1", key.trim()));
        let members = fleet.ask_store(&format!("SMEMBERS {}", key.trim()));
        format!("{ranged}{members}")
    };
    for key in keys.iter().filter(|key| [":login", ":sign-in"].iter().any(|it| key.contains(it))) {
        let text = shown(key);
        for word in ["token", "verifier", "client", "read", "http", authority.mcp.as_str()] {
            assert!(!text.contains(word), "{key}: {word} in {text}");
        }
    }
}

#[test]
fn callback_at_another_workbench_signs_in_both() {
    let (authority, folder) = (Authority::start(), TempDir::new().unwrap());
    authority.set("paste=true");
    let config = config(&authority, &folder);
    let mut fleet = Fleet::start(PROGRAM, 2, Proxy::Haproxy, |_| config.clone());
    let began = page(&fleet.replicas[0]);
    let back = agree(&authority, &began);
    nothing_to_see(&fleet, &began);

    let (status, shown) = come_back(&fleet.replicas[1], &back);
    assert_eq!(status, 200, "{shown}");
    assert!(shown.contains("Agent `ann` is now signed in to server `hub`"), "{shown}");
    for replica in &fleet.replicas {
        wait_until("the agent is signed in", || read(replica).contains("read by ann"));
        // The callback is single-use across all workbenches.
        assert_eq!(come_back(replica, &back).0, 400);
    }
    assert_eq!(authority.counts()["code"], 1);
    nothing_is_told(&fleet, &authority);

    // Without the store, logins in memory keep working. They are stored again once the store is
    // back.
    for trouble in ["CLIENT PAUSE 600000 ALL", "SHUTDOWN NOSAVE"] {
        fleet.ask_store(trouble);
        assert!(read(&fleet.replicas[0]).contains("read by ann"), "{trouble}");
        fleet.restart_store();
        wait_until("the login is in the store again", || {
            fleet.ask_store("KEYS *login:*").contains(":login:")
        });
    }
    let late = fleet.one_more(&config);
    assert!(read(&late).contains("read by ann"));
    assert_eq!(authority.counts()["code"], 1);
    let logs: String = fleet.replicas.iter().map(Process::log).collect();
    for secret in back.split(['?', '&', '=']).filter(|part| part.len() >= 20) {
        assert!(!logs.contains(secret), "{logs}");
    }
}

fn nothing_to_see(fleet: &Fleet, page: &Url) {
    let state = page.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let keys = fleet.ask_store("KEYS *");
    assert!(keys.contains(":sign-in:") && !keys.contains(&state), "{keys}");
}

#[test]
fn token_is_refreshed_once_across_workbenches() {
    let (authority, folder) = (Authority::start(), TempDir::new().unwrap());
    authority.set("paste=true");
    authority.set("ttl=2");
    let config = config(&authority, &folder);
    let fleet = Fleet::start(PROGRAM, 2, Proxy::Haproxy, |_| config.clone());
    let back = agree(&authority, &page(&fleet.replicas[0]));
    assert_eq!(come_back(&fleet.replicas[0], &back).0, 200);
    for replica in &fleet.replicas {
        assert!(read(replica).contains("read by ann"));
    }
    // The token must expire by the authorization server's clock.
    sleep(Duration::from_millis(2500));
    authority.set("ttl=3600");
    let before = authority.counts()["refresh"].as_u64().unwrap_or_default();
    let answers: Vec<String> = scope(|scope| {
        let replicas = (0..10).map(|n| &fleet.replicas[n % 2]);
        let calls: Vec<_> = replicas.map(|one| scope.spawn(|| read(one))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for answer in &answers {
        assert!(answer.contains("read by ann"), "{answers:?}");
    }
    assert_eq!(authority.counts()["refresh"], before + 1, "{}", authority.counts());
    nothing_is_told(&fleet, &authority);
}

#[test]
fn auth_command_signs_in_and_out_for_all_workbenches() {
    let (authority, folder) = (Authority::start(), TempDir::new().unwrap());
    let config = config(&authority, &folder);
    let fleet = Fleet::start(PROGRAM, 2, Proxy::Haproxy, |_| config.clone());
    let mut shared = config["sharedStore"].clone();
    shared["url"] = json!(format!("redis://{}", fleet.store.address));
    let server = config["toolboxes"]["dev"]["mcpServers"]["hub"].clone();
    let bench = TestEnvironment::new().server("dev", "hub", server).set("sharedStore", shared);
    let checked = bench.run(["check", "--connect"]);
    assert!(checked.stdout.contains("encrypted with the configured key"), "{checked}");
    assert_eq!(authority.sign_in(&bench, &["hub", "--agent", "ann"]).code, Some(0));
    let status = bench.run(["auth", "status", "--json"]);
    assert!(status.stdout.contains("signed_in"), "{status}");
    for replica in &fleet.replicas {
        assert!(read(replica).contains("read by ann"));
    }
    assert!(crate::sign_in::credentials(&bench).is_empty(), "the login was stored in a file");
    nothing_is_told(&fleet, &authority);
    let out = bench.run(["auth", "logout", "hub", "--agent", "ann"]);
    assert_eq!(out.code, Some(0), "{out}");
    let late = fleet.one_more(&config);
    assert!(!read(&late).contains("read by ann"));
    // An invalid key is reported at startup.
    fs::write(folder.path().join("key"), "hunter2").unwrap();
    let wrong = bench.run(["check"]);
    assert_eq!(wrong.code, Some(1), "{wrong}");
    assert!(wrong.to_string().contains("expected 32 bytes"), "{wrong}");
    assert!(!wrong.to_string().contains("hunter2"), "{wrong}");
}

#[test]
fn new_workbench_uses_listings_from_the_shared_store() {
    let folder = TempDir::new().unwrap();
    let starts = folder.path().join("starts");
    let key = folder.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let script = json!({ "tools": ["echo"], "requestFile": starts });
    let mut server = fake(script);
    // The working folder is part of a server's identity.
    server["cwd"] = json!(folder.path());
    let toolbox = json!({ "description": "All tools", "mcpServers": { "srv": server } });
    let config = json!({
        "toolMode": "search",
        "sharedStore": { "url": "redis://127.0.0.1:1", "keys": [key] },
        "toolboxes": { "box": toolbox },
    });
    let fleet = Fleet::start(PROGRAM, 1, Proxy::Haproxy, |_| config.clone());
    let search = |replica: &Process| {
        let params = json!({ "name": "search_tools", "arguments": { "query": "echo" } });
        Session::begin(HttpClient(replica.address)).post(&request(1, "tools/call", params)).text()
    };
    assert!(search(&fleet.replicas[0]).contains("echo"));
    wait_until("the tool list is in the store", || {
        fleet.ask_store("KEYS *listing:*").contains("listing:")
    });
    assert!(!fleet.ask_store("KEYS *listing:*").contains("srv"));
    let listed = fs::read_to_string(&starts).unwrap().lines().count();
    let late = fleet.one_more(&config);
    assert!(search(&late).contains("echo"));
    assert_eq!(
        fs::read_to_string(&starts).unwrap().lines().count(),
        listed,
        "a server was started"
    );
}
