//! TLS clients: common programs, another workbench, and agents with client certificates.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use rustls::ClientConfig;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::{HttpClient, HttpWorkbench};
use crate::support::process::run_to_exit;
use crate::support::tls::{Ca, Pair, TlsConnection};
use crate::support::{TestEnvironment, command, fake};

const CLAUDE: &str = "a-token-for-claude-0123";
const BOSS: &str = "a-token-for-the-boss-89";

fn bench() -> TestEnvironment {
    let script = json!({ "tools": ["echo"] });
    TestEnvironment::new()
        .server("box", "fake", fake(script))
        .set("toolMode", json!("proxy"))
        .set("autoReload", json!("all"))
}

/// Serves with a certificate of this CA and writes the CA to `ca.crt`.
fn serve(ca: &Ca, bench: TestEnvironment) -> (TestEnvironment, HttpWorkbench, HttpClient) {
    let bench = bench.with_tls(&ca.issue("the workbench"), json!({}));
    bench.ca("ca.crt", ca);
    let (program, http) = bench.http();
    (bench, program, http)
}

#[test]
fn curl_node_and_python_connect_with_the_ca() {
    let ca = Ca::new("Test CA");
    let (bench, _program, http) = serve(&ca, bench());
    let url = format!("https://{}/health", http.0);
    let file = bench.path_text("ca.crt");
    let node = "require('https').get(process.argv[1], (r) => { r.pipe(process.stdout); \
                r.on('end', () => process.exit(0)); }).on('error', (e) => { throw e; });";
    let python = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())";
    let ask = |is_trusted: bool| -> [Command; 3] {
        let mut curl = command("curl");
        curl.args(["-sS", &url]);
        let mut in_node = command("node");
        in_node.args(["-e", node, &url]);
        let mut in_python = command("python3");
        in_python.args(["-c", python, &url]);
        if is_trusted {
            curl.args(["--cacert", &file]);
            in_node.env("NODE_EXTRA_CA_CERTS", &file);
            in_python.env("SSL_CERT_FILE", &file);
        }
        [curl, in_node, in_python]
    };
    for program in ask(true) {
        let name = format!("{program:?}");
        let output = run_to_exit(program, "");
        assert!(output.stdout.contains(r#"{"status":"alive"}"#), "{name}: {output}");
        assert_eq!(output.code, Some(0), "{name}: {output}");
    }
    for program in ask(false) {
        let name = format!("{program:?}");
        let output = run_to_exit(program, "");
        assert_ne!(output.code, Some(0), "{name}: {output}");
    }
}

#[test]
fn workbench_connects_to_another_over_tls_with_a_custom_ca() {
    let ca = Ca::new("Test CA");
    let (bench, _program, http) = serve(&ca, bench());
    let url = format!("https://{}/mcp/box", http.0);
    let client = || {
        TestEnvironment::new()
            .server("far", "other", json!({ "url": url }))
            .set("toolMode", json!("proxy"))
    };
    let agent = client().env("SSL_CERT_FILE", &bench.path_text("ca.crt")).agent();
    agent.initialize();
    let path = ["far", "other", "echo"];
    let answer = agent.use_tool(path, json!({ "text": "over TLS" }));
    assert!(answer.text().contains("over TLS"), "{answer:?}");
    let stranger = client().agent();
    stranger.initialize();
    let refused = stranger.use_tool(path, json!({ "text": "x" }));
    assert!(refused.text().contains("certificate"), "{refused:?}");
}

#[test]
fn bridge_connects_to_a_tls_service() {
    let ca = Ca::new("Test CA");
    let auth = json!({ "tokens": [entry("ann", crate::support::test_environment::TOKEN_OF_ANN)] });
    let (bench, _program, http) = serve(&ca, bench().set("auth", auth));
    let file = bench.path_text("ca.crt");
    let bench = bench.env("SSL_CERT_FILE", &file);
    bench.remember_service(http.0, env!("CARGO_BIN_EXE_mcp-workbench"));
    let file = bench.path("workbench.service.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut service: Value = serde_json::from_str(&text).unwrap();
    service["tls"] = json!(true);
    bench.write("workbench.service.json", &service.to_string());
    let agent = bench.connect("ann");
    agent.initialize();
    let answer = agent.use_tool(["box", "fake", "echo"], json!({ "text": "by the bridge" }));
    assert!(answer.text().contains("by the bridge"), "{answer:?}");
}

fn entry(agent: &str, token: &str) -> Value {
    let digest = Sha256::digest(token.as_bytes());
    let sha256 = hex::encode(digest);
    json!({ "agent": agent, "sha256": sha256 })
}

/// A workbench that accepts client certificates of the CA `agents`.
struct Known {
    bench: TestEnvironment,
    program: HttpWorkbench,
    http: HttpClient,
    own: Ca,
    agents: Ca,
}

impl Known {
    fn start(bench: TestEnvironment) -> Self {
        let (own, agents) = (Ca::new("Own CA"), Ca::new("CA of agents"));
        bench.ca("agents.crt", &agents);
        let certificate = own.issue("the workbench");
        let audit = bench.path_text("audit.jsonl");
        let bench = bench
            .set("audit", json!({ "file": audit }))
            .with_tls(&certificate, json!({ "clientCa": "agents.crt" }));
        let (program, http) = bench.http();
        Self { bench, program, http, own, agents }
    }

    fn client(&self, pair: Option<&Pair>) -> Arc<ClientConfig> {
        self.own.client(pair)
    }

    fn connect(&self, pair: Option<&Pair>) -> TlsConnection {
        TlsConnection::connect(self.http, &self.client(pair))
    }

    /// Calls a tool on a new connection. Returns the status and the error message.
    fn call(&self, pair: Option<&Pair>, token: Option<&str>) -> (u16, String) {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> =
            bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
        let answer = self.connect(pair).call("echo", json!({ "text": "x" }), &headers);
        let (status, answer) = answer.expect("an answer");
        (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
    }

    fn wait_callers(&self, agents: &[&str]) {
        wait(|| self.callers().len() >= agents.len());
        assert_eq!(self.callers(), agents);
    }

    fn callers(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.bench.path("audit.jsonl")).unwrap_or_default();
        // The last line can be incomplete.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let calls = lines.filter(|line| line["tool"] == "echo");
        calls.map(|call| call["agent"].as_str().unwrap_or("nobody").to_owned()).collect()
    }
}

#[test]
fn client_certificate_identifies_the_agent() {
    let known = Known::start(bench());
    let claude = known.agents.issue("claude");
    assert_eq!(known.call(Some(&claude), None).0, 200);
    // Without `auth` the certificate is optional, and a client without one is anonymous.
    assert_eq!(known.call(None, None).0, 200);
    let stranger = Ca::new("CA of agents").issue("claude");
    let refused = known.connect(Some(&stranger)).ask("GET /health", &[], "");
    assert!(refused.is_err(), "{refused:?}");
    known.program.0.wait_stderr("access denied: invalid client certificate");
    let old = known.agents.issue_for("claude", [2020, 2021]);
    let refused = known.connect(Some(&old)).ask("GET /health", &[], "");
    assert!(refused.is_err(), "{refused:?}");
    let nobody = known.agents.issue("a\tb");
    let (status, said) = known.call(Some(&nobody), None);
    assert_eq!((status, said.as_str()), (403, "the client certificate does not name an agent"));
    known.program.0.wait_stderr("first request of an agent agent=claude");
    known.wait_callers(&["claude", "nobody"]);
}

#[test]
fn access_rules_apply_to_certificate_agents() {
    let known = Known::start(bench().set("agentPolicies", json!({ "claude": {} })));
    assert_eq!(known.call(Some(&known.agents.issue("claude")), None).0, 200);
    let (status, said) = known.call(Some(&known.agents.issue("codex")), None);
    assert_eq!(status, 403);
    assert!(said.contains("no access rules for agent `codex`"), "{said}");
}

#[test]
fn certificate_replaces_a_token_and_must_match_it() {
    let auth = json!({ "tokens": [entry("claude", CLAUDE)], "operators": [entry("boss", BOSS)] });
    let known = Known::start(bench().set("auth", auth));
    let [claude, codex] = ["claude", "codex"].map(|name| known.agents.issue(name));
    for (pair, token, status) in [
        (Some(&claude), None, 200),
        (Some(&codex), None, 200),
        (None, Some(CLAUDE), 200),
        (Some(&claude), Some(CLAUDE), 200),
        (None, None, 401),
        (None, Some("a-token-of-nobody-012"), 401),
        // A certificate doesn't make up for an invalid token, and both must name the same agent.
        (Some(&claude), Some("a-token-of-nobody-012"), 401),
        (Some(&codex), Some(CLAUDE), 403),
    ] {
        let answered = known.call(pair, token);
        assert_eq!(answered.0, status, "{token:?}: {}", answered.1);
    }
    known.wait_callers(&["claude", "codex", "claude", "claude"]);
    let audit = || std::fs::read_to_string(known.bench.path("audit.jsonl")).unwrap();
    wait(|| audit().contains(r#""reason":"certificate""#));
}

#[test]
fn removing_a_ca_revokes_its_certificates() {
    let known = Known::start(bench());
    let claude = known.agents.issue("claude");
    let mut kept = known.connect(Some(&claude));
    assert_eq!(kept.call("echo", json!({}), &[]).expect("an answer").0, 200);
    // Adding a CA doesn't affect existing connections.
    let next = Ca::new("Next CA");
    let both = [known.agents.certificate.pem(), next.certificate.pem()].concat();
    known.bench.write("agents.crt", &both);
    let codex = next.issue("codex");
    wait(|| known.connect(Some(&codex)).ask("GET /health", &[], "").is_ok());
    assert_eq!(kept.call("echo", json!({}), &[]).expect("an answer").0, 200);
    known.bench.ca("agents.crt", &next);
    wait(|| known.connect(Some(&claude)).ask("GET /health", &[], "").is_err());
    let (status, answer) = kept.call("echo", json!({}), &[]).expect("an answer");
    assert_eq!(status, 401, "{answer}");
    assert!(kept.call("echo", json!({}), &[]).is_err(), "the connection stayed open");
    assert_eq!(known.call(Some(&codex), None).0, 200);
}

fn wait(mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + crate::support::DEADLINE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "the condition was not met in time");
        // The workbench re-reads the files a moment after they changed.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn advertised_urls_use_https() {
    let ca = Ca::new("Test CA");
    let issuer = crate::support::issuer::FakeJwtIssuer::start(&[]);
    let auth = json!({ "jwt": { "issuer": issuer.name, "audience": "x" } });
    let (_bench, _program, http) = serve(&ca, bench().set("auth", auth));
    let client = ca.client(None);
    let ask = |request: &str, headers: &[(&str, &str)]| {
        TlsConnection::connect(http, &client).ask(request, headers, "").expect("an answer")
    };
    let well_known = format!("https://{}/.well-known/oauth-protected-resource/mcp", http.0);
    let (status, head, _) = ask("POST /mcp", &[]);
    assert_eq!(status, 401);
    assert!(head.contains(&format!(r#"resource_metadata="{well_known}""#)), "{head}");
    let (status, _, text) = ask("GET /.well-known/oauth-protected-resource/mcp", &[]);
    let said: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &said["resource"]), (200, &json!(format!("https://{}/mcp", http.0))));
}

#[test]
fn only_same_origin_pages_are_allowed_over_tls() {
    let ca = Ca::new("Test CA");
    let bench = bench().with_tls(&ca.issue("one"), json!({}));
    let tls = json!({ "cert": bench.path_text("tls.crt"), "key": bench.path_text("tls.key") });
    let bench = bench.set("http", json!({ "tls": tls, "allowedHosts": ["workbench.example.com"] }));
    let (_program, http) = bench.http();
    let client = ca.client(None);
    for (origin, status) in [
        ("https://workbench.example.com", 200),
        ("http://workbench.example.com", 403),
        ("https://workbench.example.com:444", 403),
        ("https://evil.example.com", 403),
        ("null", 403),
    ] {
        let mut connection = TlsConnection::connect(http, &client);
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: workbench.example.com\r\nOrigin: {origin}\r\n\
             Connection: close\r\n\r\n"
        );
        let answer = connection.raw(&request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {answer}");
    }
}

/// Runs the commands of `docs/share.md` and serves with the files that they create.
#[test]
fn documented_commands_create_working_certificates() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/share.md"));
    let page = page.expect("the page");
    let (_, section) = page.split_once("## Encrypt with TLS").expect("the section");
    let mut blocks = section.split("```").skip(1).step_by(2);
    let shell = blocks.next().and_then(|block| block.strip_prefix("sh\n")).expect("commands");
    let config = blocks.next().and_then(|block| block.strip_prefix("jsonc\n")).expect("a file");
    let bench = bench();
    let mut made = command("sh");
    made.args(["-ec", shell]).current_dir(bench.dir());
    let output = run_to_exit(made, "");
    assert_eq!(output.code, Some(0), "{output}");
    let config: Value = serde_json::from_str(config).expect("JSON");
    let bench = bench.set("http", config["http"].clone());
    let (_program, http) = bench.http();
    let mut curl = command("curl");
    let url = format!("https://localhost:{}/health", http.0.port());
    curl.args(["-sS", "--cacert", &bench.path_text("tls/ca.crt"), &url]);
    let output = run_to_exit(curl, "");
    assert_eq!(output.stdout, r#"{"status":"alive"}"#, "{output}");
}
