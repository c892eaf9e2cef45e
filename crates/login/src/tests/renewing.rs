//! Token renewal: concurrency, failures and step-up.

use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;
use crate::record::LoginRecord;
use crate::store::{LoginStore, MemoryStore, RecordLockGuard};

const INVALID: &str = "Bearer error=\"invalid_token\"";

// invariant: token-per-server
#[tokio::test]
async fn concurrent_renewals_are_single_flight() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let (one, other) = (Process::new(folder.path()), Process::new(folder.path()));
    let first = one.at(&authority);
    sign_in(&first).await.unwrap();
    expire(&first).await;
    authority.set(|switches| switches.lifetime = 3600);
    // Two processes with 25 callers each.
    let mut callers = tokio::task::JoinSet::new();
    for process in [&one, &other] {
        let at = process.at(&authority);
        for _ in 0..25 {
            let at = Arc::clone(&at);
            callers.spawn(async move { token(&at).await });
        }
    }
    let tokens = callers.join_all().await;
    assert_eq!(tokens, vec![Some("access-3".to_owned()); 50]);
    assert_eq!(authority.asked("refresh_token"), 1);
    assert_eq!(authority.seen().refused, 0);
}

#[tokio::test]
async fn token_with_zero_lifetime_is_used_until_rejected() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.lifetime = 0);
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    for _ in 0..20 {
        assert_eq!(token(&at).await.as_deref(), Some("access-2"));
    }
    let refused = at.on_challenge(challenge(401, INVALID, Some("access-2"), false)).await;
    assert_eq!(refused, RetryDecision::Retry);
    for _ in 0..20 {
        assert_eq!(token(&at).await.as_deref(), Some("access-3"));
    }
    assert_eq!(authority.asked("refresh_token"), 1);
    assert!(matches!(at.status().await, SignInStatus::SignedIn { expires: None, .. }));
}

#[tokio::test]
async fn rejected_token_is_renewed_once_then_requires_a_sign_in() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let first = token(&at).await.unwrap();
    assert_eq!(
        at.on_challenge(challenge(401, INVALID, Some(&first), false)).await,
        RetryDecision::Retry
    );
    let second = token(&at).await.unwrap();
    assert_ne!(first, second);
    // A late challenge for the old token causes no second renewal.
    assert_eq!(
        at.on_challenge(challenge(401, INVALID, Some(&first), false)).await,
        RetryDecision::Retry
    );
    assert_eq!(authority.asked("refresh_token"), 1);
    assert_eq!(
        at.on_challenge(challenge(401, INVALID, Some(&second), true)).await,
        RetryDecision::AwaitSignIn
    );
    assert_eq!(authority.asked("refresh_token"), 1);
    let why = "the server rejected a newly issued token".to_owned();
    assert_eq!(at.status().await, SignInStatus::SignInRequired { why });
    for secret in [first, second] {
        assert!(at.secrets().contains(&secret));
    }
    sign_in(&at).await.unwrap();
    assert!(matches!(at.status().await, SignInStatus::SignedIn { .. }));
}

#[tokio::test]
async fn client_with_a_secret_renews_after_a_restart() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.method = method);
        let before = Process::new(folder.path()).at(&authority);
        sign_in(&before).await.unwrap();
        expire(&before).await;
        authority.set(|switches| switches.lifetime = 60);
        let shown = token(&Process::new(folder.path()).at(&authority)).await;
        assert_eq!(shown.as_deref(), Some("access-3"), "{method}");
        // The discovered resource is requested again.
        let last = authority.seen().tokens.pop().unwrap();
        assert_eq!(last["resource"], authority.url().as_str());
    }
}

#[tokio::test]
async fn configured_client_secret_is_not_stored_and_can_change() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.method = "client_secret_post");
    let process = Process::new(folder.path());
    let with = |secret: &str| {
        let oauth = OAuthConfig {
            client_id: Some("me".to_owned()),
            client_secret: Some(secret.to_owned()),
            ..OAuthConfig::default()
        };
        process.with(&authority, oauth)
    };
    let at = with("secret of me/+%");
    sign_in(&at).await.unwrap();
    expire(&at).await;
    let path = folder.path().join(format!("{}.json", at.target().key()));
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept.contains("access-2") && !kept.contains("secret of me"), "{kept}");
    let wrong = with("another");
    authority.set(|switches| switches.lifetime = 60);
    assert_eq!(token(&wrong).await, None);
    assert_eq!(
        wrong.on_challenge(challenge(401, INVALID, None, false)).await,
        RetryDecision::AwaitSignIn
    );
    assert_eq!(authority.seen().refused, 1, "all callers share one request");
    assert_eq!(token(&with("secret of me/+%")).await.as_deref(), Some("access-3"));
    let other = OAuthConfig { client_id: Some("you".to_owned()), ..OAuthConfig::default() };
    let other = process.with(&authority, other);
    let shown = token(&other).await;
    assert_eq!(
        other.on_challenge(challenge(401, INVALID, shown.as_deref(), false)).await,
        RetryDecision::AwaitSignIn
    );
    let why = "the entry names another client than the login".to_owned();
    assert_eq!(other.status().await, SignInStatus::SignInRequired { why });
}

#[tokio::test]
async fn unavailable_authorization_server_does_not_end_the_login() {
    for status in [429, 500, 503] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        let process = Process::new(folder.path());
        let at = process.at(&authority);
        sign_in(&at).await.unwrap();
        expire(&at).await;
        authority.set(|switches| switches.token_status = Some(status));
        assert_eq!(token(&at).await, None);
        // The backoff covers all callers.
        assert_eq!(token(&at).await, None);
        assert_eq!(authority.asked("refresh_token"), 1);
        let refused = at.on_challenge(challenge(401, INVALID, None, false)).await;
        assert_eq!(refused, RetryDecision::GiveUp, "a sign-in would not help");
        assert_eq!(process.told(), ["signed in"]);
        authority.set(|switches| {
            switches.token_status = None;
            switches.lifetime = 3600;
        });
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(6)).await;
        tokio::time::resume();
        assert!(token(&at).await.is_some());
    }
}

#[tokio::test]
async fn revoked_login_requires_a_sign_in() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    authority.revoke_all();
    let shown = token(&at).await;
    let refused = at.on_challenge(challenge(401, INVALID, shown.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::AwaitSignIn);
    let why = "the authorization server rejected the refresh token";
    assert_eq!(at.status().await, SignInStatus::SignInRequired { why: why.to_owned() });
    assert_eq!(process.told(), ["signed in".to_owned(), format!("wanted: {why}")]);
    // The rejection is stored, so another process reports it without a request.
    let other = Process::new(folder.path()).at(&authority);
    let why = "the server rejected the token".to_owned();
    assert_eq!(other.status().await, SignInStatus::SignInRequired { why });
    // The refresh token isn't used a second time.
    assert_eq!(
        at.on_challenge(challenge(401, INVALID, shown.as_deref(), false)).await,
        RetryDecision::AwaitSignIn
    );
    assert_eq!(authority.asked("refresh_token"), 1);
    sign_in(&at).await.unwrap();
    assert!(matches!(at.status().await, SignInStatus::SignedIn { .. }));
    assert_eq!(authority.seen().registrations.len(), 1);
}

#[tokio::test]
async fn invalid_grant_does_not_overwrite_a_newer_record() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    let shown = token(&at).await;
    // A writer that ignores locks stores a newer login during the token request.
    let path = folder.path().join(format!("{}.json", at.target().key()));
    let mut newer = LoginRecord::decode(&std::fs::read(&path).unwrap()).unwrap();
    newer.refresh_token = Some("refresh-of-another".to_owned());
    newer.token.as_mut().unwrap().value = "access-of-another".to_owned();
    let newer = newer.encode().unwrap();
    let (file, text) = (path.clone(), newer.clone());
    authority.set(|switches| {
        switches.meanwhile = Some(Arc::new(move || std::fs::write(&file, &text).unwrap()));
    });
    authority.revoke_all();
    let refused = at.on_challenge(challenge(401, INVALID, shown.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::Retry);
    assert_eq!(std::fs::read(&path).unwrap(), newer);
    assert_eq!(token(&at).await.as_deref(), Some("access-of-another"));
}

#[tokio::test]
async fn step_up_requests_all_scopes_even_after_a_restart() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    let shown = token(&at).await;
    let scheme = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let refused = at.on_challenge(challenge(403, scheme, shown.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::AwaitSignIn);
    // The token stays valid for the granted scopes.
    assert_eq!(token(&at).await, shown);

    let process = Process::new(folder.path());
    let at = process.at(&authority);
    let why = "additional scopes required: read write".to_owned();
    assert_eq!(at.status().await, SignInStatus::SignInRequired { why });
    sign_in(&at).await.unwrap();
    assert_eq!(authority.seen().authorizations[1]["scope"], "read write");
    assert_eq!(authority.seen().registrations.len(), 1);
    let SignInStatus::SignedIn { scopes, .. } = at.status().await else { panic!() };
    assert_eq!(scopes, ["read", "write"]);

    // Repeated demands for the same scopes are given up.
    let mut answers = Vec::new();
    for _ in 0..4 {
        let shown = token(&at).await;
        answers.push(at.on_challenge(challenge(403, scheme, shown.as_deref(), false)).await);
    }
    assert_eq!(
        answers,
        [
            RetryDecision::AwaitSignIn,
            RetryDecision::AwaitSignIn,
            RetryDecision::AwaitSignIn,
            RetryDecision::GiveUp
        ]
    );
    // A 403 without `insufficient_scope` is final.
    let refused = at.on_challenge(challenge(403, "Bearer", shown.as_deref(), false)).await;
    assert_eq!(refused, RetryDecision::GiveUp);
}

/// A store that can pause in `save`.
struct Slow {
    memory: MemoryStore,
    waits: std::sync::atomic::AtomicBool,
    saving: std::sync::Barrier,
}

impl LoginStore for Slow {
    fn load(&self, key: &str) -> std::io::Result<Option<Vec<u8>>> {
        self.memory.load(key)
    }

    fn save(&self, key: &str, record: &[u8]) -> std::io::Result<()> {
        if self.waits.load(std::sync::atomic::Ordering::SeqCst) {
            // The first rendezvous reports the call, the second one releases it.
            self.saving.wait();
            self.saving.wait();
        }
        self.memory.save(key, record)
    }

    fn remove(&self, key: &str) -> std::io::Result<bool> {
        self.memory.remove(key)
    }

    fn all(&self) -> std::io::Result<Vec<Vec<u8>>> {
        self.memory.all()
    }

    fn try_lock(&self, key: &str) -> std::io::Result<Option<RecordLockGuard>> {
        self.memory.try_lock(key)
    }
}

#[tokio::test]
async fn renewed_token_is_stored_before_use_and_without_a_waiter() {
    let authority = Authority::start().await;
    let slow = Arc::new(Slow {
        memory: MemoryStore::default(),
        waits: false.into(),
        saving: std::sync::Barrier::new(2),
    });
    let store = Arc::clone(&slow) as Arc<dyn LoginStore>;
    let shared = LoginContext::with(store, Arc::default(), TaskTracker::new(), Box::new(|_| {}));
    let logins = Arc::new(LoginRegistry {
        shared: Arc::new(shared),
        at: Mutex::default(),
        waiting: Arc::default(),
    });
    let target = LoginTarget {
        server: "srv".to_owned(),
        url: authority.url(),
        account: None,
        oauth: OAuthConfig::default(),
    };
    let at = logins.get_or_create(target.clone());
    sign_in(&at).await.unwrap();
    expire(&at).await;
    authority.set(|switches| switches.lifetime = 3600);
    slow.waits.store(true, std::sync::atomic::Ordering::SeqCst);
    let saving = {
        let slow = Arc::clone(&slow);
        tokio::task::spawn_blocking(move || slow.saving.wait())
    };
    {
        let mut caller = std::pin::pin!(token(&at));
        let until_saving = async { saving.await.unwrap() };
        tokio::select! {
            token = &mut caller => panic!("{token:?} is used before it is stored"),
            _ = until_saving => {}
        }
        // The authorization server has responded. The caller is dropped, and the renewal goes on.
        assert_eq!(authority.asked("refresh_token"), 1);
    }
    let release = {
        let slow = Arc::clone(&slow);
        tokio::task::spawn_blocking(move || slow.saving.wait())
    };
    logins.close().await;
    release.await.unwrap();
    let kept = slow.load(&target.key()).unwrap().unwrap();
    assert_eq!(LoginRecord::decode(&kept).unwrap().token.unwrap().value, "access-3");
}
