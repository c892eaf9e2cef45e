//! Logins of users on other machines, whose browsers return to the workbench itself.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use url::Url;

use crate::cli_top::Desk;
use crate::sign_in::authority::Authority;
use crate::sign_in::url_elicitation::{HINT, QUESTION, abilities, address, send, text};
use crate::sign_in::{bench, credentials, of_agents, token};
use crate::support::http::{HttpClient, Response};
use crate::support::{Agent, TestEnvironment};

/// The public callback URL. The reverse proxy strips `/work`.
const BACK: &str = "https://tools.example.com/work/oauth/callback";

/// A workbench with a public URL, for the remote agents `claude` and `codex`.
fn served(authority: &Authority) -> TestEnvironment {
    // The browser reports the redirect target without following it.
    authority.set("paste=true");
    let http = json!({ "publicUrl": "https://tools.example.com/work/" });
    of_agents(bench(authority)).set("http", http)
}

/// The redirect after consent. `path` is the part that the reverse proxy forwards.
struct CameBack {
    path: String,
    secrets: Vec<String>,
}

fn agree(authority: &Authority, page: &str) -> CameBack {
    let page_address = Url::parse(page).unwrap();
    let back = page_address.query_pairs().find(|(key, _)| key == "redirect_uri").unwrap().1;
    // Below the URL of all sign-ins is a segment for the issuer.
    assert!(back.starts_with(&format!("{BACK}/")), "{back}");
    let came = authority.browse(page);
    let came = Url::parse(came["url"].as_str().unwrap()).unwrap();
    assert!(came.as_str().starts_with(&format!("{back}?")), "{came}");
    let secrets = came.query_pairs().filter(|(key, _)| matches!(&**key, "code" | "state"));
    let secrets: Vec<_> = secrets.map(|(_, value)| value.into_owned()).collect();
    assert_eq!(secrets.len(), 2);
    let path = came.path().strip_prefix("/work").unwrap();
    CameBack { path: format!("{path}?{}", came.query().unwrap()), secrets }
}

fn get(http: HttpClient, path: &str) -> Response {
    http.send("GET", path, &[("Host", "tools.example.com")], "")
}

#[test]
fn remote_browser_returns_to_the_workbench() {
    let authority = Authority::start();
    let bench = served(&authority);
    let (program, http) = bench.http();
    let claude = Agent::over_http_with((program, http), &token("claude"));
    let claude = claude.without_reply(QUESTION).begin(false, abilities());
    let call = send(&claude, "read");
    let asked = claude.next_request(QUESTION);
    claude.respond(&asked, json!({ "action": "accept" }));
    let CameBack { path, secrets } = agree(&authority, address(&asked));

    // Requests without the right `state` get nothing and don't consume the pending login.
    let refused =
        "<p>Sign-in failed: no pending sign-in matches this response. Hint: sign in again.</p>";
    let [code, state] = &secrets[..] else { panic!("{secrets:?}") };
    let query = path.split_once('?').unwrap().1;
    for wrong in [
        format!("/oauth/callback?{query}"),
        format!("/oauth/callback/0123456789abcdef?{query}"),
        "/oauth/callback".to_owned(),
        format!("/oauth/callback?code={code}"),
        format!("/oauth/callback?code={code}&state="),
        format!("/oauth/callback?code={code}&state=of-another"),
        format!("/oauth/callback?code={code}&state={state}&state={state}"),
        format!("/oauth/callback?state={state}"),
        "/oauth/callback?code=%3Cscript%3E&state=%3Cscript%3E&error=%3Cscript%3E".to_owned(),
    ] {
        let answer = get(http, &wrong);
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().contains(refused), "{wrong}");
    }
    let scanned = http.send("HEAD", &path, &[("Host", "tools.example.com")], "");
    assert_eq!((scanned.status, scanned.header("allow")), (405, Some("GET")));
    assert_eq!(http.send("POST", &path, &[("Host", "tools.example.com")], "").status, 405);
    assert_eq!(http.send("GET", &path, &[("Host", "evil.example.com")], "").status, 403);
    let page = [("Host", "tools.example.com"), ("Origin", "https://evil.example.com")];
    assert_eq!(http.send("GET", &path, &page, "").status, 403);
    assert!(claude.answered(&call).is_none());

    let good = get(http, &path);
    assert_eq!(good.status, 200);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        (
            "content-security-policy",
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ] {
        assert_eq!(good.header(name), Some(value));
    }
    let shown = good.text();
    assert!(
        shown.contains("Agent `claude` is now signed in to server `hub` with your account"),
        "{shown}"
    );
    let answer = text(&claude, &call);
    assert!(answer.contains("read by ann"), "{answer}");

    let again = get(http, &path);
    assert_eq!(again.status, 400);
    let again = again.text();
    assert!(again.contains("Sign-in failed"), "{again}");
    let log = claude.program().stderr();
    for secret in &secrets {
        assert!(![&shown, &again, &log].iter().any(|text| text.contains(secret)), "{secret}");
    }
    assert_eq!(authority.counts()["code"], 1);
    // The login belongs to the agent that started it.
    let codex = claude.beside_with(&token("codex")).begin(false, json!({}));
    let call = send(&codex, "read");
    assert!(text(&codex, &call).contains("auth login hub --agent codex"));
    let status = bench.run(["auth", "status", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert!(status.to_string().contains(r#""account":"claude""#), "{status}");
}

#[test]
fn remote_agents_log_in_separately() {
    let authority = Authority::start();
    let bench = served(&authority);
    let (program, http) = bench.http();
    let claude = Agent::over_http_with((program, http), &token("claude"));
    let claude = claude.begin(true, abilities());
    let codex =
        claude.beside_with(&token("codex")).without_reply(QUESTION).begin(false, abilities());
    // `claude` uses the newest revision.
    let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
    let mut params = json!({ "name": "use_tool", "arguments": { "tool": tool, "arguments": {} } });
    let required = claude.request("tools/call", params.clone()).ok();
    let of_claude = &required["inputRequests"]["question"];
    let of_codex = send(&codex, "read");
    let asked = codex.next_request(QUESTION);
    codex.respond(&asked, json!({ "action": "accept" }));
    assert_ne!(address(of_claude), address(&asked));
    let [first, second] = [of_claude, &asked].map(|asked| agree(&authority, address(asked)));
    let page = get(http, &second.path).text();
    assert!(page.contains("Agent `codex` is"), "{page}");
    assert!(text(&codex, &of_codex).contains("read by ann"));
    params["requestState"] = required["requestState"].clone();
    params["inputResponses"] = json!({ "question": { "action": "accept" } });
    let again = claude.send_request("tools/call", params);
    let page = get(http, &first.path).text();
    assert!(page.contains("Agent `claude` is"), "{page}");
    assert!(text(&claude, &again).contains("read by ann"));
    assert_eq!(credentials(&bench).len(), 2);
}

#[test]
fn suggests_auth_login_when_the_gateway_cannot_take_the_callback() {
    let authority = Authority::start();
    for oauth in [
        // With a shared account, one agent's user would log in for all agents.
        json!({ "account": "shared" }),
        // The client is registered with another redirect URI.
        json!({ "callbackPort": 8976 }),
        json!({ "redirectUri": "https://other.example.com/callback" }),
    ] {
        let entry = json!({ "url": authority.mcp, "oauth": oauth });
        let bench = served(&authority).server("dev", "hub", entry);
        let claude = Agent::over_http_with(bench.http(), &token("claude"));
        let claude = claude.without_reply(QUESTION).begin(false, abilities());
        let call = send(&claude, "read");
        let told = text(&claude, &call);
        assert!(told.contains("run `mcp-workbench auth login hub"), "{told}");
    }
}

#[test]
fn operator_logs_in_for_all_agents_of_a_shared_account() {
    let authority = Authority::start();
    let entry = json!({ "url": authority.mcp, "oauth": { "account": "shared" } });
    let bench = served(&authority).server("dev", "hub", entry);
    let (program, http) = bench.http();
    let codex = Agent::over_http_with((program, http), &token("codex")).begin(false, json!({}));
    let call = send(&codex, "read");
    assert!(text(&codex, &call).contains(HINT));
    let ask = json!({ "ask": "signIn", "toolbox": "dev", "server": "hub" });
    let page = Desk::new(&bench).ask(&ask);
    let back = agree(&authority, page["address"].as_str().unwrap());
    let shown = get(http, &back.path).text();
    assert!(
        shown.contains("All agents of this workbench are now signed in to server `hub`"),
        "{shown}"
    );
    let call = send(&codex, "read");
    assert!(text(&codex, &call).contains("read by ann"));
}
