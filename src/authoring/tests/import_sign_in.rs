//! Keys about signing in at servers, in the files of clients.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::import_formats::{import, servers};

#[test]
fn the_resource_and_the_scopes_of_codex_are_taken_over() {
    let plan = import(
        "~/.codex/config.toml",
        r#"
[mcp_servers.account]
url = "https://account.example.com/mcp"
oauth_resource = "https://account.example.com/"
scopes = ["read", "offline_access"]
[mcp_servers.plain]
url = "https://plain.example.com/mcp"
"#,
    );
    assert_eq!(
        servers(&plan),
        json!({
            "account": {
                "url": "https://account.example.com/mcp",
                "oauth": {
                    "scopes": ["read", "offline_access"],
                    "resource": "https://account.example.com/",
                },
            },
            "plain": { "url": "https://plain.example.com/mcp" },
        })
    );
    let said: Vec<_> = plan.findings.iter().map(|finding| &*finding.message).collect();
    assert!(!said.iter().any(|said| said.contains("oauth") || said.contains("scopes")), "{said:?}");
}
