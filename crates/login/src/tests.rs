//! Logins at an in-process authorization server.

mod authority;
mod exchange;
mod hostile;
mod limits;
mod machines;
mod mix_up;
mod renewing;

use std::path::Path;

use parking_lot::Mutex as SyncMutex;
use pretty_assertions::assert_eq;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;

use super::*;
use authority::Authority;

/// The logins of one process, and the events that it has reported.
struct Process {
    logins: Arc<LoginRegistry>,
    told: Arc<SyncMutex<Vec<String>>>,
    learned: Arc<SyncMutex<Vec<String>>>,
}

impl Process {
    fn new(folder: &Path) -> Self {
        let (tasks, told) = (TaskTracker::new(), Arc::<SyncMutex<Vec<String>>>::default());
        let heard = Arc::clone(&told);
        let secrets = Arc::<SyncMutex<Vec<String>>>::default();
        let learned = Arc::clone(&secrets);
        let storage = LoginStorage::Folder(folder.to_owned());
        let logins = LoginRegistry::new(storage, tasks, move |event| {
            heard.lock().push(match event {
                LoginEvent::SignedIn(_) => "signed in".to_owned(),
                LoginEvent::Renewed(_) => "renewed".to_owned(),
                LoginEvent::SignInRequired(_, why) => format!("wanted: {why}"),
                LoginEvent::SignedOut(_) => "signed out".to_owned(),
                LoginEvent::LimitReached(_, limit) => format!("limit: {limit:?}"),
                LoginEvent::SecretsLearned(_, secrets) => {
                    learned.lock().extend_from_slice(secrets);
                    return;
                }
                LoginEvent::SecretsDropped(_) => "secrets dropped".to_owned(),
            });
        });
        Self { logins, told, learned: secrets }
    }

    fn at(&self, authority: &Authority) -> Arc<OAuthLogin> {
        self.with(authority, OAuthConfig::default())
    }

    fn with(&self, authority: &Authority, oauth: OAuthConfig) -> Arc<OAuthLogin> {
        let target =
            LoginTarget { server: "srv".to_owned(), url: authority.url(), account: None, oauth };
        self.logins.get_or_create(target)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock())
    }
}

/// Opens the URL like a browser, follows redirects, and returns the last page.
async fn browse(address: &Url) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let response = client.get(address.clone()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn sign_in(at: &Arc<OAuthLogin>) -> Result<(), LoginError> {
    let pending = at.begin(RedirectTarget::Listener).await?;
    let ((), done) = tokio::join!(
        async {
            browse(pending.address()).await;
        },
        pending.done()
    );
    done
}

/// Makes the stored token expire.
async fn expire(at: &OAuthLogin) {
    let mut record = at.login.cached_record().unwrap().as_ref().clone();
    let token = record.token.as_mut().unwrap();
    (token.since, token.expires) = (token.since - 100, Some(token.since - 90));
    at.login.save(record).await;
}

async fn token(at: &OAuthLogin) -> Option<String> {
    let headers = at.authorization().await;
    headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap()["Bearer ".len()..].to_owned())
}

fn challenge(status: u16, scheme: &str, shown: Option<&str>, is_last: bool) -> Challenge {
    Challenge {
        status: StatusCode::from_u16(status).unwrap(),
        www_authenticate: vec![scheme.to_owned()],
        authorization: shown.map(|shown| HeaderValue::try_from(format!("Bearer {shown}")).unwrap()),
        is_last,
    }
}

#[tokio::test]
async fn token_is_sent_after_sign_in() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    assert_eq!(at.status().await, SignInStatus::NotAsked);
    assert_eq!(token(&at).await, None);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    let (page, done) = tokio::join!(browse(pending.address()), pending.done());
    done.unwrap();
    assert_eq!(page.0, 200);
    assert!(page.1.contains("You are signed in. You can close this window."), "{}", page.1);
    assert_eq!(token(&at).await.as_deref(), Some("access-2"));
    assert_eq!(process.told(), ["signed in"]);

    let seen = authority.seen();
    let asked = &seen.authorizations[0];
    assert_eq!(asked["scope"], "read");
    assert_eq!(asked["resource"], authority.url().as_str());
    assert_eq!(asked["code_challenge_method"], "S256");
    let registered = &seen.registrations[0];
    assert_eq!(registered["client_name"], "MCP Workbench");
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered.get("scope"), None);
    assert_eq!(registered["redirect_uris"], json!([asked["redirect_uri"]]));

    // Another process uses it without a token request.
    let other = Process::new(folder.path());
    assert_eq!(token(&other.at(&authority)).await.as_deref(), Some("access-2"));
    assert_eq!(authority.seen().tokens.len(), 1);
}

#[tokio::test]
async fn sign_in_expires_without_a_waiter() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let pending =
        Process::new(folder.path()).at(&authority).begin(RedirectTarget::Listener).await.unwrap();
    assert!(!pending.is_over());
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(301)).await;
    assert!(pending.is_over());
}

#[tokio::test]
async fn second_login_reuses_the_client_and_redirect_uri() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    sign_in(&Process::new(folder.path()).at(&authority)).await.unwrap();
    sign_in(&Process::new(folder.path()).at(&authority)).await.unwrap();
    let seen = authority.seen();
    assert_eq!(seen.registrations.len(), 1);
    let back = |index: usize| seen.authorizations[index]["redirect_uri"].clone();
    assert_eq!(back(0), back(1));
}

/// Approves the authorization request and returns the redirect URL without opening it.
async fn agreed(pending: &PendingLogin) -> String {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let agreed = client.get(pending.address().clone()).send().await.unwrap();
    agreed.headers()["location"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn pasted_callback_url_completes_the_login() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    for wrong in ["", "no address", "http://127.0.0.1:1/callback?code=c&state=of-another"] {
        pending.submit_callback_url(wrong).await.unwrap_err();
    }
    let back = agreed(&pending).await;
    pending.submit_callback_url(&format!("  {back}\n")).await.unwrap();
    pending.done().await.unwrap();
    assert!(token(&at).await.is_some());
    // The callback is accepted once.
    assert_eq!(
        pending.submit_callback_url(&back).await.unwrap_err().reason,
        "this sign-in has already ended"
    );
}

#[tokio::test]
async fn external_redirect_completes_the_login() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    let page = Url::parse("https://workbench.example.com/signed-in").unwrap();
    let pending = at.begin(RedirectTarget::External(page.clone())).await.unwrap();
    let query: HashMap<_, _> = pending.address().query_pairs().collect();
    assert!(query["redirect_uri"].starts_with(&format!("{page}/")), "{query:?}");
    let back = Url::parse(&agreed(&pending).await).unwrap();
    let mut other = back.clone();
    other.set_query(Some("code=c&state=of-another"));
    let stranger = process.logins.complete_callback(&other).await.unwrap_err();
    let target = process.logins.complete_callback(&back).await.unwrap();
    assert_eq!(&target, at.target());
    pending.done().await.unwrap();
    assert_eq!(authority.seen().registrations[0]["application_type"], "web");
    // The callback is accepted once.
    assert_eq!(
        process.logins.complete_callback(&back).await.unwrap_err().reason,
        "this sign-in has already ended"
    );
    drop(pending);
    assert_eq!(process.logins.complete_callback(&back).await.unwrap_err(), stranger);
    assert_eq!(authority.asked("authorization_code"), 1);
}

#[tokio::test]
async fn callback_page_names_the_account_and_contains_no_secret() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let own = process.at(&authority).target().clone();
    let at =
        process.logins.get_or_create(LoginTarget { account: Some("claude".to_owned()), ..own });
    let page = Url::parse("https://workbench.example.com/oauth/callback").unwrap();
    let pending = at.begin(RedirectTarget::External(page)).await.unwrap();
    let back = Url::parse(&agreed(&pending).await).unwrap();
    let good = process.logins.page_for(&back).await;
    let said = "Agent `claude` is now signed in to server `srv` with your account. You can close \
                this window.";
    assert_eq!(good.status, 200);
    assert!(good.html.contains(said), "{}", good.html);
    let again = process.logins.page_for(&back).await;
    let said = "<p>Sign-in failed: this sign-in has already ended. Hint: sign in again.</p>";
    assert_eq!(again.status, 400);
    assert!(again.html.contains(said), "{}", again.html);
    let secrets = back.query_pairs().map(|(_, value)| value.into_owned());
    for secret in secrets.filter(|secret| secret.len() > 5).chain(token(&at).await) {
        assert!(!good.html.contains(&secret) && !again.html.contains(&secret), "{secret}");
    }
}

#[tokio::test]
async fn loopback_login_rejects_an_external_callback() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let pending = process.at(&authority).begin(RedirectTarget::Listener).await.unwrap();
    let back = Url::parse(&agreed(&pending).await).unwrap();
    process.logins.complete_callback(&back).await.unwrap_err();
    assert!(!pending.is_over());
    let address = back.as_str();
    pending.submit_callback_url(address).await.unwrap();
}

#[tokio::test]
async fn authorization_parameters_are_in_the_authorization_url() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let words = [("access_type", "offline"), ("prompt", "select_account")];
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let oauth = OAuthConfig { authorization_parameters: words.to_vec(), ..OAuthConfig::default() };
    let at = Process::new(folder.path()).with(&authority, oauth);
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    for (name, value) in words {
        let said: Vec<_> =
            pending.address().query_pairs().filter(|(said, _)| *said == name).collect();
        assert_eq!(said, [(name.as_str().into(), value.as_str().into())], "{said:?}");
    }
}

// invariant: token-per-server
#[tokio::test]
async fn token_is_used_only_for_its_own_target() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let own = process.at(&authority);
    sign_in(&own).await.unwrap();
    let target = own.target().clone();
    let url = Url::parse(&format!("{}/other", authority.origin)).unwrap();
    let others = [
        LoginTarget { server: "other".to_owned(), ..target.clone() },
        LoginTarget { account: Some("ann".to_owned()), ..target.clone() },
        LoginTarget { account: Some(String::new()), ..target.clone() },
        LoginTarget { url, ..target.clone() },
    ];
    for other in others {
        let at = process.logins.get_or_create(other);
        assert_eq!(token(&at).await, None, "{:?}", at.target());
        assert_eq!(at.status().await, SignInStatus::NotAsked);
        // Not even if its record is copied there.
        let from = folder.path().join(format!("{}.json", target.key()));
        let to = folder.path().join(format!("{}.json", at.target().key()));
        std::fs::copy(from, &to).unwrap();
        assert_eq!(token(&at).await, None, "{:?}", at.target());
        std::fs::remove_file(to).unwrap();
    }
    let all = process.logins.all().await.unwrap();
    assert_eq!(all.len(), 1);
    assert!(matches!(&all[0], (at, SignInStatus::SignedIn { .. }) if *at == target));
}

#[tokio::test]
async fn other_process_sees_sign_in_and_sign_out() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let (one, other) = (Process::new(folder.path()), Process::new(folder.path()));
    let (here, there) = (one.at(&authority), other.at(&authority));
    let refused = there.on_challenge(challenge(401, "Bearer", None, false)).await;
    assert_eq!(refused, RetryDecision::AwaitSignIn);
    assert_eq!(other.told(), ["wanted: not signed in"]);
    let (signed_in, ()) = tokio::join!(sign_in(&here), async { there.wait_signed_in().await });
    signed_in.unwrap();
    let shown = token(&there).await;
    assert_eq!(shown, token(&here).await);
    assert!(here.sign_out().await.unwrap());
    assert!(!here.sign_out().await.unwrap());
    assert_eq!(one.told(), ["signed in", "signed out"]);
    assert_eq!(token(&here).await, None);
    assert_eq!(authority.seen().revoked, ["refresh-2".to_owned(), shown.clone().unwrap()]);
    // The token was revoked. The other process learns this from the server's 401.
    let refused = there.on_challenge(challenge(401, "Bearer", shown.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::AwaitSignIn);
    assert_eq!(token(&there).await, None);
}

#[tokio::test]
async fn only_a_newer_login_of_another_process_ends_the_wait() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let (one, other) = (Process::new(folder.path()), Process::new(folder.path()));
    let (here, there) = (one.at(&authority), other.at(&authority));
    for _ in 0..2 {
        let pending = there.begin(RedirectTarget::Listener).await.unwrap();
        sign_in(&here).await.unwrap();
        pending.done().await.unwrap();
        assert!(pending.is_over());
        assert_eq!(token(&there).await, token(&here).await);
    }
    let pending = there.begin(RedirectTarget::Listener).await.unwrap();
    tokio::time::pause();
    tokio::time::timeout(std::time::Duration::from_secs(30), pending.done()).await.unwrap_err();
}

#[tokio::test]
async fn records_are_private_files_with_memory_as_fallback() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let logins = folder.path().join("state").join("logins");
    sign_in(&Process::new(&logins).at(&authority)).await.unwrap();
    let files: Vec<_> =
        std::fs::read_dir(&logins).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for path in files.iter().chain([&logins]) {
        assert!(!mcp_workbench_os::can_others_read(path), "{}", path.display());
    }
    for path in files {
        // A digest, which reveals neither the server nor its address.
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    }
    // The folder can't be created below a file.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let process = Process::new(&file.join("logins"));
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    assert!(token(&at).await.is_some());
    assert!(at.sign_out().await.is_ok());
}

#[tokio::test]
async fn busy_fixed_port_fails_at_once() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let busy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = busy.local_addr().unwrap().port();
    let oauth = OAuthConfig { callback_port: Some(port), ..OAuthConfig::default() };
    let failure = process
        .with(&authority, oauth.clone())
        .begin(RedirectTarget::Listener)
        .await
        .err()
        .unwrap();
    let said = format!("cannot listen on port {port} (`oauth.callbackPort`)");
    assert!(failure.reason.starts_with(&said), "{failure}");
    assert_eq!(authority.seen().registrations.len(), 0);
    drop(busy);
    sign_in(&process.with(&authority, oauth)).await.unwrap();
    let back = format!("http://localhost:{port}/callback");
    assert_eq!(authority.seen().authorizations[0]["redirect_uri"], back);
}
