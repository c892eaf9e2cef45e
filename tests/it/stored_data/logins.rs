//! Login records: their status and renewal.

use std::fs;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::stored_data::{fixture, json_fixture, parse, put, sha256_hex};
use crate::support::TestEnvironment;

const CREDENTIALS: &str = "home/.local/state/mcp-workbench/credentials";
const STORED_LOGINS: [&str; 3] = ["hub", "hub-ann", "writer"];

/// A record of a login, for a server and an authorization server at these addresses.
fn stored_login(name: &str, mcp: &str, issuer: &str) -> Value {
    let text = fixture(&format!("logins/{name}.login.json"));
    let text = text.replace("{{mcp}}", mcp).replace("{{issuer}}", issuer);
    serde_json::from_str(&text).expect("JSON")
}

/// The file of a login: a digest of server, URL and account, each prefixed with its length.
fn login_file(login: &Value) -> String {
    let account = login["account"].as_str().map(|account| format!("agent {account}"));
    let text = |member: &str| login[member].as_str().expect("a text").to_owned();
    let parts = [text("server"), text("url"), account.unwrap_or_else(|| "all".to_owned())];
    let parts = parts.iter().flat_map(|part| {
        let length = (part.len() as u64).to_le_bytes();
        length.into_iter().chain(part.bytes())
    });
    format!("{CREDENTIALS}/{}.json", sha256_hex(parts.collect::<Vec<u8>>()))
}

fn with_logins(mcp: &str, issuer: &str) -> TestEnvironment {
    let config = fixture("logins/workbench.json").replace("{{mcp}}", mcp);
    let env = TestEnvironment::new().config(serde_json::from_str(&config).expect("JSON"));
    for name in STORED_LOGINS {
        let login = stored_login(name, mcp, issuer);
        put(&env, &login_file(&login), login.to_string());
    }
    env
}

#[test]
fn logins_of_the_previous_version_have_the_same_status() {
    // `auth status` doesn't connect to any server.
    let env = with_logins("http://127.0.0.1:9/mcp", "http://127.0.0.1:9");
    let mut status = parse(&env.run(["auth", "status", "--json"]));
    let mut expected = json_fixture("logins/status.json");
    for row in expected.as_array_mut().expect("rows") {
        if row["issuer"] == "{{issuer}}" {
            row["issuer"] = "http://127.0.0.1:9".into();
        }
    }
    let whys = [&mut status, &mut expected].map(|rows| {
        let rows = rows.as_array_mut().expect("rows").iter_mut();
        let mut whys = rows.filter_map(|row| row.as_object_mut().expect("a row").remove("reason"));
        let why = whys.next().expect("a reason").as_str().expect("a text").to_owned();
        assert_eq!(whys.next(), None);
        why
    });
    assert_eq!(status, expected);
    for why in whys {
        assert!(why.ends_with("mcp:read mcp:write"), "the missing scopes are unknown: {why}");
    }
}

/// An authorization server that renews tokens, and an MCP server that accepts only the renewed one.
struct RenewingServer {
    address: String,
    /// The bodies of token requests.
    asked: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

const RENEWED: &str = "an-access-token-that-was-renewed";
const NEXT: &str = "the-next-refresh-token-0123456789";

impl RenewingServer {
    fn start() -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let record = Arc::clone(&asked);
        let token = move |body: String| async move {
            record.lock().expect("the requests").push(body);
            let token = json!({
                "access_token": RENEWED,
                "token_type": "Bearer",
                "expires_in": 3600,
                "refresh_token": NEXT,
                "scope": "mcp:read",
            });
            ([("content-type", "application/json")], token.to_string())
        };
        let router = Router::new().route("/token", post(token)).route("/mcp", post(serve_mcp));
        let runtime = Runtime::new().expect("a runtime");
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, asked, _runtime: runtime }
    }
}

async fn serve_mcp(headers: HeaderMap, body: String) -> (StatusCode, HeaderMap, String) {
    let answer = |status, body: Value| {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().expect("a header"));
        (status, headers, body.to_string())
    };
    if headers.get("authorization").is_none_or(|shown| *shown != format!("Bearer {RENEWED}")) {
        return answer(StatusCode::UNAUTHORIZED, json!({}));
    }
    let message: Value = serde_json::from_str(&body).expect("a message");
    let Some(id) = message.get("id") else {
        return (StatusCode::ACCEPTED, HeaderMap::new(), String::new());
    };
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "hub", "version": "1" },
        }),
        Some("tools/list") => {
            json!({ "tools": [{ "name": "read", "inputSchema": { "type": "object" } }] })
        }
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "it was read" }] }),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return answer(StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    answer(StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

#[test]
fn login_of_the_previous_version_is_renewed_without_losing_a_field() {
    let server = RenewingServer::start();
    let mcp = format!("{}/mcp", server.address);
    let env = with_logins(&mcp, &server.address);
    for name in ["hub", "writer"] {
        let called = env.run(["call", "box", name, "read"]);
        assert!(called.stdout.contains("it was read"), "{called}");
        let mut before = stored_login(name, &mcp, &server.address);

        let asked = server.asked.lock().expect("the requests").pop().expect("a request");
        let mut asked: Vec<_> =
            url::form_urlencoded::parse(asked.as_bytes()).into_owned().collect();
        asked.sort();
        let expected = [
            ("client_id", &before["client"]["id"]),
            ("grant_type", &json!("refresh_token")),
            ("refresh_token", &before["refresh_token"]),
            ("resource", &before["resource"]),
        ];
        let expected =
            expected.map(|(key, value)| (key.to_owned(), value.as_str().unwrap().to_owned()));
        assert_eq!(asked, expected);

        let after = fs::read_to_string(env.path(&login_file(&before))).expect("the login");
        let mut after: Value = serde_json::from_str(&after).expect("JSON");
        assert_eq!(after["token"]["value"], RENEWED);
        assert!(
            after["token"]["expires"].as_u64() > before["token"]["expires"].as_u64(),
            "{after}"
        );
        before["refresh_token"] = NEXT.into();
        for login in [&mut before, &mut after] {
            login["token"].take();
        }
        assert_eq!(after, before);
    }
    assert!(server.asked.lock().expect("the requests").is_empty());
}
