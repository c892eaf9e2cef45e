//! Login to a `FastMCP` server, which is its own authorization server and registers clients with a
//! secret.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::sign_in::authority::Authority;
use crate::sign_in::{credentials, login};
use crate::support::{TestEnvironment, real};

const HINT: &str = "run `mcp-workbench auth login hub`, then try again";

fn bench(server: &Authority, protocol: &str) -> TestEnvironment {
    let entry = json!({ "url": server.mcp, "protocol": protocol });
    TestEnvironment::new().server("dev", "hub", entry).set("toolMode", json!("proxy"))
}

#[test]
fn setup_login_and_first_call() {
    let server = Authority::of(real::fastmcp());
    let clients = json!({ "mcpServers": { "hub": { "type": "http", "url": server.mcp } } });
    let bench = TestEnvironment::new().file("home/.claude.json", &clients.to_string());
    let set = bench.run_bare(["setup", "--yes"]);
    assert_eq!(set.code, Some(1), "{set}");
    let add = format!("`mcp-workbench add --user hub {}`, then `mcp-workbench auth", server.mcp);
    assert!(set.stdout.contains(&add), "{set}");
    let added = bench.run_bare(["add", "--user", "hub", &server.mcp]);
    assert_eq!(added.code, Some(0), "{added}");
    let written = bench.path("home/.config/mcp-workbench/config.json");
    let config: Value = serde_json::from_str(&fs::read_to_string(written).unwrap()).unwrap();
    let toolbox = config["toolboxes"].as_object().unwrap().keys().next().unwrap().clone();
    let bench = bench.config(config);
    assert_eq!(server.sign_in(&bench, &["hub"]).code, Some(0));
    let called = bench.run(["call", &toolbox, "hub", "read"]);
    assert_eq!(called.stdout, "read first with notes\n", "{called}");
}

#[test]
fn login_is_used_renewed_and_revoked_in_both_eras() {
    for protocol in ["legacy", "modern"] {
        let server = Authority::of(real::fastmcp());
        let bench = bench(&server, protocol);
        let agent = bench.agent();
        agent.initialize();
        let call = || agent.use_tool(["dev", "hub", "read"], json!({ "note": protocol }));
        let refused = call();
        assert!(refused.is_tool_error() && refused.text().contains(HINT), "{refused:?}");

        // The token expires soon, so the next process has to renew it.
        server.ask("/set?ttl=2");
        let signed_in = server.sign_in(&bench, &["hub"]);
        assert_eq!(signed_in.code, Some(0), "{signed_in}");
        let client = login(&bench)["client"].clone();
        assert!(client["secret"].as_str().is_some_and(|secret| !secret.is_empty()), "{client}");
        // Wait until the token has expired by the clock of the server.
        sleep(Duration::from_millis(2500));
        server.ask("/set?ttl=3600");
        let said = format!("read {protocol} with notes");
        let elsewhere =
            bench.run(["call", "dev", "hub", "read", &format!(r#"{{"note":"{protocol}"}}"#)]);
        assert_eq!(elsewhere.stdout, format!("{said}\n"), "{elsewhere}");
        // The running workbench uses the token that the other process got.
        assert_eq!(call().text(), said);
        assert_eq!(login(&bench)["client"], client, "the client registered again");
        let counts = server.counts();
        let expected =
            json!({ "registered": 1, "code": 1, "refresh": 1, "revoked": 0, "calls": 2 });
        assert_eq!(counts, expected, "{protocol}");

        assert_eq!(bench.run(["auth", "logout", "hub"]).stdout, "signed out of hub\n");
        assert_eq!(credentials(&bench).len(), 0);
        assert!(server.counts()["revoked"].as_u64() > Some(0), "{}", server.counts());
        let after = call();
        assert!(after.is_tool_error() && after.text().contains(HINT), "{protocol}: {after:?}");
    }
}
