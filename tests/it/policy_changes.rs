//! Policies that change while agents of several names are served by one process.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::Http;
use crate::support::process::{Started, alive};
use crate::support::{Bench, fake};

const READ: &str = "the configuration was read anew: ";

/// An agent whose token is its name and some more.
fn token(agent: &str) -> String {
    format!("a-token-for-{agent}-0123")
}

fn bench(is_eager: bool, policies: Value) -> Bench {
    let bench = Bench::new();
    let tokens = ["claude", "codex"].map(|agent| {
        let digest = Sha256::digest(token(agent).as_bytes());
        let sha256 = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        json!({ "agent": agent, "sha256": sha256 })
    });
    let mut server = fake(json!({ "tools": ["pid"], "pidFile": bench.path_text("pids") }));
    server["eager"] = is_eager.into();
    bench
        .server("box", "fake", server)
        .set("toolMode", json!("direct"))
        .set("auth", json!({ "tokens": tokens }))
        .set("defaultPolicy", json!({ "allowUnknownTools": true }))
        .set("agentPolicies", policies)
}

/// What a call of the server's tool is answered.
fn call(http: Http, agent: &str) -> Value {
    let params = json!({ "name": "pid", "arguments": {} });
    let bearer = format!("Bearer {}", token(agent));
    let headers = [("Mcp-Name", "pid"), ("Authorization", bearer.as_str())];
    let answer = http.modern("tools/call", params, &headers).json();
    answer["result"]["structuredContent"]["pid"].clone()
}

#[test]
fn a_server_that_one_agent_loses_goes_on_for_the_others() {
    for is_eager in [false, true] {
        let bench = bench(is_eager, json!({}));
        let (program, http) = bench.http();
        let before = call(http, "claude");
        assert_eq!(call(http, "codex"), before, "both share it");
        let policies = json!({ "codex": { "allowedServers": [] } });
        bench.clone().set("agentPolicies", policies).write_config();
        program.0.wait_stderr(READ);
        for _ in 0..3 {
            assert_eq!(call(http, "claude"), before);
        }
        assert_eq!(call(http, "codex"), Value::Null);
        let servers = Started::read(bench.path("pids")).servers;
        assert_eq!(servers.len(), 1, "it is started once");
        assert!(alive(servers[0]));
    }
}
