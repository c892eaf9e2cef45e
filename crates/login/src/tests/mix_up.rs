//! Authorization servers that pose as another one (RFC 9700 §4.4).

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;

const ENDPOINTS: [&str; 4] =
    ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"];

/// The same server under another origin.
fn elsewhere(authority: &Authority) -> String {
    authority.origin.replace("127.0.0.1", "localhost")
}

/// Moves endpoints to the other origin.
fn move_endpoints(authority: &Authority, names: &[&str]) {
    let other = elsewhere(authority);
    authority.set(|switches| {
        switches.metadata = names
            .iter()
            .map(|name| {
                let path = match *name {
                    "authorization_endpoint" => "authorize",
                    "token_endpoint" => "token",
                    "registration_endpoint" => "register",
                    "revocation_endpoint" => "revoke",
                    _ => "device",
                };
                ((*name).to_owned(), json!(format!("{other}/{path}")))
            })
            .collect();
    });
}

#[tokio::test]
async fn endpoints_of_another_origin_are_refused_unless_the_entry_allows_it() {
    for endpoint in ENDPOINTS {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        let process = Process::new(folder.path());
        move_endpoints(&authority, &[endpoint]);
        let failure = sign_in(&process.at(&authority)).await.unwrap_err();
        let name = endpoint.replace('_', " ");
        let (other, issuer) = (elsewhere(&authority), &authority.origin);
        let said = format!(
            "its authorization server cannot be trusted: the {name} is at {other}, but the issuer \
             is {issuer}"
        );
        assert_eq!(failure.reason, said);
        let hint = format!(
            "if both belong to the same operator, add \"{other}\" to `oauth.allowedOrigins` in \
             the server's entry"
        );
        assert_eq!(failure.hint, hint);
        let seen = authority.seen();
        assert_eq!((seen.registrations.len(), seen.tokens.len()), (0, 0));
        let oauth = OAuthConfig { allowed_origins: vec![other], ..OAuthConfig::default() };
        sign_in(&process.with(&authority, oauth)).await.unwrap();
    }
}

#[tokio::test]
async fn all_endpoints_can_be_on_one_origin_besides_the_issuer() {
    // As with Slack and Amazon Cognito.
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    move_endpoints(&authority, &[&ENDPOINTS[..], &["device_authorization_endpoint"]].concat());
    sign_in(&Process::new(folder.path()).at(&authority)).await.unwrap();
}

#[tokio::test]
async fn endpoints_that_the_login_does_not_use_are_ignored() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    move_endpoints(&authority, &["registration_endpoint", "device_authorization_endpoint"]);
    let oauth = OAuthConfig { client_id: Some("by-hand".to_owned()), ..OAuthConfig::default() };
    sign_in(&Process::new(folder.path()).with(&authority, oauth)).await.unwrap();
}

#[tokio::test]
async fn metadata_that_the_user_chose_can_name_any_origin() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    move_endpoints(&authority, &["token_endpoint"]);
    let url = format!("{}/.well-known/oauth-authorization-server", authority.origin);
    let metadata_url = Some(Url::parse(&url).unwrap());
    let oauth = OAuthConfig { metadata_url, ..OAuthConfig::default() };
    sign_in(&Process::new(folder.path()).with(&authority, oauth)).await.unwrap();
}

#[tokio::test]
async fn device_code_is_not_sent_to_another_origin() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    move_endpoints(&authority, &["device_authorization_endpoint"]);
    let grant = mcp_workbench_settings::GrantType::DeviceCode;
    let oauth = OAuthConfig { grant, ..OAuthConfig::default() };
    let at = Process::new(folder.path()).with(&authority, oauth);
    let failure = at.begin(RedirectTarget::Listener).await.err().unwrap();
    assert!(failure.reason.contains("the device endpoint is at"), "{failure}");
}

fn redirect_uri(pending: &PendingLogin) -> Url {
    let query: HashMap<_, _> = pending.address().query_pairs().collect();
    Url::parse(&query["redirect_uri"]).unwrap()
}

#[tokio::test]
async fn each_issuer_has_its_own_redirect_uri() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    let external = Url::parse("https://tools.example.com/oauth/callback").unwrap();
    let both = || [RedirectTarget::Listener, RedirectTarget::External(external.clone())];
    let mut found = Vec::new();
    for issuer in [authority.origin.clone(), elsewhere(&authority)] {
        authority.set(|switches| {
            switches.named = Some(issuer.clone());
            switches.issuer = Some(issuer.clone());
            switches.iss = None;
            switches.says_iss = false;
        });
        for back in both() {
            let uri = redirect_uri(&at.begin(back).await.unwrap());
            assert_eq!(
                authority.seen().registrations.pop().unwrap()["redirect_uris"][0],
                uri.as_str()
            );
            found.push(uri.path().to_owned());
        }
    }
    let segment = |path: &str| path.rsplit_once("/callback/").unwrap().1.to_owned();
    let segments: Vec<_> = found.iter().map(|path| segment(path)).collect();
    assert_eq!((&segments[0], &segments[2]), (&segments[1], &segments[3]));
    assert_ne!(segments[0], segments[2]);
    assert_eq!(segments[0].len(), 16);
}

#[tokio::test]
async fn response_at_the_redirect_uri_of_another_issuer_is_refused() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| {
        switches.iss = None;
        switches.says_iss = false;
    });
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    let back = Url::parse(&agreed(&pending).await).unwrap();
    let mut wrong = back.clone();
    for path in ["/callback", "/callback/0123456789abcdef"] {
        wrong.set_path(path);
        assert_eq!(browse(&wrong).await.0, 404);
        pending.submit_callback_url(wrong.as_str()).await.unwrap_err();
    }
    let external = Url::parse("https://tools.example.com/oauth/callback").unwrap();
    let hosted = at.begin(RedirectTarget::External(external)).await.unwrap();
    let hosted_back = Url::parse(&agreed(&hosted).await).unwrap();
    for path in ["/oauth/callback", "/oauth/callback/0123456789abcdef", "/"] {
        wrong.clone_from(&hosted_back);
        wrong.set_path(path);
        process.logins.complete_callback(&wrong).await.unwrap_err();
    }
    assert_eq!(authority.seen().tokens.len(), 0, "the code was sent");
    process.logins.complete_callback(&hosted_back).await.unwrap();
}

#[tokio::test]
async fn redirect_uris_that_are_registered_already_stay_plain() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let plain = Url::parse("https://tools.example.com/oauth/callback").unwrap();
    // By the user.
    let client_id = Some("by-hand".to_owned());
    let by_hand = OAuthConfig { client_id, ..OAuthConfig::default() };
    let own = OAuthConfig { redirect_uri: Some(plain.clone()), ..OAuthConfig::default() };
    for oauth in [by_hand.clone(), own] {
        let at = process.with(&authority, oauth);
        let pending = at.begin(RedirectTarget::External(plain.clone())).await.unwrap();
        assert_eq!(redirect_uri(&pending), plain);
    }
    let pending = process.with(&authority, by_hand).begin(RedirectTarget::Listener).await.unwrap();
    assert_eq!(redirect_uri(&pending).path(), "/callback");
    drop(pending);
    // By an earlier version.
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let registered = authority.seen().registrations.len();
    let mut record = at.login.cached_record().unwrap().as_ref().clone();
    let mut earlier = record.client.redirect_uri.clone().unwrap();
    earlier.set_path("/callback");
    record.client.redirect_uri = Some(earlier.clone());
    at.login.save(record).await;
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    assert_eq!(redirect_uri(&pending), earlier);
    assert_eq!(authority.seen().registrations.len(), registered);
}

#[tokio::test]
async fn stored_login_is_renewed_at_its_token_endpoint() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    // As an earlier version accepted it.
    let mut record = at.login.cached_record().unwrap().as_ref().clone();
    record.authority.token_endpoint =
        Url::parse(&format!("{}/token", elsewhere(&authority))).unwrap();
    at.login.save(record).await;
    expire(&at).await;
    assert!(token(&at).await.is_some());
    assert_eq!(authority.asked("refresh_token"), 1);
    assert_ne!(authority.seen().tokens.len(), 0);
    let _: Value = authority.seen().registrations.remove(0);
}
