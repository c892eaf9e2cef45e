//! A hostile server and its authorization server, and tokens that others repeat.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::sign_in::authority::Authority;
use crate::sign_in::{bench, login, texts};
use crate::support::{TestEnvironment, fake};

/// A server that requires sign-in, and serves JSON documents by path. Its threads end with the test
/// process.
struct Hostile {
    origin: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    /// `documents` returns the documents for an origin.
    fn start(documents: impl Fn(&str) -> Vec<(&'static str, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (documents, seen) = (Arc::new(documents(&origin)), Arc::<Mutex<Vec<_>>>::default());
        let (own, place) = (Arc::clone(&seen), origin.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, documents, place) =
                    (Arc::clone(&own), Arc::clone(&documents), place.clone());
                thread::spawn(move || answer(&stream, &seen, &documents, &place));
            }
        });
        Self { origin, seen }
    }

    fn bench(&self) -> TestEnvironment {
        let entry = json!({ "url": format!("{}/mcp", self.origin) });
        TestEnvironment::new().server("dev", "hub", entry).set("toolMode", json!("proxy"))
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(
    stream: &TcpStream,
    seen: &Mutex<Vec<String>>,
    documents: &[(&'static str, Value)],
    origin: &str,
) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).unwrap_or_default() > 2 {
        head.push_str(&std::mem::take(&mut line).to_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    let _ = reader.read_exact(&mut body);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(path.clone());
    let found = documents.iter().find(|(known, _)| *known == path);
    let (status, more, body) = match found {
        Some((_, document)) => ("200 OK", String::new(), document.to_string()),
        None if path == "/mcp" => {
            let place = format!("{origin}/.well-known/oauth-protected-resource/mcp");
            let more = format!("www-authenticate: Bearer resource_metadata=\"{place}\"\r\n");
            ("401 Unauthorized", more, String::new())
        }
        None => ("404 Not Found", String::new(), String::new()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n{more}\r\n{body}"
    );
    let _ = (&*stream).write_all(answer.as_bytes());
}

fn resource(origin: &str, servers: &Value) -> (&'static str, Value) {
    let metadata = json!({ "resource": format!("{origin}/mcp"), "authorization_servers": servers });
    ("/.well-known/oauth-protected-resource/mcp", metadata)
}

#[test]
fn code_of_an_honest_authorization_server_is_not_sent_to_another() {
    let honest = Authority::start();
    let page = format!("{}/auth", honest.issuer);
    let hostile = Hostile::start(|origin| {
        let metadata = json!({
            "issuer": origin,
            "authorization_endpoint": page,
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "code_challenge_methods_supported": ["S256"],
        });
        vec![
            resource(origin, &json!([origin])),
            ("/.well-known/oauth-authorization-server", metadata),
            ("/register", json!({ "client_id": "of-the-honest-one" })),
        ]
    });
    let refused = hostile.bench().run(["auth", "login", "hub", "--no-browser"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let said = format!("the authorization endpoint is at {}", honest.issuer);
    assert!(refused.stderr.contains(&said), "{refused}");
    let hint = format!("add \"{}\" to `oauth.allowedOrigins`", honest.issuer);
    assert!(refused.stderr.contains(&hint), "{refused}");
    let seen = hostile.seen();
    assert!(!seen.iter().any(|path| path == "/register" || path == "/token"), "{seen:?}");
}

#[test]
fn thousands_of_authorization_servers_cause_few_requests() {
    let hostile = Hostile::start(|origin| {
        let servers: Value = (0..500).map(|number| format!("{origin}/tenant-{number}")).collect();
        vec![resource(origin, &servers)]
    });
    let bench = hostile.bench().set("audit", json!({ "file": "audit.jsonl" }));
    let refused = bench.run(["auth", "login", "hub", "--no-browser"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("the server led to more than 20 requests"), "{refused}");
    // One more provokes the challenge.
    assert!(hostile.seen().len() <= 21, "{:?}", hostile.seen());
    let audit = fs::read_to_string(bench.path("audit.jsonl")).unwrap();
    assert!(audit.contains(r#""quota":"discovery_requests""#), "{audit}");
}

#[test]
fn token_that_an_agent_or_server_repeats_is_redacted() {
    let authority = Authority::start();
    let script = json!({ "tools": ["note", "crash"] });
    let bench = bench(&authority)
        .server("dev", "child", fake(script))
        .set("audit", json!({ "file": "audit.jsonl", "arguments": "whole" }));
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    let agent = bench.agent();
    agent.initialize();
    let called = format!("{:?}", agent.use_tool(["dev", "hub", "read"], json!({})));
    assert!(called.contains("read by ann"), "{called}");
    let mut secrets = Vec::new();
    texts(&login(&bench), "", &mut secrets);
    assert!(secrets.len() >= 2, "{secrets:?}");
    for secret in &secrets {
        let arguments = json!({ "text": format!("the token is {secret}."), "list": [secret] });
        let _ = agent.use_tool(["dev", "child", "note"], arguments);
        let arguments = json!({ "stderr": [format!("heard {secret}")] });
        let crashed = format!("{:?}", agent.use_tool(["dev", "child", "crash"], arguments));
        assert!(!crashed.contains(secret), "{crashed}");
    }
    let log = agent.stderr();
    drop(agent);
    let audit = fs::read_to_string(bench.path("audit.jsonl")).unwrap();
    assert!(audit.contains(r#"{"text":"the token is ***.","list":["***"]}"#), "{audit}");
    for secret in &secrets {
        assert!(!audit.contains(secret) && !log.contains(secret), "{secret}");
    }
}
