use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::auth::jwks::KeySet;
use crate::auth::tests::signing::{AUDIENCE, ISSUER, Signer, config};

fn jwt(signer: &Signer, more: &Value) -> JwtValidator {
    let config = config(more);
    let keys = KeySet::read(json!({ "keys": [signer.public()] }).to_string().as_bytes()).unwrap();
    let issuer = Arc::new(Issuer::knowing(&config, keys));
    JwtValidator { config, issuer, revoked: CancellationToken::new() }
}

async fn check(signer: &Signer, claims: Value) -> Result<String, AuthError> {
    check_with(signer, &json!({}), claims).await
}

async fn check_with(signer: &Signer, more: &Value, claims: Value) -> Result<String, AuthError> {
    let agent = jwt(signer, more).validate(&signer.token(&claims), None).await;
    agent.map(|holder| holder.agent.to_string())
}

#[tokio::test]
async fn accepts_tokens_of_every_supported_algorithm() {
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256, Algorithm::PS512] {
        let signer = Signer::new(algorithm, "k1");
        assert_eq!(check(&signer, json!({})).await, Ok("claude".to_owned()), "{algorithm:?}");
        let header = Header { kid: None, typ: None, ..signer.header() };
        let token = signer.token_with(&header, &json!({}));
        assert!(jwt(&signer, &json!({})).validate(&token, None).await.is_ok());
    }
}

#[tokio::test]
async fn validates_the_registered_claims() {
    let signer = Signer::new(Algorithm::ES256, "k1");
    let now = get_current_timestamp();
    for (claims, expected) in [
        (json!({ "exp": now - 120 }), AuthError::Expired),
        (json!({ "exp": null }), AuthError::Invalid),
        (json!({ "exp": "soon" }), AuthError::Invalid),
        (json!({ "nbf": now + 120 }), AuthError::Invalid),
        (json!({ "iss": "https://other.example.com" }), AuthError::Invalid),
        (json!({ "iss": [ISSUER] }), AuthError::Invalid),
        (json!({ "iss": format!("{ISSUER}/") }), AuthError::Invalid),
        (json!({ "iss": null }), AuthError::Invalid),
        (json!({ "aud": "https://other.example.com" }), AuthError::Invalid),
        (json!({ "aud": [] }), AuthError::Invalid),
        (json!({ "aud": null }), AuthError::Invalid),
        (json!({ "aud": format!("{AUDIENCE}/desk") }), AuthError::Invalid),
        (json!({ "sub": null }), AuthError::Invalid),
        (json!({ "sub": 1 }), AuthError::Invalid),
        (json!({ "sub": "a\nb" }), AuthError::UnknownHolder),
        (json!({ "sub": " " }), AuthError::UnknownHolder),
        (json!({ "sub": " claude" }), AuthError::UnknownHolder),
        (json!({ "sub": "claude\u{2003}" }), AuthError::UnknownHolder),
        (json!({ "sub": "claude\t" }), AuthError::UnknownHolder),
        (json!({ "sub": "a".repeat(300) }), AuthError::UnknownHolder),
    ] {
        assert_eq!(check(&signer, claims.clone()).await, Err(expected), "{claims}");
    }
    for claims in [
        json!({ "aud": ["https://other.example.com", AUDIENCE] }),
        // Within the leeway of 60 s.
        json!({ "exp": now - 30, "nbf": now + 30 }),
    ] {
        assert_eq!(check(&signer, claims.clone()).await, Ok("claude".to_owned()), "{claims}");
    }
    let strict = json!({ "leewayMs": 0 });
    let late = json!({ "exp": now - 30 });
    assert_eq!(check_with(&signer, &strict, late).await, Err(AuthError::Expired));
}

#[tokio::test]
async fn a_toolbox_token_is_valid_only_for_that_toolbox() {
    let signer = Signer::new(Algorithm::EdDSA, "k1");
    let desk = format!("{AUDIENCE}/desk");
    let token = signer.token(&json!({ "aud": desk }));
    let jwt = jwt(&signer, &json!({}));
    assert!(jwt.validate(&token, Some(&desk)).await.is_ok());
    assert!(jwt.validate(&token, Some(&format!("{AUDIENCE}/git"))).await.is_err());
}

#[tokio::test]
async fn agent_claim_and_agents_map_the_token_to_an_agent() {
    let signer = Signer::new(Algorithm::ES256, "k1");
    let more = json!({ "agentClaim": "azp", "agents": { "client-1": "codex" } });
    let known = check_with(&signer, &more, json!({ "azp": "client-1" })).await;
    assert_eq!(known, Ok("codex".to_owned()));
    let other = check_with(&signer, &more, json!({ "azp": "claude" })).await;
    assert_eq!(other, Err(AuthError::UnknownHolder));
}

#[tokio::test]
async fn requires_all_scopes() {
    let signer = Signer::new(Algorithm::ES256, "k1");
    let more = json!({ "requiredScopes": ["mcp:tools", "mcp:read"] });
    for (claims, is_enough) in [
        (json!({ "scope": "other mcp:read mcp:tools" }), true),
        (json!({ "scp": ["mcp:tools", "mcp:read"] }), true),
        (json!({ "scp": "mcp:tools mcp:read" }), true),
        (json!({ "scope": "mcp:tools" }), false),
        (json!({ "scope": "mcp:tools-and mcp:read" }), false),
        (json!({ "scope": 1 }), false),
        (json!({}), false),
    ] {
        let expected =
            if is_enough { Ok("claude".to_owned()) } else { Err(AuthError::InsufficientScope) };
        assert_eq!(check_with(&signer, &more, claims.clone()).await, expected, "{claims}");
    }
}

#[tokio::test]
async fn rejects_forged_signatures_and_unknown_headers() {
    let signer = Signer::new(Algorithm::ES256, "k1");
    let jwt = jwt(&signer, &json!({}));
    let good = signer.token(&json!({}));
    let agent =
        async |token: &str| jwt.validate(token, None).await.map(|holder| holder.agent.to_string());
    assert_eq!(agent(&good).await, Ok("claude".to_owned()));
    let parts: Vec<&str> = good.split('.').collect();
    let none = "eyJhbGciOiJub25lIn0";
    let other = Signer::new(Algorithm::ES256, "k1").token(&json!({}));
    for (what, token) in [
        ("a foreign key", other.clone()),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("none", format!("{none}.{}.", parts[1])),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        (
            "the signature of another",
            format!("{}.{}.{}", parts[0], parts[1], &other[other.len() - 86..]),
        ),
        ("nothing", String::new()),
        ("dots", "...".to_owned()),
        ("another family", Signer::new(Algorithm::RS256, "k1").token(&json!({}))),
    ] {
        assert_eq!(agent(&token).await, Err(AuthError::Invalid), "{what}");
    }
    // A public key must not be accepted as an HMAC secret.
    let public = signer.public().to_string();
    let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::HS256) };
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "claude", "exp": get_current_timestamp() + 60,
    });
    let shared = encode(&header, &claims, &EncodingKey::from_secret(public.as_bytes())).unwrap();
    assert_eq!(agent(&shared).await, Err(AuthError::Invalid));
    for header in [
        Header { typ: Some("logout+jwt".to_owned()), ..signer.header() },
        Header { crit: Some(vec!["b64".to_owned()]), ..signer.header() },
    ] {
        let token = signer.token_with(&header, &json!({}));
        assert_eq!(agent(&token).await, Err(AuthError::Invalid), "{header:?}");
    }
    let access = Header { typ: Some("at+JWT".to_owned()), ..signer.header() };
    assert!(agent(&signer.token_with(&access, &json!({}))).await.is_ok());
}

#[tokio::test]
async fn rejects_algorithms_not_configured() {
    let signer = Signer::new(Algorithm::ES256, "k1");
    let more = json!({ "algorithms": ["EdDSA"] });
    assert_eq!(check_with(&signer, &more, json!({})).await, Err(AuthError::Invalid));
}

// invariant: caller-owns-state
#[tokio::test]
async fn holder_is_known_by_the_claims_that_decide_what_a_token_allows() {
    let signer = Signer::new(Algorithm::ES256, "k1");
    let subject = async |claims: Value| {
        let jwt = jwt(&signer, &json!({ "agentClaim": "azp" }));
        let holder = jwt.validate(&signer.token(&claims), None).await.unwrap();
        holder.subject.map(|subject| subject.to_string())
    };
    let claims = |name: &str, value: Value| {
        let mut claims = json!({ "sub": "ann", "azp": "claude", "scope": "read write" });
        claims[name] = value;
        claims
    };
    let ann = subject(claims("jti", json!("1"))).await.unwrap();
    assert_eq!(ann.len(), 32);
    // A renewed token has other times and IDs, and can list the same scopes in another order.
    let renewed = claims("exp", json!(get_current_timestamp() + 900));
    assert_eq!(subject(renewed).await.as_ref(), Some(&ann));
    assert_eq!(subject(claims("scope", json!("write read"))).await.as_ref(), Some(&ann));
    assert_eq!(subject(claims("sub", Value::Null)).await, None);
    for (name, value) in [
        ("sub", json!("bob")),
        ("azp", json!("cursor")),
        ("client_id", json!("cursor")),
        ("scope", json!("read")),
        ("scp", json!(["admin"])),
        ("aud", json!([AUDIENCE, "https://other.example.com"])),
        ("act", json!({ "sub": "robot" })),
    ] {
        let other = subject(claims(name, value)).await;
        assert!(other.is_some() && other.as_ref() != Some(&ann), "{name}");
    }
}
