//! Logins in command output: the login in use, missing scopes, and the command to run.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::cli_top::Desk;
use crate::sign_in::authority::Authority;
use crate::sign_in::url_elicitation::{send, text};
use crate::sign_in::{bench, credentials, of_agents, signed_in, token};
use crate::support::{Agent, TestEnvironment};

fn parsed(bench: &TestEnvironment, args: &[&str]) -> Value {
    let told = bench.run(args.iter().copied());
    serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

#[test]
fn explain_list_and_stats_report_logins() {
    let (_authority, bench) = signed_in();
    assert!(bench.run(["call", "dev", "hub", "read"]).stdout.contains("read by ann"));
    let explained = bench.run(["explain", "-", "hub", "read"]).stdout;
    assert!(explained.contains("login     machine account: signed in\n"), "{explained}");
    let explained = bench.run(["explain", "claude", "hub", "read"]).stdout;
    assert!(
        explained.contains("login     over stdio, machine account: signed in\n"),
        "{explained}"
    );
    let own = "login     over HTTP, agent `claude`: not signed in (not required so far); \
               run `mcp-workbench auth login hub --agent claude`";
    assert!(explained.contains(own), "{explained}");
    let listed = parsed(&bench, &["list", "--json"]);
    let login =
        json!([{ "toolbox": "dev", "server": "hub", "account": null, "state": "signed_in" }]);
    assert_eq!(listed["logins"], login);

    // `write` needs more scopes than were granted.
    assert_eq!(bench.run(["call", "dev", "hub", "write"]).code, Some(1));
    // The result is remembered, so these commands don't start the server.
    let hint = "run `mcp-workbench auth login hub`";
    let listed = bench.run(["list"]);
    let said = "login for `dev/hub`: machine account: sign-in required (";
    assert!(listed.stderr.contains(said) && listed.stderr.contains(hint), "{listed}");
    let explained = bench.run(["explain", "-", "hub", "read"]).stdout;
    let said = "login     machine account: sign-in required (";
    assert!(explained.contains(said) && explained.contains(hint), "{explained}");
    let counted = parsed(&bench, &["stats", "--json"]);
    let logins = &counted["logins"][0];
    assert_eq!(json!([logins["signed_in"], logins["is_required"]]), json!([1, true]), "{logins}");
    let counted = bench.run(["stats"]).stdout;
    assert!(counted.contains("sign-in required: mcp-workbench auth login hub"), "{counted}");
}

#[test]
fn server_without_oauth_has_no_login() {
    let authority = Authority::start();
    let entry = json!({ "url": authority.mcp, "oauth": false });
    let bench = bench(&authority).server("dev", "hub", entry);
    let explained = bench.run(["explain", "claude", "hub", "read"]).stdout;
    assert!(!explained.contains("login"), "{explained}");
}

#[test]
fn status_and_logout_include_logins_of_agents() {
    let authority = Authority::start();
    let bench = of_agents(bench(&authority));
    let sign_in = |agent: &str| {
        assert_eq!(authority.sign_in(&bench, &["hub", "--agent", agent]).code, Some(0));
    };
    let accounts = || {
        let status = parsed(&bench, &["auth", "status", "hub", "--json"]);
        let signed_in = status.as_array().unwrap().iter();
        let signed_in = signed_in.filter(|row| row["state"] == "signed_in");
        signed_in.map(|row| row["account"].clone()).collect::<Vec<_>>()
    };
    sign_in("claude");
    assert_eq!(accounts(), ["claude"]);
    assert_eq!(bench.run(["auth", "logout", "hub"]).stdout, "signed out of hub (agent claude)\n");
    // Two logins match, so `logout` needs `--agent`.
    sign_in("claude");
    sign_in("codex");
    assert_eq!(accounts(), ["claude", "codex"]);
    let refused = bench.run(["auth", "logout", "hub"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    for agent in ["claude", "codex"] {
        let said = format!("`mcp-workbench auth logout hub --agent {agent}`");
        assert!(refused.stderr.contains(&said), "{refused}");
    }
    let told = bench.run(["auth", "logout", "hub", "--agent", "codex"]).stdout;
    assert_eq!(told, "signed out of hub (agent codex)\n");
    // Without `--agent`, `logout` ends the machine's own login.
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    let told = bench.run(["auth", "logout", "hub"]);
    assert_eq!(told.stdout, "signed out of hub\n");
    assert!(told.stderr.contains("`mcp-workbench auth logout hub --agent claude`"), "{told}");
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    let told = bench.run(["auth", "logout"]).stdout;
    assert_eq!(told, "signed out of hub\nsigned out of hub (agent claude)\n");
    assert_eq!(accounts(), [Value::Null; 0]);
    assert_eq!(credentials(&bench).len(), 0);
    assert_eq!(authority.counts()["revoked"].as_u64().map(|times| times >= 5), Some(true));
}

#[test]
fn agent_flag_selects_a_login_but_the_variable_does_not() {
    let authority = Authority::start();
    let bench = of_agents(bench(&authority)).set("agentPolicies", json!({ "codex": {} }));
    // Access rules don't apply: an agent that left the configuration can still be signed out.
    assert_eq!(authority.sign_in(&bench, &["hub", "--agent", "claude"]).code, Some(0));
    let bench = bench.env("WORKBENCH_AGENT", "codex");
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    let status = parsed(&bench, &["auth", "status", "hub", "--json"]);
    let accounts: Vec<_> = status.as_array().unwrap().iter().map(|row| &row["account"]).collect();
    assert_eq!(accounts, [&Value::Null, &json!("claude")]);
    let told = bench.run(["--agent", "claude", "auth", "logout", "hub"]).stdout;
    assert_eq!(told, "signed out of hub (agent claude)\n");
    let told = bench.run(["auth", "logout", "hub"]).stdout;
    assert_eq!(told, "signed out of hub\n");
}

#[test]
fn logout_works_for_a_disabled_server() {
    let (authority, bench) = signed_in();
    let other = TestEnvironment::server(
        bench,
        "dev",
        "hub",
        json!({ "url": authority.mcp, "disabled": true }),
    );
    let told = other.run(["auth", "logout", "hub"]);
    assert_eq!(told.stdout, "signed out of hub\n", "{told}");
    let told = other.run(["auth", "logout", "hub"]);
    assert_eq!(told.code, Some(2), "{told}");
}

#[test]
fn admin_view_offers_no_login_on_behalf_of_an_agent() {
    let (_authority, bench) = signed_in();
    let bench = of_agents(bench);
    let codex = Agent::over_http_with(bench.http(), &token("codex")).begin(false, json!({}));
    let call = send(&codex, "read");
    assert!(text(&codex, &call).contains("auth login hub --agent codex"));
    let view = Desk::new(&bench).ask(&json!({ "ask": "view" }));
    let server = &view["toolboxes"][0]["servers"][0];
    assert_eq!(
        (&server["server"], &server["signIn"]),
        (&server["server"], &Value::Null),
        "{server}"
    );
    assert_eq!(server["state"], "failed");
}
