//! Redirect URIs from the public URL.

use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn served(public: Option<&str>, resource: Option<&str>) -> Config {
    let mut file = json!({ "mcpServers": { "box": { "command": "box" } }, "http": {}, "auth": { "jwt": {
        "issuer": "https://auth.example.com", "audience": "workbench",
    } } });
    if let Some(public) = public {
        file["http"]["publicUrl"] = json!(public);
    }
    if let Some(resource) = resource {
        file["auth"]["jwt"]["resource"] = json!(resource);
    }
    let (text, env) = (file.to_string(), BTreeMap::new());
    mcp_workbench_config::parse(&text, Path::new("x.json"), Path::new("/"), &env).unwrap().config
}

#[test]
fn callback_url_follows_the_public_url_or_resource() {
    let at = "https://tools.example.com";
    for (public, resource, expected) in [
        (None, None, None),
        (Some(at), None, Some("https://tools.example.com/oauth/callback")),
        (
            Some("https://a.example.com/mcp-tools/"),
            None,
            Some("https://a.example.com/mcp-tools/oauth/callback"),
        ),
        (Some("http://localhost:8000"), None, Some("http://localhost:8000/oauth/callback")),
        (
            Some(at),
            Some("https://other.example.com/mcp"),
            Some("https://tools.example.com/oauth/callback"),
        ),
        (
            None,
            Some("https://tools.example.com/mcp"),
            Some("https://tools.example.com/oauth/callback"),
        ),
        (
            None,
            Some("https://a.example.com/x/mcp/"),
            Some("https://a.example.com/x/oauth/callback"),
        ),
        // Not an MCP endpoint, and not HTTPS: the code could be intercepted.
        (None, Some("https://tools.example.com/api"), None),
        (None, Some("http://tools.example.com/mcp"), None),
    ] {
        let found = callback(&served(public, resource));
        assert_eq!(found.as_ref().map(Url::as_str), expected, "{public:?} {resource:?}");
    }
}
