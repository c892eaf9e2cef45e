//! Non-interactive grants, and the device grant.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use pretty_assertions::assert_eq;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::Value;

use super::*;
use mcp_workbench_settings::{GrantType, IdentityProvider};

/// Fails a request with 401, and returns the token of the retry.
async fn shown(at: &OAuthLogin) -> Option<String> {
    assert_eq!(token(at).await, None);
    assert_eq!(
        at.on_challenge(challenge(401, "Bearer scope=\"read\"", None, false)).await,
        RetryDecision::Retry
    );
    token(at).await
}

#[tokio::test]
async fn client_credentials_with_a_secret() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.method = "client_secret_basic");
    let oauth = OAuthConfig {
        client_id: Some("me".to_owned()),
        client_secret: Some("secret of me/+%".to_owned()),
        grant: GrantType::ClientCredentials,
        ..OAuthConfig::default()
    };
    let process = Process::new(folder.path());
    let at = process.with(&authority, oauth.clone());
    assert_eq!(shown(&at).await.as_deref(), Some("access-1"));
    let asked = authority.seen().tokens.remove(0);
    assert_eq!(asked["grant_type"], "client_credentials");
    assert_eq!(asked["scope"], "read");
    assert_eq!(asked["resource"], authority.url().as_str());
    // Step-up needs no user.
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let refused = at.on_challenge(challenge(403, more, Some("access-1"), false)).await;
    assert_eq!(refused, RetryDecision::Retry);
    assert_eq!(authority.seen().tokens[1]["scope"], "read write");
    // An interactive sign-in is refused.
    at.begin(RedirectTarget::Listener).await.err().unwrap();
    at.fetch_token().await.unwrap();
    assert_eq!(authority.seen().tokens.len(), 2);
    // A wrong secret has to be fixed in the configuration, and is reported.
    let oauth = OAuthConfig { client_secret: Some("wrong".to_owned()), ..oauth };
    at.sign_out().await.unwrap();
    let at = process.with(&authority, oauth);
    let refused = at.on_challenge(challenge(401, "Bearer", None, false)).await;
    assert_eq!(refused, RetryDecision::AwaitSignIn);
    let why = "no token was issued: invalid_client: because".to_owned();
    assert_eq!(at.status().await, SignInStatus::SignInRequired { why });
}

#[tokio::test]
async fn client_credentials_with_a_signed_assertion() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(key.as_ref())
    );
    let oauth = OAuthConfig {
        client_id: Some("me".to_owned()),
        grant: GrantType::PrivateKeyJwt {
            key: pem,
            algorithm: "ES256".to_owned(),
            key_id: Some("k1".to_owned()),
        },
        ..OAuthConfig::default()
    };
    let at = Process::new(folder.path()).with(&authority, oauth);
    assert!(shown(&at).await.is_some());
    let asked = authority.seen().tokens.remove(0);
    assert_eq!(asked["client_id"], "me");
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!(asked["client_assertion_type"], kind);
    let (text, signature) = asked["client_assertion"].rsplit_once('.').unwrap();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    public.verify(text.as_bytes(), &signature).unwrap();
    let parts: Vec<Value> = text
        .split('.')
        .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
        .collect();
    assert_eq!(parts[0], json!({ "alg": "ES256", "typ": "JWT", "kid": "k1" }));
    assert_eq!((&parts[1]["iss"], &parts[1]["sub"]), (&json!("me"), &json!("me")));
    assert_eq!(parts[1]["aud"], authority.origin);
}

#[tokio::test]
async fn workload_token_file_is_read_for_each_request() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let token_file = folder.path().join("token");
    let oauth = OAuthConfig {
        grant: GrantType::WorkloadJwt { token_file: token_file.clone() },
        ..OAuthConfig::default()
    };
    let process = Process::new(&folder.path().join("logins"));
    let at = process.with(&authority, oauth);
    // The file can appear later.
    let refused = at.on_challenge(challenge(401, "Bearer", None, false)).await;
    assert_eq!(refused, RetryDecision::GiveUp);
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    tokio::time::resume();
    std::fs::write(&token_file, "workload-1\n").unwrap();
    let first = shown(&at).await;
    std::fs::write(&token_file, "workload-2\n").unwrap();
    let refused = at.on_challenge(challenge(401, "Bearer", first.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::Retry);
    let asked = authority.seen().tokens;
    let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    for (asked, assertion) in asked.iter().zip(["workload-1", "workload-2"]) {
        assert_eq!((asked["grant_type"].as_str(), asked["assertion"].as_str()), (grant, assertion));
        assert!(!asked.contains_key("client_id"), "{asked:?}");
    }
}

#[tokio::test]
async fn id_token_is_exchanged_for_an_identity_assertion() {
    let (authority, company) = (Authority::start().await, Authority::start().await);
    let folder = tempfile::tempdir().unwrap();
    let provider = IdentityProvider {
        token_endpoint: Url::parse(&format!("{}/token", company.origin)).unwrap(),
        client_id: "us".to_owned(),
        client_secret: None,
        id_token: "who-i-am".to_owned(),
    };
    let oauth = OAuthConfig {
        client_id: Some("me".to_owned()),
        grant: GrantType::IdentityAssertion(Box::new(provider)),
        ..OAuthConfig::default()
    };
    let at = Process::new(folder.path()).with(&authority, oauth);
    assert!(shown(&at).await.is_some());
    let exchanged = company.seen().tokens.remove(0);
    assert_eq!(exchanged["grant_type"], "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(exchanged["requested_token_type"], "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(exchanged["audience"], authority.origin);
    assert_eq!(exchanged["resource"], authority.url().as_str());
    assert_eq!(exchanged["subject_token"], "who-i-am");
    let asked = authority.seen().tokens.remove(0);
    assert_eq!(asked["assertion"], "access-1");
    assert_eq!(asked["client_id"], "me");
}

#[tokio::test]
async fn device_grant_completes_after_approval() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    // GitHub reports errors with status 200.
    authority.set(|switches| switches.refuses_well = true);
    let oauth = OAuthConfig { grant: GrantType::DeviceCode, ..OAuthConfig::default() };
    let at = Process::new(folder.path()).with(&authority, oauth);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    assert_eq!(pending.user_code(), Some("WDJB-MJHT"));
    assert_eq!(pending.address().path(), "/activate");
    let registered = authority.seen().registrations.remove(0);
    let grants = ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"];
    assert_eq!(registered["grant_types"], json!(grants));
    // The response type `code` would need a redirect URI.
    assert_eq!(registered["response_types"], json!([]));
    assert_eq!(registered.get("redirect_uris"), None);
    let own = authority.clone();
    // Approved at the second poll.
    authority.set(|switches| {
        switches.meanwhile = Some(Arc::new(move || {
            if own.asked("urn:ietf:params:oauth:grant-type:device_code") == 1 {
                own.set(|switches| switches.has_agreed = true);
            }
        }));
    });
    pending.done().await.unwrap();
    assert!(token(&at).await.is_some());
    let SignInStatus::SignedIn { is_renewable, .. } = at.status().await else { panic!() };
    assert!(is_renewable);
}
