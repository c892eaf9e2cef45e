//! Exchanges of callers' tokens (RFC 8693).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::record::unix_now;
use mcp_workbench_settings::{GrantType, ResourceIndicator, TokenExchange};

const SECRET: &str = "secret of workbench/+%";
const AUDIENCE: &str = "https://workbench.example.com/mcp";

fn oauth(issuer: &str) -> OAuthConfig {
    OAuthConfig {
        client_id: Some("workbench".to_owned()),
        client_secret: Some(SECRET.to_owned()),
        grant: GrantType::TokenExchange(Box::new(TokenExchange {
            issuer: Url::parse(issuer).unwrap(),
            audience: None,
            key: None,
        })),
        ..OAuthConfig::default()
    }
}

/// A process whose callers get tokens for a server that trusts the issuer.
struct Exchanges {
    process: Process,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Exchanges {
    async fn new() -> Self {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.method = "client_secret_post");
        Self { process: Process::new(folder.path()), authority, folder }
    }

    fn of_with(&self, caller: &str, oauth: OAuthConfig) -> Arc<OAuthLogin> {
        let account = Some(caller.to_owned());
        let url = self.authority.url();
        let target = LoginTarget { server: "srv".to_owned(), url, account, oauth };
        self.process.logins.get_or_create(target)
    }

    fn of(&self, caller: &str) -> Arc<OAuthLogin> {
        self.of_with(caller, oauth(&self.authority.origin))
    }

    fn present(&self, caller: &str, token: &str) {
        self.present_for(caller, token, 600);
    }

    fn present_for(&self, caller: &str, token: &str, seconds: u64) {
        let audience = [AUDIENCE.to_owned()];
        self.process.logins.present_token(caller, token, unix_now() + seconds, &audience);
    }

    fn exchanges(&self) -> usize {
        self.authority.seen().tokens.len()
    }
}

fn failure(at: &OAuthLogin) -> (String, String) {
    let failure = at.exchange_failure().expect("a failed exchange");
    (failure.reason, failure.hint)
}

fn jwt(claims: &Value) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", encode("{}"), encode(&claims.to_string()), encode("signature"))
}

#[tokio::test]
async fn token_of_the_caller_is_exchanged_and_never_stored() {
    let exchanges = Exchanges::new().await;
    let at = exchanges.of("ann");
    exchanges.present("ann", "token-of-ann");
    assert_eq!(token(&at).await.as_deref(), Some("access-1"));
    assert_eq!(token(&at).await.as_deref(), Some("access-1"));
    let seen = exchanges.authority.seen();
    let url = exchanges.authority.url().to_string();
    let mut fields: Vec<_> =
        seen.tokens[0].iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.sort_unstable();
    let access_token = "urn:ietf:params:oauth:token-type:access_token";
    assert_eq!(
        fields,
        [
            ("client_id", "workbench"),
            ("client_secret", SECRET),
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", access_token),
            ("resource", &url),
            ("subject_token", "token-of-ann"),
            ("subject_token_type", access_token),
        ]
    );
    assert_eq!(exchanges.exchanges(), 1);
    assert_eq!(std::fs::read_dir(exchanges.folder.path()).unwrap().count(), 0);
    assert!(exchanges.process.learned.lock().contains(&"access-1".to_owned()));
    assert_eq!(exchanges.process.told(), ["renewed"]);
    drop(at);
    assert_eq!(exchanges.process.told(), ["secrets dropped"]);
}

#[tokio::test]
async fn configured_parameters_are_sent() {
    let exchanges = Exchanges::new().await;
    let mut oauth = oauth(&exchanges.authority.origin);
    oauth.scopes = Some(vec!["read".to_owned(), "write".to_owned()]);
    oauth.resource = ResourceIndicator::Off;
    if let GrantType::TokenExchange(exchange) = &mut oauth.grant {
        exchange.audience = Some("ledger".to_owned());
    }
    exchanges.present("ann", "token-of-ann");
    assert!(token(&exchanges.of_with("ann", oauth)).await.is_some());
    let asked = exchanges.authority.seen().tokens.remove(0);
    assert_eq!((asked["scope"].as_str(), asked["audience"].as_str()), ("read write", "ledger"));
    assert!(!asked.contains_key("resource"), "{asked:?}");
}

// invariant: token-per-server
#[tokio::test]
async fn each_caller_has_one_exchange_in_flight() {
    let exchanges = Exchanges::new().await;
    let (ann, bob) = (exchanges.of("ann"), exchanges.of("bob"));
    exchanges.present("ann", "token-of-ann");
    exchanges.present("bob", "token-of-bob");
    let (one, two, other) = tokio::join!(token(&ann), token(&ann), token(&bob));
    assert!(one.is_some() && one == two && other.is_some() && one != other);
    let seen = exchanges.authority.seen().tokens;
    let mut subjects: Vec<_> = seen.iter().map(|asked| asked["subject_token"].as_str()).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["token-of-ann", "token-of-bob"]);
}

#[tokio::test]
async fn nothing_is_exchanged_without_a_valid_token_of_the_caller() {
    let exchanges = Exchanges::new().await;
    let at = exchanges.of("ann");
    exchanges.present("bob", "token-of-bob");
    exchanges.present_for("ann", "token-of-ann", 0);
    assert!(at.is_token_required());
    assert_eq!(token(&at).await, None);
    let (reason, hint) = failure(&at);
    assert_eq!(reason, "the caller's token has expired");
    assert_eq!(hint, "send the next request with a new token");
    assert_eq!(exchanges.authority.seen().requests, 0);
    exchanges.present("ann", "token-of-ann-2");
    assert!(token(&at).await.is_some());
    assert_eq!(at.exchange_failure(), None);
}

#[tokio::test]
async fn exchanged_token_does_not_outlive_the_callers() {
    let exchanges = Exchanges::new().await;
    let at = exchanges.of("ann");
    exchanges.present_for("ann", "token-of-ann", 100);
    assert!(token(&at).await.is_some());
    let record = at.login.cached_record().unwrap();
    let token_of = record.token.as_ref().unwrap();
    assert!(token_of.expires.unwrap() <= token_of.since + 100);
    // An issuer can omit the lifetime, or issue a refresh token that nothing should use.
    exchanges.authority.set(|switches| {
        switches.granted = json!({ "expires_in": null, "refresh_token": "refresh" });
    });
    expire(&at).await;
    assert!(token(&at).await.is_some());
    let record = at.login.cached_record().unwrap();
    assert_eq!(record.refresh_token, None);
    let token_of = record.token.as_ref().unwrap();
    assert!(token_of.expires.unwrap() <= token_of.since + 100);
}

#[tokio::test]
async fn tokens_that_no_server_may_get_are_refused() {
    let own = jwt(&json!({ "sub": "ann", "aud": AUDIENCE }));
    let resigned = format!("{}x", own.clone());
    let renamed = jwt(&json!({ "sub": "ann", "aud": ["other", AUDIENCE] }));
    let narrow = jwt(&json!({ "aud": format!("{AUDIENCE}/box") }));
    let saml = "urn:ietf:params:oauth:token-type:saml2";
    for (granted, said) in [
        (json!({ "access_token": own }), "the caller's own token"),
        (json!({ "access_token": resigned }), "the caller's own token"),
        (json!({ "access_token": renamed }), "valid for the workbench itself"),
        (json!({ "access_token": narrow }), "valid for the workbench itself"),
        (json!({ "access_token": "x".repeat(17_000) }), "more than 16 KiB"),
        (json!({ "access_token": "" }), "returned no usable token"),
        (json!({ "access_token": "line\nbreak" }), "returned no usable token"),
        (json!({ "issued_token_type": saml }), "no access token but `urn:"),
        (json!({ "token_type": "N_A" }), "no bearer token"),
        (json!({ "token_type": null }), "no bearer token"),
        (json!({ "token_type": "DPoP" }), "not bearer tokens"),
        (json!({ "access_token": "x".repeat(300_000) }), "more than 256 KiB"),
    ] {
        let exchanges = Exchanges::new().await;
        let shown = granted.to_string();
        exchanges.authority.set(|switches| switches.granted = granted);
        let at = exchanges.of("ann");
        exchanges.present("ann", &own);
        assert_eq!(token(&at).await, None, "{:.80}", shown);
        let (reason, _) = failure(&at);
        assert!(reason.contains(said), "{reason}");
        assert!(!reason.contains(&own), "{reason}");
    }
    // A token for another audience, even if it begins alike, is fine.
    let exchanges = Exchanges::new().await;
    let other = jwt(&json!({ "sub": "ann", "aud": format!("{AUDIENCE}-2") }));
    let jwt_type = "urn:ietf:params:oauth:token-type:jwt";
    let granted = json!({ "access_token": other, "issued_token_type": jwt_type });
    exchanges.authority.set(|switches| switches.granted = granted);
    exchanges.present("ann", &own);
    assert_eq!(token(&exchanges.of("ann")).await, Some(other));
}

#[tokio::test]
async fn errors_of_the_issuer_have_hints_and_no_secrets() {
    for (code, hinted) in [
        ("invalid_target", "check `resource` and `audience`"),
        ("invalid_client", "check the client"),
        ("unauthorized_client", "allow the workbench's client"),
    ] {
        let exchanges = Exchanges::new().await;
        exchanges.authority.set(|switches| switches.granted = json!({ "error": code }));
        let at = exchanges.of("ann");
        exchanges.present("ann", "token-of-ann");
        assert_eq!(token(&at).await, None);
        let (reason, hint) = failure(&at);
        assert_eq!(reason, format!("the issuer exchanged no token: {code}"));
        assert!(hint.starts_with(hinted), "{hint}");
    }
    let exchanges = Exchanges::new().await;
    exchanges.authority.set(|switches| switches.repeats = true);
    let at = exchanges.of("ann");
    exchanges.present("ann", "token-of-ann");
    assert_eq!(token(&at).await, None);
    let (reason, hint) = failure(&at);
    assert!(reason.contains("invalid_grant") && hint.contains("`auth.jwt`"), "{reason} {hint}");
    assert!(!reason.contains("token-of-ann") && !reason.contains(SECRET), "{reason}");
}

#[tokio::test]
async fn failing_issuer_is_not_flooded() {
    let exchanges = Exchanges::new().await;
    exchanges.authority.set(|switches| switches.token_status = Some(503));
    let (ann, bob) = (exchanges.of("ann"), exchanges.of("bob"));
    exchanges.present("bob", "token-of-bob");
    for number in 0..20 {
        exchanges.present("ann", &format!("token-of-ann-{number}"));
        assert_eq!(token(&ann).await, None);
        assert_eq!(token(&ann).await, None);
    }
    let (reason, hint) = failure(&ann);
    assert!(reason.ends_with("returned HTTP status 503 Service Unavailable"), "{reason}");
    assert_eq!(hint, "try again later");
    // New tokens can help at first, but not again and again.
    assert_eq!(exchanges.exchanges(), 4);
    exchanges.authority.set(|switches| switches.token_status = None);
    assert!(token(&bob).await.is_some());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    assert!(token(&ann).await.is_some());
}

#[tokio::test]
async fn rejected_token_leads_to_one_more_exchange() {
    let exchanges = Exchanges::new().await;
    let at = exchanges.of("ann");
    exchanges.present("ann", "token-of-ann");
    let first = token(&at).await;
    let refused = at.on_challenge(challenge(401, "Bearer", first.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::Retry);
    let second = token(&at).await;
    assert!(second.is_some() && first != second);
    let refused = at.on_challenge(challenge(401, "Bearer", second.as_deref(), true)).await;
    assert_eq!(refused, RetryDecision::GiveUp);
    assert_eq!(failure(&at).0, "the server rejected a newly exchanged token");
    // The next calls don't lead to further exchanges.
    for _ in 0..3 {
        let refused = at.on_challenge(challenge(401, "Bearer", second.as_deref(), false)).await;
        assert_eq!(refused, RetryDecision::GiveUp);
    }
    assert_eq!(exchanges.exchanges(), 2);
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let refused = at.on_challenge(challenge(403, more, second.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::GiveUp);
    assert!(failure(&at).0.contains("denies access"), "{:?}", failure(&at));
    assert_eq!(exchanges.exchanges(), 2);
    assert!(!at.is_sign_in_required());
    at.begin(RedirectTarget::Listener).await.err().unwrap();
}

#[tokio::test]
async fn only_the_named_issuer_gets_the_callers_token() {
    let other = Authority::start().await;
    let exchanges = Exchanges::new().await;
    let endpoint = json!({ "token_endpoint": format!("{}/token", other.origin) });
    exchanges.authority.set(|switches| switches.metadata = endpoint);
    exchanges.present("ann", "token-of-ann");
    let at = exchanges.of("ann");
    assert_eq!(token(&at).await, None);
    let (reason, hint) = failure(&at);
    assert!(reason.contains("the token endpoint is at"), "{reason}");
    assert!(hint.contains("`auth.allowedOrigins`"), "{hint}");
    let mut oauth = oauth(&exchanges.authority.origin);
    oauth.allowed_origins = vec![other.origin.clone()];
    other.set(|switches| switches.method = "client_secret_post");
    assert!(token(&exchanges.of_with("ann", oauth)).await.is_some());
    // Metadata of another issuer, redirects, and no metadata.
    for switch in [
        |switches: &mut authority::Switches| switches.issuer = Some("https://other".to_owned()),
        |switches: &mut authority::Switches| switches.redirects = true,
        |switches: &mut authority::Switches| switches.is_unknown = true,
    ] {
        let exchanges = Exchanges::new().await;
        exchanges.authority.set(switch);
        exchanges.present("ann", "token-of-ann");
        let at = exchanges.of("ann");
        assert_eq!(token(&at).await, None);
        let (reason, hint) = failure(&at);
        assert!(hint.starts_with("check `issuer` in `auth`"), "{reason} {hint}");
        assert_eq!(exchanges.exchanges(), 0);
    }
}

#[tokio::test]
async fn issuer_metadata_is_fetched_once_for_all_callers() {
    let exchanges = Exchanges::new().await;
    for caller in ["ann", "bob", "eve"] {
        exchanges.present(caller, caller);
        assert!(token(&exchanges.of(caller)).await.is_some());
    }
    assert_eq!(exchanges.authority.seen().requests, 4);
}

#[tokio::test]
async fn forgotten_callers_have_no_tokens() {
    let exchanges = Exchanges::new().await;
    let at = exchanges.of("ann");
    exchanges.present("ann", "token-of-ann");
    assert!(token(&at).await.is_some());
    exchanges.process.logins.forget_callers();
    assert_eq!(at.secrets(), [SECRET]);
    assert_eq!(token(&at).await, None);
    assert_eq!(exchanges.exchanges(), 1);
}
