//! Authentication over HTTP: tokens of agents, and JWTs of an issuer.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;

use jsonwebtoken::{Algorithm, get_current_timestamp};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::{HttpClient, HttpWorkbench, Response};
use crate::support::issuer::FakeJwtIssuer;
use crate::support::process::{StartedProcesses, run_to_exit};
use crate::support::real::bearer_client;
use crate::support::signer::Signer;
use crate::support::{DEADLINE, TestEnvironment, fake};

const CLAUDE: &str = "a-token-for-claude-0123";
const CODEX: &str = "a-token-for-codex-4567";
const AUDIENCE: &str = "https://workbench.example.com/mcp";

fn entry(agent: &str, token: &str) -> Value {
    let digest = Sha256::digest(token.as_bytes());
    let sha256 = hex::encode(digest);
    json!({ "agent": agent, "sha256": sha256 })
}

fn bench() -> TestEnvironment {
    let script = json!({ "tools": ["echo", "ask"] });
    TestEnvironment::new()
        .server("box", "fake", fake(script))
        .set("toolMode", json!("proxy"))
        .set("autoReload", json!("all"))
}

fn two_agents() -> TestEnvironment {
    bench().set("auth", json!({ "tokens": [entry("claude", CLAUDE), entry("codex", CODEX)] }))
}

fn ask(http: HttpClient, headers: &[(&str, &str)]) -> Response {
    http.modern("tools/list", json!({}), headers)
}

fn ask_with(http: HttpClient, token: &str) -> Response {
    ask(http, &[("Authorization", &format!("Bearer {token}"))])
}

fn begin(http: HttpClient, token: &str) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test-agent", "version": "1.0.0" },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = http.post(&[("Authorization", &format!("Bearer {token}"))], &message);
    assert_eq!(answer.status, 200);
    answer.header("mcp-session-id").expect("a session").to_owned()
}

#[test]
fn only_valid_tokens_are_accepted() {
    let (program, http) = two_agents().http_with(["--log-level", "trace"]);
    assert_eq!(ask_with(http, CLAUDE).status, 200);
    assert_eq!(ask_with(http, CODEX).status, 200);
    for (headers, status, said) in [
        (&[][..], 401, r#"Bearer realm="mcp-workbench""#),
        (&[("Authorization", "Basic YTpi")][..], 401, r#"Bearer realm="mcp-workbench""#),
        (&[("Authorization", "Bearer a-token-for-nobody-89")][..], 401, "invalid_token"),
        (&[("Authorization", "Bearer")][..], 400, "invalid_request"),
        (
            &[
                ("Authorization", "Bearer a-token-for-claude-0123"),
                ("Authorization", "Bearer a-token-for-claude-0123"),
            ][..],
            400,
            "invalid_request",
        ),
    ] {
        let refused = ask(http, headers);
        let challenge = refused.header("www-authenticate").unwrap_or_default().to_owned();
        assert_eq!(refused.status, status, "{headers:?}");
        assert!(challenge.contains(said), "{challenge}");
        assert!(!challenge.contains("resource_metadata"), "{challenge}");
        assert!(refused.json()["error"]["message"].is_string());
    }
    let path = format!("/mcp?access_token={CLAUDE}");
    assert_eq!(http.modern_at(&path, "tools/list", json!({}), &[]).status, 401);
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    assert_eq!(http.send("GET", "/.well-known/oauth-protected-resource", &[], "").status, 404);
    let log = program.0.wait_stderr("first request of an agent agent=codex");
    assert!(!log.contains(CLAUDE) && !log.contains("a-token-for"), "{log}");
}

#[test]
fn token_of_an_agent_without_policy_is_rejected() {
    let bench = two_agents().set("agentPolicies", json!({ "claude": {} }));
    let (program, http) = bench.http();
    assert_eq!(ask_with(http, CLAUDE).status, 200);
    let refused = ask_with(http, CODEX);
    assert_eq!(refused.status, 403);
    let message = refused.json()["error"]["message"].as_str().expect("a text").to_owned();
    assert!(message.contains("no access rules for agent `codex`"), "{message}");
    assert!(!message.contains("claude"), "{message}");
    program.0.wait_stderr("all calls are denied: no agent `codex` in `agentPolicies`");
    let (_program, http) = bench.set("defaultPolicy", json!({})).http();
    assert_eq!(ask_with(http, CODEX).status, 200);
}

// invariant: caller-owns-state
#[test]
fn sessions_are_bound_to_their_agent() {
    let (_program, http) = two_agents().http();
    let session = begin(http, CLAUDE);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let status = |method: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", "0-0")];
        headers.extend(bearer.as_ref().map(|bearer| ("Authorization", bearer.as_str())));
        let body = if method == "POST" { message.to_string() } else { String::new() };
        http.send(method, "/mcp", &headers, &body).status
    };
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(status(method, Some(CODEX)), 404, "{method}");
        assert_eq!(status(method, None), 401, "{method}");
    }
    assert_eq!(status("POST", Some(CLAUDE)), 200);
    assert_eq!(status("DELETE", Some(CLAUDE)), 204);
}

// invariant: caller-owns-state
#[test]
fn request_state_is_bound_to_its_agent() {
    let (_program, http) = two_agents().http();
    let form = json!({ "message": "Who?", "requestedSchema": { "type": "object" } });
    let arguments = json!({ "method": "elicitation/create", "params": form });
    let path = json!({ "toolbox": "box", "server": "fake", "tool": "ask" });
    let call = |token: &str, more: Value| {
        let mut params = json!({
            "name": "use_tool",
            "arguments": { "tool": path, "arguments": arguments },
            "_meta": { "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let bearer = format!("Bearer {token}");
        let headers = [("Mcp-Name", "use_tool"), ("Authorization", bearer.as_str())];
        http.modern("tools/call", params, &headers).json()
    };
    let required = call(CLAUDE, json!({}))["result"].clone();
    assert_eq!(required["resultType"], "input_required", "{required}");
    let questions = required["inputRequests"].as_object().expect("questions");
    let key = questions.keys().next().expect("a question");
    let said = json!({ "action": "accept", "content": { "name": "me" } });
    let more = json!({ "inputResponses": { key: said }, "requestState": required["requestState"] });
    let refused = call(CODEX, more.clone());
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let done = call(CLAUDE, more);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
}

#[test]
fn anonymous_agents_follow_auth_anonymous() {
    let anonymous = |anonymous: Value| {
        let auth = json!({ "tokens": [entry("claude", CLAUDE)], "anonymous": anonymous });
        bench().set("auth", auth)
    };
    let (program, http) = anonymous(json!("guest")).http();
    assert_eq!(ask(http, &[]).status, 200);
    program.0.wait_stderr("agent=guest");
    // An invalid token isn't treated like a missing one.
    assert_eq!(ask_with(http, CODEX).status, 401);
    assert_eq!(ask(http, &[("Authorization", "Basic YTpi")]).status, 401);
    let (program, http) = anonymous(json!(true)).http_with(["--agent", "tester"]);
    assert_eq!(ask(http, &[]).status, 200);
    program.0.wait_stderr("agent=tester");
}

#[test]
fn changed_tokens_apply_immediately() {
    let bench = two_agents();
    let (program, http) = bench.http();
    assert_eq!(ask_with(http, CODEX).status, 200);
    let session = begin(http, CODEX);
    let only = json!({ "tokens": [entry("claude", CLAUDE), entry("new", "a-token-for-another")] });
    bench.clone().set("auth", only).write_config();
    program.0.wait_stderr("configuration reloaded");
    assert_eq!(ask_with(http, CODEX).status, 401);
    assert_eq!(ask_with(http, "a-token-for-another").status, 200);
    let headers = [("Mcp-Session-Id", session.as_str()), ("Authorization", "Bearer x")];
    assert_eq!(http.send("GET", "/mcp", &headers, "").status, 401);
}

fn with_issuer(issuer: &FakeJwtIssuer, more: &Value) -> (HttpWorkbench, HttpClient) {
    let mut jwt = json!({ "issuer": issuer.name, "audience": AUDIENCE });
    for (key, value) in more.as_object().into_iter().flatten() {
        jwt[key] = value.clone();
    }
    let auth = json!({ "jwt": jwt, "tokens": [entry("codex", CODEX)] });
    bench().set("auth", auth).http()
}

/// A token of the issuer that is valid except for these claims.
fn signed(signer: &Signer, issuer: &FakeJwtIssuer, claims: &Value) -> String {
    let mut all = json!({ "iss": issuer.name, "aud": AUDIENCE, "sub": "claude" });
    for (claim, value) in claims.as_object().into_iter().flatten() {
        all[claim] = value.clone();
    }
    signer.sign(&signer.header(), &all)
}

#[test]
fn only_valid_jwts_of_the_issuer_are_accepted() {
    let signers = [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256]
        .map(|algorithm| Signer::new(algorithm, "key"));
    let issuer = FakeJwtIssuer::start(&signers.each_ref());
    let (program, http) = with_issuer(&issuer, &json!({ "requiredScopes": ["mcp"] }));
    let scope = json!({ "scope": "mcp other" });
    for signer in &signers {
        assert_eq!(ask_with(http, &signed(signer, &issuer, &scope)).status, 200);
    }
    assert_eq!(ask_with(http, CODEX).status, 200);
    program.0.wait_stderr("agent=claude");
    let now = get_current_timestamp();
    let foreign = Signer::new(Algorithm::ES256, "key");
    let good = &signers[0];
    for (what, token, status, said) in [
        ("expired", signed(good, &issuer, &json!({ "exp": now - 100 })), 401, "expired"),
        ("early", signed(good, &issuer, &json!({ "nbf": now + 100 })), 401, "the token is invalid"),
        ("for others", signed(good, &issuer, &json!({ "aud": "x" })), 401, "the token is invalid"),
        ("of others", signed(good, &issuer, &json!({ "iss": "x" })), 401, "the token is invalid"),
        ("forged", signed(&foreign, &issuer, &scope), 401, "the token is invalid"),
        ("narrow", signed(good, &issuer, &json!({})), 403, "insufficient_scope"),
    ] {
        let refused = ask_with(http, &token);
        let challenge = refused.header("www-authenticate").unwrap_or_default().to_owned();
        assert_eq!(refused.status, status, "{what}");
        assert!(challenge.contains(said), "{what}: {challenge}");
        assert!(
            challenge.contains("resource_metadata=\"https://workbench.example.com/"),
            "{challenge}"
        );
    }
    // A token for a single toolbox.
    let narrow =
        signed(good, &issuer, &json!({ "aud": format!("{AUDIENCE}/box"), "scope": "mcp" }));
    let bearer = format!("Bearer {narrow}");
    let headers = [("Authorization", bearer.as_str())];
    assert_eq!(http.modern_at("/mcp/box", "tools/list", json!({}), &headers).status, 200);
    assert_eq!(http.modern_at("/mcp", "tools/list", json!({}), &headers).status, 401);
    let log = program.0.stderr();
    assert!(!log.contains("eyJ"), "{log}");
}

#[test]
fn resource_metadata_names_the_authorization_server() {
    let signer = Signer::new(Algorithm::ES256, "key");
    let issuer = FakeJwtIssuer::start(&[&signer]);
    let (_program, http) = with_issuer(&issuer, &json!({}));
    let challenge = ask(http, &[]).header("www-authenticate").expect("a challenge").to_owned();
    let expected = "https://workbench.example.com/.well-known/oauth-protected-resource/mcp";
    assert_eq!(
        challenge,
        format!(r#"Bearer realm="mcp-workbench", resource_metadata="{expected}""#)
    );
    let known = |path: &str| {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        http.send("GET", &path, &[], "").json()
    };
    assert_eq!(known("")["resource"], AUDIENCE);
    assert_eq!(known("/mcp")["authorization_servers"], json!([issuer.name]));
    assert_eq!(known("/mcp/box")["resource"], format!("{AUDIENCE}/box"));
    let elsewhere = [("Host", "evil.example.com")];
    let path = "/.well-known/oauth-protected-resource";
    assert_eq!(http.send("GET", path, &elsewhere, "").status, 403);
}

#[test]
fn issuer_keys_rotate_and_survive_an_outage() {
    let (one, two) = (Signer::new(Algorithm::ES256, "one"), Signer::new(Algorithm::ES256, "two"));
    let issuer = FakeJwtIssuer::start(&[&one]);
    let (_program, http) = with_issuer(&issuer, &json!({}));
    let (first, second) = (signed(&one, &issuer, &json!({})), signed(&two, &issuer, &json!({})));
    assert_eq!(ask_with(http, &first).status, 200);
    assert_eq!(ask_with(http, &second).status, 401);
    issuer.has(&[&two]);
    assert_eq!(ask_with(http, &second).status, 200);
    assert_eq!(ask_with(http, &first).status, 401);
    drop(issuer);
    assert_eq!(ask_with(http, &second).status, 200);
}

#[test]
fn unreachable_issuer_rejects_jwts_with_503() {
    let signer = Signer::new(Algorithm::ES256, "key");
    let issuer = FakeJwtIssuer::start(&[&signer]);
    let token = signed(&signer, &issuer, &json!({}));
    let (name, audience) = (issuer.name.clone(), AUDIENCE);
    drop(issuer);
    let jwt = json!({ "issuer": name, "audience": audience });
    let auth = json!({ "jwt": jwt, "tokens": [entry("codex", CODEX)] });
    let (program, http) = bench().set("auth", auth).http();
    let refused = ask_with(http, &token);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    program.0.wait_stderr("failed to fetch the issuer's keys");
    assert_eq!(ask_with(http, CODEX).status, 200);
}

// invariant: no-secrets-for-servers
#[test]
fn tokens_are_not_passed_to_servers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let (sender, heads) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let head = BufReader::new(stream.expect("a connection")).lines();
            let head: Vec<String> =
                head.map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
            let _ = sender.send(head.join("\n"));
        }
    });
    let bench = bench();
    let mut child = fake(json!({ "tools": ["echo"], "pidFile": bench.path_text("pid") }));
    child["inheritEnv"] = true.into();
    let auth = json!({ "tokens": [entry("claude", CLAUDE), { "agent": "codex", "env": "TOKEN" }] });
    let bench = bench
        .env("TOKEN", CODEX)
        .env("OTHER", "seen")
        .server("all", "child", child)
        .server("all", "remote", json!({ "url": url }))
        .set("auth", auth);
    let (_program, http) = bench.http();
    let params = json!({ "name": "open_toolbox", "arguments": { "toolbox": "all" } });
    let bearer = format!("Bearer {CODEX}");
    let headers = [("Mcp-Name", "open_toolbox"), ("Authorization", bearer.as_str())];
    assert_eq!(http.modern("tools/call", params, &headers).status, 200);
    let head = heads.recv_timeout(DEADLINE).expect("a request").to_lowercase();
    assert!(head.starts_with("post /mcp"), "{head}");
    for head in heads.try_iter().chain([head]) {
        assert!(!head.contains("authorization") && !head.contains(CODEX), "{head}");
    }
    let pid = StartedProcesses::read(bench.path("pid")).all()[0];
    let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("an environment");
    let environment = String::from_utf8_lossy(&environment);
    assert!(environment.contains("OTHER=seen"), "{environment}");
    assert!(!environment.contains("TOKEN") && !environment.contains(CODEX), "{environment}");
}

#[test]
fn non_loopback_address_requires_authentication() {
    let output = bench().run(["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("the configuration requires no authentication"), "{output}");
    assert!(output.stderr.contains("--insecure-no-auth"), "{output}");
    let guests = json!({ "tokens": [entry("claude", CLAUDE)], "anonymous": true });
    let output = bench().set("auth", guests).run(["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("`auth.anonymous`"), "{output}");

    let bench = two_agents();
    let (program, http) = bench.http_at("0.0.0.0:0", []);
    program.0.wait_stderr("is not encrypted");
    let bearer = format!("Bearer {CLAUDE}");
    let host = ("Host", "localhost");
    assert_eq!(ask(http, &[host, ("Authorization", &bearer)]).status, 200);
    assert_eq!(ask(http, &[host]).status, 401);
    assert_eq!(ask(http, &[("Host", "0.0.0.0"), ("Authorization", &bearer)]).status, 403);
    // A configuration without authentication isn't applied.
    bench.clone().set("auth", Value::Null).write_config();
    program.0.wait_stderr("from other machines, and the configuration requires no authentication");
    assert_eq!(ask(http, &[host]).status, 401);

    let (_program, http) = self::bench().http_at("0.0.0.0:0", ["--insecure-no-auth"]);
    assert_eq!(ask(http, &[host]).status, 200);
}

#[test]
fn readiness_hides_servers_from_unauthenticated_clients() {
    let secret = json!({ "command": "/no/such/secret", "eager": true });
    let (_program, http) = two_agents().server("box", "hidden", secret).http_at("0.0.0.0:0", []);
    let bearer = format!("Bearer {CLAUDE}");
    let ready = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("Host", "localhost")]].concat();
        let answer = http.send("GET", "/ready", &headers, "");
        assert_eq!(answer.status, 503);
        answer.json()
    };
    assert_eq!(ready(&[]), json!({ "status": "starting" }));
    let told = ready(&[("Authorization", &bearer)]);
    assert_eq!(told["servers"][0]["server"], "hidden", "{told}");
}

#[test]
fn tools_are_per_agent_and_metrics_need_full_access() {
    let bench = two_agents()
        .server("other", "more", fake(json!({ "tools": ["extra"] })))
        .set("toolMode", json!("direct"))
        .set("defaultPolicy", json!({ "allowUnknownTools": true }))
        .set("agentPolicies", json!({ "codex": { "allowedServers": ["fake"] } }));
    let (_program, http) = bench.http_at("0.0.0.0:0", []);
    let host = ("Host", "localhost");
    for (token, tools, status) in
        [(CLAUDE, vec!["echo", "ask", "extra"], 200), (CODEX, vec!["echo", "ask"], 403)]
    {
        let bearer = format!("Bearer {token}");
        let headers = [host, ("Authorization", bearer.as_str())];
        let listed = ask(http, &headers).json();
        let listed = listed["result"]["tools"].as_array().expect("a list");
        let names: Vec<_> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, tools);
        assert_eq!(http.send("GET", "/metrics", &headers, "").status, status);
    }
    assert_eq!(http.send("GET", "/metrics", &[host], "").status, 401);
}

#[test]
fn configured_hosts_and_origins_are_accepted() {
    let allowed = json!({
        "allowedHosts": ["work.example.com"],
        "allowedOrigins": ["https://app.example.com"],
    });
    let (_program, http) = two_agents().set("http", allowed).http();
    let bearer = format!("Bearer {CLAUDE}");
    let (token, page) = (("Authorization", bearer.as_str()), ("Origin", "https://app.example.com"));
    let elsewhere = ("Origin", "https://evil.example.com");
    assert_eq!(ask(http, &[("Host", "work.example.com:8000"), token]).status, 200);
    assert_eq!(ask(http, &[("Host", "evil.example.com"), token]).status, 403);
    let taken = ask(http, &[page, token]);
    assert_eq!(taken.status, 200);
    assert_eq!(taken.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(taken.header("vary"), Some("Origin"));
    // CORS headers let the page read the rejection.
    let refused = ask(http, &[page]);
    assert_eq!(refused.status, 401);
    assert!(refused.header("access-control-allow-origin").is_some());
    let exposed = refused.header("access-control-expose-headers").unwrap_or_default();
    assert!(exposed.contains("WWW-Authenticate"), "{exposed}");
    let asks = [
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,mcp-param-x"),
    ];
    let preflight = |origin| http.send("OPTIONS", "/mcp", &[&asks[..], &[origin]].concat(), "");
    let told = preflight(page);
    assert_eq!(told.status, 204);
    assert_eq!(told.header("access-control-allow-headers"), Some("authorization,mcp-param-x"));
    assert_eq!(told.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    for other in [elsewhere, ("Origin", "null"), ("Origin", "http://localhost:3000")] {
        let told = preflight(other);
        assert!(told.status >= 400, "{other:?}");
        assert_eq!(told.header("access-control-allow-origin"), None, "{other:?}");
    }
    let plain = ask(http, &[token]);
    assert_eq!((plain.header("vary"), plain.header("access-control-expose-headers")), (None, None));
}

#[test]
fn sdk_client_authenticates_and_discovers_the_issuer() {
    let signer = Signer::new(Algorithm::ES256, "key");
    let issuer = FakeJwtIssuer::start(&[&signer]);
    let (_program, http) = with_issuer(&issuer, &json!({ "audience": "workbench" }));
    let token = signed(&signer, &issuer, &json!({ "aud": "workbench" }));
    let url = format!("http://{}/mcp", http.0);
    let seen = run_to_exit(bearer_client(&url, &token), "").json_lines();
    let event = |name: &str| seen.iter().find(|seen| seen["event"] == name).expect("an event");
    assert_eq!(event("resource")["resource"]["resource"], url, "{seen:?}");
    assert_eq!(event("issuer")["issuer"], issuer.name);
    assert_eq!(event("tools")["names"], json!(["open_toolbox", "use_tool"]));
    assert!(seen.iter().any(|seen| seen["event"] == "refused"), "{seen:?}");
}

fn listen(http: HttpClient, session: &str, token: &str) -> Response {
    let bearer = format!("Bearer {token}");
    let headers = [("Mcp-Session-Id", session), ("Authorization", &bearer)];
    let mut stream = http.send("GET", "/mcp", &[&headers[..], &VERSION].concat(), "");
    assert!(stream.event().is_some());
    stream
}

const VERSION: [(&str, &str); 1] = [("MCP-Protocol-Version", "2025-11-25")];

#[test]
fn closes_streams_of_revoked_tokens() {
    let bench = two_agents();
    let (program, http) = bench.http();
    let mut codex = listen(http, &begin(http, CODEX), CODEX);
    let mut claude = listen(http, &begin(http, CLAUDE), CLAUDE);
    let mut modern = http.modern(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
        &[("Authorization", &format!("Bearer {CODEX}"))],
    );
    assert!(modern.event().is_some());
    let only = json!({ "tokens": [entry("new", "a-token-for-another"), entry("claude", CLAUDE)] });
    bench.clone().set("auth", only).write_config();
    program.0.wait_stderr("configuration reloaded: authentication over HTTP");
    // The next request closes the streams, unless the timer does so first.
    assert_eq!(ask_with(http, CLAUDE).status, 200);
    assert_eq!((codex.event(), modern.event()), (None, None));
    bench.clone().set("auth", json!({ "tokens": [entry("codex", CODEX)] })).write_config();
    while ask_with(http, CLAUDE).status == 200 {}
    assert_eq!(claude.event(), None);
}

#[test]
fn closes_streams_of_expired_tokens() {
    let signer = Signer::new(Algorithm::ES256, "key");
    let issuer = FakeJwtIssuer::start(&[&signer]);
    let (_program, http) = with_issuer(&issuer, &json!({ "leewayMs": 0 }));
    let token = signed(&signer, &issuer, &json!({ "exp": get_current_timestamp() + 5 }));
    let mut stream = listen(http, &begin(http, &token), &token);
    assert_eq!(stream.event(), None);
    // The session belongs to the agent, which has another token now.
    assert_eq!(ask_with(http, &signed(&signer, &issuer, &json!({}))).status, 200);
}

#[test]
fn failed_authentication_is_logged_once_a_minute_and_counted() {
    let auth = json!({ "tokens": [entry("claude", CLAUDE)], "operators": [entry("ops", CODEX)] });
    let (program, http) = bench().set("auth", auth).http();
    let wrong = "wrong-secret-0123456789";
    for _ in 0..3 {
        assert_eq!(ask_with(http, wrong).status, 401);
    }
    assert_eq!(ask(http, &[("Authorization", "Bearer a b\"")]).status, 400);
    assert_eq!(ask(http, &[]).status, 401);
    let json = ("Content-Type", "application/json");
    let act = json!({ "to": 1, "ask": { "ask": "findings" } }).to_string();
    assert_eq!(http.send("POST", "/page/ask", &[json], &act).status, 403);
    let bearer = format!("Bearer {wrong}");
    let headers = [json, ("Authorization", bearer.as_str())];
    assert_eq!(http.send("POST", "/page/ask", &headers, &act).status, 401);
    assert_eq!(http.send("GET", "/oauth/callback?state=guess&code=c0de", &[], "").status, 400);
    assert_eq!(http.send("GET", "/", &[("Host", "evil.example")], "").status, 403);

    let metrics = http.send("GET", "/metrics", &[], "").text();
    let log = program.0.wait_stderr("reason=\"origin\"");
    for (reason, times) in [
        ("invalid_token", 4),
        ("malformed_token", 1),
        ("no_token", 1),
        ("not_operator", 1),
        ("unknown_sign_in", 1),
        ("origin", 1),
    ] {
        let line = format!("mcp_workbench_auth_failures_total{{reason=\"{reason}\"}} {times}");
        assert!(metrics.contains(&line), "no {line} in\n{metrics}");
        let lines = log.lines().filter(|line| line.contains(&format!("reason=\"{reason}\"")));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() == 1 && lines[0].contains("127.0.0.1"), "{reason}: {lines:?}\n{log}");
    }
    for secret in [wrong, "c0de", "guess", "evil.example", "a b\""] {
        assert!(!log.contains(secret), "{secret} in\n{log}");
    }
}
