//! Misbehaving servers and authorization servers.

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;

async fn failure(at: &Arc<OAuthLogin>) -> String {
    sign_in(at).await.unwrap_err().reason
}

#[tokio::test]
async fn response_with_a_wrong_issuer_is_rejected() {
    let other = "the response came from another authorization server";
    let unsaid = "the response does not name its authorization server (`iss`)";
    let cases: [(Option<&str>, bool, &str); 3] = [
        (Some("https://evil.example.com"), true, other),
        (Some("https://evil.example.com"), false, other),
        (None, true, unsaid),
    ];
    for (iss, says_iss, expected) in cases {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| {
            switches.iss = iss.map(str::to_owned);
            switches.says_iss = says_iss;
        });
        let at = Process::new(folder.path()).at(&authority);
        assert_eq!(failure(&at).await, expected);
        assert_eq!(authority.seen().tokens.len(), 0, "the code was sent");
        // Errors from another issuer are rejected, too.
        authority.set(|switches| switches.error = Some("access_denied"));
        assert_eq!(failure(&at).await, expected);
    }
}

#[tokio::test]
async fn wrong_state_does_not_end_the_login() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.state = Some("of-another".to_owned()));
    let at = Process::new(folder.path()).at(&authority);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    let (status, page) = browse(pending.address()).await;
    assert_eq!(status, 400);
    assert!(page.contains("no pending sign-in"), "{page}");
    let query: HashMap<_, _> = pending.address().query_pairs().collect();
    let mut elsewhere = Url::parse(&query["redirect_uri"]).unwrap();
    elsewhere.set_path("/elsewhere");
    assert_eq!(browse(&elsewhere).await.0, 404);
    authority.set(|switches| switches.state = None);
    let ((status, _), done) = tokio::join!(browse(pending.address()), pending.done());
    done.unwrap();
    assert_eq!(status, 200);
}

#[tokio::test]
async fn declining_is_reported() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.error = Some("access_denied"));
    let at = Process::new(folder.path()).at(&authority);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    let ((status, page), done) = tokio::join!(browse(pending.address()), pending.done());
    assert_eq!(done.unwrap_err().reason, "access denied");
    assert_eq!(status, 400);
    assert!(page.contains("access denied"), "{page}");
}

#[tokio::test]
async fn missing_pkce_support_needs_an_opt_in() {
    for (methods, strict, lax) in [
        (Value::Null, false, true),
        (json!(["plain"]), false, false),
        (json!(["plain", "S256"]), true, true),
    ] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.pkce = methods.clone());
        let process = Process::new(folder.path());
        assert_eq!(sign_in(&process.at(&authority)).await.is_ok(), strict, "{methods}");
        let oauth = OAuthConfig { allows_no_pkce: true, ..OAuthConfig::default() };
        assert_eq!(sign_in(&process.with(&authority, oauth)).await.is_ok(), lax, "{methods}");
    }
}

#[tokio::test]
async fn resource_parameter_can_be_disabled() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.refuses_resource = true);
    let process = Process::new(folder.path());
    let said = failure(&process.at(&authority)).await;
    assert_eq!(said, "no token was issued: invalid_target: because");
    let oauth = OAuthConfig {
        resource: mcp_workbench_settings::ResourceIndicator::Off,
        ..OAuthConfig::default()
    };
    let at = process.with(&authority, oauth);
    sign_in(&at).await.unwrap();
    expire(&at).await;
    authority.set(|switches| switches.lifetime = 60);
    assert!(token(&at).await.is_some());
    let last = authority.seen().authorizations.pop().unwrap();
    assert!(!last.contains_key("resource"), "{last:?}");
}

#[tokio::test]
async fn forbidden_authorization_server_urls_fail_discovery() {
    for named in ["http://169.254.169.254/", "http://as.example.com", "ftp://127.0.0.1"] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.named = Some(named.to_owned()));
        let said = failure(&Process::new(folder.path()).at(&authority)).await;
        assert!(said.starts_with("OAuth discovery failed: "), "{said}");
    }
}

#[tokio::test]
async fn server_without_metadata_uses_the_default_endpoints() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| {
        switches.is_old = true;
        switches.iss = None;
    });
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    let asked = authority.seen().authorizations.remove(0);
    assert_eq!(asked["code_challenge_method"], "S256");
    assert!(token(&at).await.is_some());
}

#[tokio::test]
async fn client_is_used_only_at_its_own_authorization_server() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let by_hand = OAuthConfig { client_id: Some("by-hand".to_owned()), ..OAuthConfig::default() };
    let (own, at) = (process.at(&authority), process.with(&authority, by_hand));
    sign_in(&own).await.unwrap();
    // Name the same server as another authorization server.
    let port = authority.url().port().unwrap();
    let other = format!("http://localhost:{port}");
    let move_to = |to: &str| {
        let to = to.to_owned();
        authority.set(|switches| {
            switches.named = Some(to.clone());
            switches.issuer = Some(to.clone());
            switches.iss = Some(to);
        });
    };
    move_to(&other);
    sign_in(&own).await.unwrap();
    assert_eq!(authority.seen().registrations.len(), 2);
    // A preregistered client isn't sent to it.
    own.sign_out().await.unwrap();
    sign_in(&at).await.unwrap();
    move_to(&authority.origin.clone());
    let said = failure(&at).await;
    assert!(
        said.starts_with("the server now names another authorization server: http://127"),
        "{said}"
    );
    assert_eq!(authority.seen().registrations.len(), 2);
    at.sign_out().await.unwrap();
    sign_in(&at).await.unwrap();
}

#[tokio::test]
async fn token_that_fits_no_header_is_no_sign_in() {
    for unusable in ["a\r\nX-Other: b", "a\nb", "a\0b", ""] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.granted = json!({ "access_token": unusable }));
        let at = Process::new(folder.path()).at(&authority);
        let said = failure(&at).await;
        assert!(said.contains("returned no usable token"), "{said}");
        assert!(!matches!(at.status().await, SignInStatus::SignedIn { .. }));
    }
}

#[tokio::test]
async fn secrets_that_an_authorization_server_repeats_are_redacted() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.repeats = true);
    let at = Process::new(folder.path()).at(&authority);
    let said = failure(&at).await;
    let sent = authority.seen().tokens.pop().unwrap();
    assert!(said.contains("code=***") && said.contains("code_verifier=***"), "{said}");
    for field in ["code", "code_verifier"] {
        assert!(!said.contains(&sent[field]), "{field} in {said}");
    }
}
