//! Tests of importing OAuth settings from clients' files.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::import_formats::{import, servers};

#[test]
fn codex_oauth_resource_and_scopes_are_imported() {
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
