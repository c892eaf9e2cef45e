use http_body_util::BodyExt;
use hyper::{Request, StatusCode};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::auth::tests::signing::{AUDIENCE, config};

fn head(path: &str) -> Parts {
    Request::get(path).header(HOST, "127.0.0.1:8000").body(()).unwrap().into_parts().0
}

fn said(path: &str, jwt: Option<&JwtConfig>, denied: AuthError) -> (StatusCode, String) {
    let head = head(path);
    let reply = ProtectedResource::of(&head, jwt).refuse(denied);
    let header = reply.headers().get(WWW_AUTHENTICATE);
    (reply.status(), header.map(|said| said.to_str().unwrap().to_owned()).unwrap_or_default())
}

#[test]
fn www_authenticate_says_how_to_get_a_token() {
    let unauthorized = |said: &str| (StatusCode::UNAUTHORIZED, said.to_owned());
    assert_eq!(
        said("/mcp", None, AuthError::Missing),
        unauthorized("Bearer realm=\"mcp-workbench\"")
    );
    assert_eq!(
        said("/mcp", None, AuthError::Invalid),
        unauthorized(
            "Bearer realm=\"mcp-workbench\", error=\"invalid_token\", \
             error_description=\"the token is invalid\""
        )
    );
    let jwt = config(&json!({ "requiredScopes": ["mcp:tools", "b"] }));
    assert_eq!(
        said("/mcp", Some(&jwt), AuthError::Missing),
        unauthorized(
            "Bearer realm=\"mcp-workbench\", scope=\"mcp:tools b\", resource_metadata=\
             \"https://workbench.example.com/.well-known/oauth-protected-resource/mcp\""
        )
    );
    let (status, text) = said("/mcp/desk", Some(&jwt), AuthError::InsufficientScope);
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(text.contains("error=\"insufficient_scope\""), "{text}");
    assert!(text.ends_with("/.well-known/oauth-protected-resource/mcp/desk\""), "{text}");
    assert_eq!(said("/mcp", Some(&jwt), AuthError::Unavailable).0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(said("/mcp", Some(&jwt), AuthError::Malformed).0, StatusCode::BAD_REQUEST);
    // A toolbox with a quote is left out of the header.
    let (_, text) = said("/mcp/a\"b", Some(&jwt), AuthError::Missing);
    assert!(text.ends_with("/.well-known/oauth-protected-resource/mcp\""), "{text}");
}

#[test]
fn the_resource_defaults_to_the_request_host() {
    let jwt = config(&json!({ "audience": "workbench" }));
    let (_, text) = said("/mcp", Some(&jwt), AuthError::Missing);
    let expected = "http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp";
    assert!(text.ends_with(&format!("resource_metadata=\"{expected}\"")), "{text}");
}

async fn known(path: &str, jwt: &JwtConfig) -> Option<Value> {
    let reply = metadata(&head(&format!("{WELL_KNOWN}{path}")), jwt)?;
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    Some(serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn metadata_names_the_issuer_and_the_resource() {
    let jwt = config(&json!({ "requiredScopes": ["mcp:tools"] }));
    let expected = json!({
        "resource": AUDIENCE,
        "authorization_servers": ["https://auth.example.com"],
        "scopes_supported": ["mcp:tools"],
        "bearer_methods_supported": ["header"],
        "resource_name": "MCP Workbench",
    });
    assert_eq!(known("", &jwt).await, Some(expected.clone()));
    assert_eq!(known("/mcp", &jwt).await, Some(expected.clone()));
    assert_eq!(known("/mcp/", &jwt).await, Some(expected));
    let desk = known("/mcp/desk", &jwt).await.unwrap();
    assert_eq!(desk["resource"], format!("{AUDIENCE}/desk"));
    for path in ["/other", "/mcpx", "/mcp/a/b"] {
        assert_eq!(known(path, &jwt).await, None, "{path}");
    }
    let behind = config(&json!({ "resource": "https://example.com/work/mcp" }));
    let desk = known("/work/mcp/desk", &behind).await.unwrap();
    assert_eq!(desk["resource"], "https://example.com/work/mcp/desk");
}
