//! Servers that get exchanged tokens of their callers (RFC 8693).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, get_current_timestamp};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use url::form_urlencoded;

use crate::sign_in::authority::Authority;
use crate::support::http::{HttpClient, HttpWorkbench};
use crate::support::signer::Signer;
use crate::support::{TestEnvironment, fake, real};

const AUDIENCE: &str = "https://workbench.example.com/mcp";
const CODEX: &str = "a-token-for-codex-4567";
const SECRET: &str = "secret-of-the-workbench-1";

/// An issuer that exchanges tokens, and a server that accepts the exchanged ones.
struct Company {
    origin: String,
    signer: Arc<Signer>,
    books: Arc<Mutex<Books>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Books {
    origin: String,
    /// The fields of each exchange.
    exchanges: Vec<HashMap<String, String>>,
    /// The `Authorization` header of each request to the server.
    shown: Vec<String>,
    /// Replaces the response of the token endpoint.
    answer: Option<(u16, Value)>,
    /// `true` if the server rejects every token.
    is_closed: bool,
}

type Shared = State<(Arc<Mutex<Books>>, Arc<Signer>)>;

impl Company {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let books = Books { origin: origin.clone(), ..Books::default() };
        let books = Arc::new(Mutex::new(books));
        let signer = Arc::new(Signer::new(Algorithm::ES256, "key"));
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/jwks", get(keys))
            .route("/token", post(token))
            .route("/mcp", post(mcp).get(no_stream))
            .with_state((Arc::clone(&books), Arc::clone(&signer)));
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = async { axum::serve(listener, router).await } => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { origin, signer, books, stop: Some(stop), thread: Some(thread) }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    fn answer(&self, status: u16, body: Value) {
        self.books().answer = Some((status, body));
    }

    /// A token of a user, of the client `claude`.
    fn token(&self, user: &str, claims: &Value) -> String {
        let mut all = json!({ "iss": self.origin, "aud": AUDIENCE, "sub": user, "azp": "claude" });
        for (claim, value) in claims.as_object().into_iter().flatten() {
            all[claim] = value.clone();
        }
        self.signer.sign(&self.signer.header(), &all)
    }

    fn entry(&self) -> Value {
        json!({
            "url": format!("{}/mcp", self.origin),
            "auth": {
                "exchange": "caller",
                "issuer": self.origin,
                "clientId": "workbench",
                "clientSecret": SECRET,
            },
        })
    }

    fn bench(&self) -> TestEnvironment {
        let jwt = json!({ "issuer": self.origin, "audience": AUDIENCE, "agentClaim": "azp" });
        let sha256 = hex::encode(Sha256::digest(CODEX.as_bytes()));
        let auth = json!({ "jwt": jwt, "tokens": [{ "agent": "codex", "sha256": sha256 }] });
        TestEnvironment::new()
            .server("work", "ledger", self.entry())
            .server("work", "fake", fake(json!({ "tools": ["echo"] })))
            .set("auth", auth)
            .set("toolMode", json!("proxy"))
            .set("autoReload", json!("all"))
    }

    fn serve(&self) -> (HttpWorkbench, HttpClient) {
        self.bench().http()
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(status: u16, body: &Value) -> Response {
    let head = [("content-type", "application/json"), ("location", "/elsewhere")];
    (StatusCode::from_u16(status).unwrap(), head, body.to_string()).into_response()
}

async fn metadata(State((books, _)): Shared) -> Response {
    let origin = books.lock().unwrap().origin.clone();
    answer(
        200,
        &json!({
            "issuer": origin,
            "jwks_uri": format!("{origin}/jwks"),
            "token_endpoint": format!("{origin}/token"),
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }),
    )
}

async fn keys(State((_, signer)): Shared) -> Response {
    answer(200, &json!({ "keys": [signer.public()] }))
}

async fn token(State((books, _)): Shared, form: String) -> Response {
    let fields: HashMap<String, String> =
        form_urlencoded::parse(form.as_bytes()).into_owned().collect();
    let mut books = books.lock().unwrap();
    books.exchanges.push(fields.clone());
    if let Some((status, body)) = &books.answer {
        let body = match body.as_str() {
            Some("echo") => {
                json!({ "access_token": fields["subject_token"], "token_type": "Bearer" })
            }
            _ => body.clone(),
        };
        return answer(*status, &body);
    }
    let claims = fields["subject_token"].split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let user = claims["sub"].as_str().unwrap();
    let number = books.exchanges.len();
    answer(
        200,
        &json!({
            "access_token": format!("exchanged-0123456789-{user}-{number}"),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 300,
        }),
    )
}

async fn no_stream() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

async fn mcp(State((books, _)): Shared, headers: HeaderMap, sent: String) -> Response {
    let sent: Value = serde_json::from_str(&sent).unwrap();
    let shown = headers.get("authorization").map(|shown| shown.to_str().unwrap().to_owned());
    let shown = shown.unwrap_or_default();
    let mut books = books.lock().unwrap();
    books.shown.push(shown.clone());
    let user = shown.strip_prefix("Bearer exchanged-0123456789-");
    let Some(user) = user.filter(|_| !books.is_closed).and_then(|user| user.split('-').next())
    else {
        let challenge = [("www-authenticate", "Bearer error=\"invalid_token\"")];
        return (StatusCode::UNAUTHORIZED, challenge).into_response();
    };
    let result = match sent["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "ledger", "version": "1" },
        }),
        "tools/list" => json!({
            "tools": [{ "name": "whoami", "inputSchema": { "type": "object" } }],
        }),
        "tools/call" => {
            json!({ "content": [{ "type": "text", "text": format!("you are {user}") }] })
        }
        _ if sent.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown method" });
            return answer(200, &json!({ "jsonrpc": "2.0", "id": sent["id"], "error": error }));
        }
    };
    answer(200, &json!({ "jsonrpc": "2.0", "id": sent["id"], "result": result }))
}

/// Calls a tool and returns its text, or the text of the error.
fn call_tool(http: HttpClient, token: &str, server: &str, tool: &str) -> String {
    let path = json!({ "toolbox": "work", "server": server, "tool": tool });
    let params = json!({ "name": "use_tool", "arguments": { "tool": path, "arguments": {} } });
    let bearer = format!("Bearer {token}");
    let headers = [("Mcp-Name", "use_tool"), ("Authorization", bearer.as_str())];
    let answer = http.modern("tools/call", params, &headers).last();
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn whoami(http: HttpClient, token: &str) -> String {
    call_tool(http, token, "ledger", "whoami")
}

/// Returns the files below a folder that contain `text`.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

// invariant: no-secrets-for-servers
#[test]
fn each_caller_reaches_the_server_as_itself() {
    let company = Company::start();
    let bench = company.bench().set("audit", json!({ "file": "audit.jsonl" }));
    let (program, http) = bench.http_with(["--log-level", "trace"]);
    let (ann, bob) = (company.token("ann", &json!({})), company.token("bob", &json!({})));
    // Both use the same agent, and take turns.
    for _ in 0..2 {
        assert_eq!(whoami(http, &ann), "you are ann");
        assert_eq!(whoami(http, &bob), "you are bob");
    }
    // A renewed token continues with the exchanged one.
    let renewed = company.token("ann", &json!({ "jti": "2" }));
    assert_eq!(whoami(http, &renewed), "you are ann");
    let books = company.books();
    assert_eq!(books.exchanges.len(), 2);
    let exchange = &books.exchanges[0];
    assert_eq!(exchange["subject_token"], ann);
    assert_eq!(exchange["resource"], format!("{}/mcp", company.origin));
    assert_eq!(exchange["client_secret"], SECRET);
    // No server sees a token of an agent, or a request without a token.
    for shown in &books.shown {
        assert!(shown.starts_with("Bearer exchanged-"), "{shown}");
    }
    drop(books);
    let log = program.0.stderr();
    drop(program);
    for secret in ["exchanged-0123456789", &ann, &bob, &renewed] {
        assert!(!log.contains(secret), "{log}");
        assert_eq!(files_with(bench.dir(), secret), [""; 0]);
    }
    let audit = fs::read_to_string(bench.path("audit.jsonl")).unwrap();
    assert!(audit.contains("whoami"), "{audit}");
}

#[test]
fn parallel_calls_of_two_callers_share_no_token() {
    let company = Company::start();
    let (_program, http) = company.serve();
    thread::scope(|scope| {
        let calls = ["ann", "bob", "ann", "bob", "ann", "bob"].map(|user| {
            let token = company.token(user, &json!({}));
            (user, scope.spawn(move || whoami(http, &token)))
        });
        for (user, called) in calls {
            assert_eq!(called.join().unwrap(), format!("you are {user}"));
        }
    });
    assert_eq!(company.books().exchanges.len(), 2);
}

// invariant: caller-owns-state
#[test]
fn session_belongs_to_the_holder_of_the_token() {
    let company = Company::start();
    let (_program, http) = company.serve();
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test-agent", "version": "1.0.0" },
    });
    let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let bearer = |user: &str, claims: Value| format!("Bearer {}", company.token(user, &claims));
    let began = http.post(&[("Authorization", &bearer("ann", json!({})))], &begin);
    let session = began.header("mcp-session-id").unwrap().to_owned();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    for (user, claims, status) in [
        ("ann", json!({ "jti": "2" }), 200),
        ("bob", json!({}), 404),
        ("ann", json!({ "scope": "admin" }), 404),
        ("ann", json!({ "act": { "sub": "robot" } }), 404),
    ] {
        let bearer = bearer(user, claims);
        let headers = [("Mcp-Session-Id", session.as_str()), ("Authorization", &bearer)];
        assert_eq!(http.post(&headers, &list).status, status, "{user}");
    }
}

#[test]
fn caller_without_a_jwt_gets_one_clear_error() {
    let company = Company::start();
    let (_program, http) = company.serve();
    insta::assert_snapshot!(whoami(http, CODEX));
    assert!(!call_tool(http, CODEX, "fake", "echo").contains("no token"));
    // A token without `sub` names no user.
    let nobody = company.token("ann", &json!({ "sub": null }));
    assert!(whoami(http, &nobody).contains("this caller has no token to exchange"));
    let books = company.books();
    assert_eq!((books.exchanges.len(), books.shown.len()), (0, 0));
}

#[test]
fn failed_exchange_is_reported_to_its_caller_only() {
    let company = Company::start();
    let (program, http) = company.serve();
    let bob = company.token("bob", &json!({}));
    assert_eq!(whoami(http, &bob), "you are bob");
    let refused = |code: &str| json!({ "error": code, "error_description": "because" });
    let huge = json!({ "access_token": "x".repeat(300_000), "token_type": "Bearer" });
    let other = json!({ "access_token": "assertion-1", "token_type": "N_A" });
    let cases = [
        ("a", 400, refused("invalid_target"), "invalid_target: because"),
        ("b", 400, refused("invalid_grant"), "invalid_grant: because"),
        ("c", 500, json!({}), "HTTP status 500"),
        ("d", 302, json!({}), "HTTP status 302"),
        ("e", 200, json!("echo"), "the caller's own token"),
        ("f", 200, huge, "returned more than 256 KiB"),
        ("g", 200, other, "no bearer token"),
        ("h", 200, json!({ "token_type": "Bearer" }), "returned no usable token"),
    ];
    for (user, status, body, said) in cases {
        company.answer(status, body);
        let token = company.token(user, &json!({}));
        let text = whoami(http, &token);
        assert!(text.contains(said), "{text}");
        assert!(!text.contains(&token) && !text.contains(SECRET), "{text}");
        // The other caller and the other server continue.
        assert_eq!(whoami(http, &bob), "you are bob");
    }
    // A new token of the caller can help.
    company.books().answer = None;
    assert_eq!(whoami(http, &company.token("c", &json!({ "jti": "2" }))), "you are c");
    for shown in &company.books().shown {
        assert!(shown.starts_with("Bearer exchanged-"), "{shown}");
    }
    assert!(!program.0.stderr().contains("eyJ"));
}

#[test]
fn expired_token_is_not_exchanged() {
    let company = Company::start();
    let (_program, http) = company.serve();
    // The workbench tolerates a clock difference, but the issuer need not.
    let expired = company.token("ann", &json!({ "exp": get_current_timestamp() - 10 }));
    let text = whoami(http, &expired);
    assert!(text.contains("the caller's token has expired"), "{text}");
    assert!(text.contains("send the next request with a new token"), "{text}");
    assert_eq!(company.books().exchanges.len(), 0);
    assert_eq!(whoami(http, &company.token("ann", &json!({}))), "you are ann");
}

// invariant: at-most-once
#[test]
fn rejected_token_is_exchanged_once_more() {
    let company = Company::start();
    let (_program, http) = company.serve();
    let ann = company.token("ann", &json!({}));
    assert_eq!(whoami(http, &ann), "you are ann");
    company.books().is_closed = true;
    for _ in 0..3 {
        let text = whoami(http, &ann);
        assert!(text.contains("the server rejected a newly exchanged token"), "{text}");
        assert!(!text.contains("auth login"), "{text}");
    }
    assert_eq!(company.books().exchanges.len(), 2);
}

// invariant: reload-is-minimal
#[test]
fn reload_applies_the_entry_and_drops_tokens_of_a_former_issuer() {
    let company = Company::start();
    let bench = company.bench();
    let (program, http) = bench.http();
    let ann = company.token("ann", &json!({}));
    assert_eq!(whoami(http, &ann), "you are ann");
    let mut entry = company.entry();
    entry["auth"]["audience"] = json!("ledger");
    bench.clone().server("work", "ledger", entry.clone()).write_config();
    program.0.wait_stderr("configuration reloaded");
    assert_eq!(whoami(http, &ann), "you are ann");
    let audience = company.books().exchanges.last().unwrap().get("audience").cloned();
    assert_eq!(audience.as_deref(), Some("ledger"));
    // Without `auth.jwt`, only that server fails.
    let sha256 = hex::encode(Sha256::digest(CODEX.as_bytes()));
    let auth = json!({ "tokens": [{ "agent": "codex", "sha256": sha256 }] });
    bench.clone().server("work", "ledger", entry).set("auth", auth).write_config();
    program.0.wait_stderr("the top-level `auth` has no `jwt`");
    let text = whoami(http, CODEX);
    assert!(text.contains("callers have no tokens to exchange"), "{text}");
    assert!(!call_tool(http, CODEX, "fake", "echo").is_empty());
}

#[test]
fn stdio_and_commands_refuse_only_that_server() {
    let company = Company::start();
    let bench = company.bench();
    let refused = bench.run(["call", "work", "ledger", "whoami"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let said = "this caller has no token to exchange";
    assert!(refused.stderr.contains(said) && refused.stderr.contains("serve --http"), "{refused}");
    let listed = bench.run(["list"]);
    assert!(listed.to_string().contains("echo"), "{listed}");
    let agent = bench.agent();
    agent.initialize();
    let called = agent.use_tool(["work", "ledger", "whoami"], json!({})).line;
    assert!(called.contains(said), "{called}");
    let called = agent.use_tool(["work", "fake", "echo"], json!({})).line;
    assert!(!called.contains(said), "{called}");
    assert_eq!(company.books().shown.len(), 0);
}

#[test]
fn real_issuer_exchanges_the_tokens_of_its_users() {
    let issuer = Authority::of(real::exchange());
    let jwt = json!({ "issuer": issuer.issuer, "audience": AUDIENCE, "agentClaim": "client_id" });
    let mut entry = json!({
        "url": issuer.mcp,
        "auth": {
            "exchange": "caller",
            "issuer": issuer.issuer,
            "clientId": "mcp-workbench",
            "clientSecret": issuer.machines["secret"],
            "audience": issuer.mcp,
        },
    });
    let bench = TestEnvironment::new()
        .server("work", "ledger", entry.clone())
        .set("auth", json!({ "jwt": jwt }))
        .set("toolMode", json!("proxy"))
        .set("autoReload", json!("all"));
    let (program, http) = bench.http();
    let login = |user: &str| {
        issuer.ask(&format!("/login?user={user}"))["token"].as_str().unwrap().to_owned()
    };
    let (ann, bob) = (login("ann"), login("bob"));
    for _ in 0..2 {
        assert_eq!(whoami(http, &ann), "you are ann");
        assert_eq!(whoami(http, &bob), "you are bob");
    }
    let counts = issuer.counts();
    assert_eq!(counts, json!({ "exchanged": 2, "refused": 0, "unauthorized": 0 }));
    // The issuer knows no such target.
    entry["auth"]["resource"] = json!("https://elsewhere.example.com/mcp");
    bench.clone().server("work", "ledger", entry).write_config();
    program.0.wait_stderr("configuration reloaded");
    let text = whoami(http, &ann);
    assert!(text.contains("invalid_target: Unknown resource"), "{text}");
    assert!(text.contains("check `resource` and `audience`"), "{text}");
}
