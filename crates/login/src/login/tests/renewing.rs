//! Tokens that are renewed, by many at once, and what keeps them from it.

use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;
use crate::login::keep::{Guard, Memory, Store};
use crate::login::record::Record;

const INVALID: &str = "Bearer error=\"invalid_token\"";

#[tokio::test]
async fn fifty_callers_with_an_expired_token_are_one_renewal() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let (one, other) = (Process::new(folder.path()), Process::new(folder.path()));
    let first = one.at(&authority);
    sign_in(&first).await.unwrap();
    expire(&first).await;
    authority.set(|switches| switches.lifetime = 3600);
    // Two processes, with 25 callers each.
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
async fn a_token_that_is_said_to_last_no_time_is_used_until_the_server_refuses_it() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.lifetime = 0);
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    for _ in 0..20 {
        assert_eq!(token(&at).await.as_deref(), Some("access-2"));
    }
    let refused = at.refused(challenge(401, INVALID, Some("access-2"), false)).await;
    assert_eq!(refused, Again::Once);
    for _ in 0..20 {
        assert_eq!(token(&at).await.as_deref(), Some("access-3"));
    }
    assert_eq!(authority.asked("refresh_token"), 1);
    assert!(matches!(at.standing().await, Standing::SignedIn { expires: None, .. }));
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_renewed_once_and_then_a_person_is_wanted() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let first = token(&at).await.unwrap();
    assert_eq!(at.refused(challenge(401, INVALID, Some(&first), false)).await, Again::Once);
    let second = token(&at).await.unwrap();
    assert_ne!(first, second);
    // Whoever comes later with the old one is not worth another.
    assert_eq!(at.refused(challenge(401, INVALID, Some(&first), false)).await, Again::Once);
    assert_eq!(authority.asked("refresh_token"), 1);
    assert_eq!(at.refused(challenge(401, INVALID, Some(&second), true)).await, Again::SignIn);
    assert_eq!(authority.asked("refresh_token"), 1);
    let why = "the server does not take a token that is new".to_owned();
    assert_eq!(at.standing().await, Standing::Wanted { why });
    for secret in [first, second] {
        assert!(at.secrets().contains(&secret));
    }
    sign_in(&at).await.unwrap();
    assert!(matches!(at.standing().await, Standing::SignedIn { .. }));
}

#[tokio::test]
async fn a_client_with_a_secret_renews_after_a_restart() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.method = method);
        let before = Process::new(folder.path()).at(&authority);
        sign_in(&before).await.unwrap();
        expire(&before).await;
        authority.set(|switches| switches.lifetime = 60);
        let shown = token(&Process::new(folder.path()).at(&authority)).await;
        assert_eq!(shown.as_deref(), Some("access-3"), "{method}");
        // What discovery has found is asked for again.
        let last = authority.seen().tokens.pop().unwrap();
        assert_eq!(last["resource"], authority.url().as_str());
    }
}

#[tokio::test]
async fn the_secret_of_a_client_in_the_entry_is_not_kept_and_may_change() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.method = "client_secret_post");
    let process = Process::new(folder.path());
    let with = |secret: &str| {
        let oauth = OAuth {
            client_id: Some("me".to_owned()),
            client_secret: Some(secret.to_owned()),
            ..OAuth::default()
        };
        process.with(&authority, oauth)
    };
    let at = with("secret of me/+%");
    sign_in(&at).await.unwrap();
    expire(&at).await;
    let path = folder.path().join(format!("{}.json", at.place().key()));
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept.contains("access-2") && !kept.contains("secret of me"), "{kept}");
    let wrong = with("another");
    authority.set(|switches| switches.lifetime = 60);
    assert_eq!(token(&wrong).await, None);
    assert_eq!(wrong.refused(challenge(401, INVALID, None, false)).await, Again::SignIn);
    assert_eq!(authority.seen().refused, 1, "it is asked once, not by each caller");
    assert_eq!(token(&with("secret of me/+%")).await.as_deref(), Some("access-3"));
    let other = OAuth { client_id: Some("you".to_owned()), ..OAuth::default() };
    let other = process.with(&authority, other);
    let shown = token(&other).await;
    assert_eq!(
        other.refused(challenge(401, INVALID, shown.as_deref(), false)).await,
        Again::SignIn
    );
    let why = "the entry names another client than signed in".to_owned();
    assert_eq!(other.standing().await, Standing::Wanted { why });
}

#[tokio::test]
async fn an_authorization_server_that_is_down_ends_no_login() {
    for status in [429, 500, 503] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        let process = Process::new(folder.path());
        let at = process.at(&authority);
        sign_in(&at).await.unwrap();
        expire(&at).await;
        authority.set(|switches| switches.token_status = Some(status));
        assert_eq!(token(&at).await, None);
        // It is not asked by everybody who comes.
        assert_eq!(token(&at).await, None);
        assert_eq!(authority.asked("refresh_token"), 1);
        let refused = at.refused(challenge(401, INVALID, None, false)).await;
        assert_eq!(refused, Again::No, "nobody can do anything about it");
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
async fn a_login_that_was_revoked_is_wanted_again_and_its_token_is_given_up() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    authority.revoke_all();
    let shown = token(&at).await;
    let refused = at.refused(challenge(401, INVALID, shown.as_deref(), false)).await;
    assert_eq!(refused, Again::SignIn);
    let why = "the login has ended: the authorization server has revoked it";
    assert_eq!(at.standing().await, Standing::Wanted { why: why.to_owned() });
    assert_eq!(process.told(), ["signed in".to_owned(), format!("wanted: {why}")]);
    // Whoever comes later knows it without asking.
    let other = Process::new(folder.path()).at(&authority);
    let why = "the server does not take the token any more".to_owned();
    assert_eq!(other.standing().await, Standing::Wanted { why });
    // It is not tried for ever.
    assert_eq!(at.refused(challenge(401, INVALID, shown.as_deref(), false)).await, Again::SignIn);
    assert_eq!(authority.asked("refresh_token"), 1);
    sign_in(&at).await.unwrap();
    assert!(matches!(at.standing().await, Standing::SignedIn { .. }));
    assert_eq!(authority.seen().registrations.len(), 1);
}

#[tokio::test]
async fn who_loses_a_race_wipes_nothing() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    let shown = token(&at).await;
    // Somebody who knows of no locks puts a newer login there, while we are refused.
    let path = folder.path().join(format!("{}.json", at.place().key()));
    let mut newer = Record::decode(&std::fs::read(&path).unwrap()).unwrap();
    newer.refresh_token = Some("refresh-of-another".to_owned());
    newer.token.as_mut().unwrap().value = "access-of-another".to_owned();
    let newer = newer.encode().unwrap();
    let (file, text) = (path.clone(), newer.clone());
    authority.set(|switches| {
        switches.meanwhile = Some(Arc::new(move || std::fs::write(&file, &text).unwrap()));
    });
    authority.revoke_all();
    let refused = at.refused(challenge(401, INVALID, shown.as_deref(), false)).await;
    assert_eq!(refused, Again::Once);
    assert_eq!(std::fs::read(&path).unwrap(), newer);
    assert_eq!(token(&at).await.as_deref(), Some("access-of-another"));
}

#[tokio::test]
async fn more_is_asked_for_with_all_that_there_was_after_a_restart_too() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    let shown = token(&at).await;
    let scheme = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let refused = at.refused(challenge(403, scheme, shown.as_deref(), false)).await;
    assert_eq!(refused, Again::SignIn);
    // What was granted is as good as before.
    assert_eq!(token(&at).await, shown);

    let process = Process::new(folder.path());
    let at = process.at(&authority);
    let why = "more is to be allowed: read write".to_owned();
    assert_eq!(at.standing().await, Standing::Wanted { why });
    sign_in(&at).await.unwrap();
    assert_eq!(authority.seen().authorizations[1]["scope"], "read write");
    assert_eq!(authority.seen().registrations.len(), 1);
    let Standing::SignedIn { scopes, .. } = at.standing().await else { panic!() };
    assert_eq!(scopes, ["read", "write"]);

    // A server that is never content is not followed for ever.
    let mut answers = Vec::new();
    for _ in 0..4 {
        let shown = token(&at).await;
        answers.push(at.refused(challenge(403, scheme, shown.as_deref(), false)).await);
    }
    assert_eq!(answers, [Again::SignIn, Again::SignIn, Again::SignIn, Again::No]);
    // A refusal of another kind is nobody's to mend.
    let refused = at.refused(challenge(403, "Bearer", shown.as_deref(), false)).await;
    assert_eq!(refused, Again::No);
}

/// A store that takes its time to save.
struct Slow {
    memory: Memory,
    waits: std::sync::atomic::AtomicBool,
    saving: std::sync::Barrier,
}

impl Store for Slow {
    fn load(&self, key: &str) -> std::io::Result<Option<Vec<u8>>> {
        self.memory.load(key)
    }

    fn save(&self, key: &str, record: &[u8]) -> std::io::Result<()> {
        if self.waits.load(std::sync::atomic::Ordering::SeqCst) {
            // It has been reached, and may go on.
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

    fn try_lock(&self, key: &str) -> std::io::Result<Option<Guard>> {
        self.memory.try_lock(key)
    }
}

#[tokio::test]
async fn a_token_is_kept_before_it_is_used_and_even_when_nobody_waits_any_more() {
    let authority = Authority::start().await;
    let slow = Arc::new(Slow {
        memory: Memory::default(),
        waits: false.into(),
        saving: std::sync::Barrier::new(2),
    });
    let store = Arc::clone(&slow) as Arc<dyn Store>;
    let shared = Shared::with(store, Arc::default(), TaskTracker::new(), Box::new(|_| {}));
    let logins = Arc::new(Logins {
        shared: Arc::new(shared),
        at: Mutex::default(),
        waiting: Arc::default(),
    });
    let place = Place {
        server: "srv".to_owned(),
        url: authority.url(),
        account: None,
        oauth: OAuth::default(),
    };
    let at = logins.at(place.clone());
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
            token = &mut caller => panic!("{token:?} is used before it is kept"),
            _ = until_saving => {}
        }
        // The authorization server has answered, and the caller leaves.
        assert_eq!(authority.asked("refresh_token"), 1);
    }
    let release = {
        let slow = Arc::clone(&slow);
        tokio::task::spawn_blocking(move || slow.saving.wait())
    };
    logins.close().await;
    release.await.unwrap();
    let kept = slow.load(&place.key()).unwrap().unwrap();
    assert_eq!(Record::decode(&kept).unwrap().token.unwrap().value, "access-3");
}
