//! Sealed logins and listings of several workbenches.

use pretty_assertions::assert_eq;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::*;
use crate::tests::server::Server;
use mcp_workbench_core::backend::SharedListingCache;
use mcp_workbench_login::{LoginStore as Logins, RecordLockGuard};

const LOGIN: &str = "login-of-ann";
const SECRET: &[u8] = b"{\"token\":\"access-1-secret\"}";
const RENEWED: &[u8] = b"{\"token\":\"access-2-secret\"}";

/// Runs blocking work on another thread.
async fn at<T: Send + 'static>(
    logins: &Arc<dyn Logins>,
    work: impl FnOnce(&dyn Logins) -> T + Send + 'static,
) -> T {
    let logins = Arc::clone(logins);
    spawn_blocking(move || work(logins.as_ref())).await.unwrap()
}

async fn load(logins: &Arc<dyn Logins>) -> Result<Option<Vec<u8>>, String> {
    at(logins, |all| all.load(LOGIN).map_err(|error| error.to_string())).await
}

async fn save(logins: &Arc<dyn Logins>, record: &'static [u8]) {
    at(logins, move |all| all.save(LOGIN, record).unwrap()).await;
}

async fn lock(logins: &Arc<dyn Logins>) -> Option<RecordLockGuard> {
    at(logins, |all| all.try_lock(LOGIN).unwrap()).await
}

#[expect(clippy::unnecessary_wraps, reason = "compared with the result of a load")]
fn some(record: &[u8]) -> Result<Option<Vec<u8>>, String> {
    Ok(Some(record.to_vec()))
}

/// Two workbenches with the same key.
async fn two(server: &Server, folder: &TempDir) -> [(Workbench, Arc<dyn Logins>); 2] {
    let config = with_keys(server, folder.path(), &[1]);
    let one = Workbench::with(&config, PATIENT).await;
    let other = Workbench::with(&config, PATIENT).await;
    [one, other].map(|workbench| {
        let logins = workbench.store.logins().unwrap();
        (workbench, logins)
    })
}

#[tokio::test]
async fn logins_are_shared_and_sealed() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    assert!(Workbench::at(&server).await.store.logins().is_none(), "without a key");
    assert_eq!(load(&a).await, Ok(None));
    save(&a, SECRET).await;
    assert_eq!(load(&b).await, some(SECRET));
    assert_eq!(at(&b, |all| all.all().unwrap()).await, [SECRET]);
    for key in server.keys().await {
        assert!(!key.contains("ann"), "{key}");
        let dump: Vec<u8> = server.ask(&format!("DUMP {key}")).await;
        assert!(!dump.windows(6).any(|part| part == b"secret"), "{key}");
    }
    // Removed for all; workbenches with a cached copy don't write it back.
    assert!(at(&b, |all| all.remove(LOGIN).unwrap()).await);
    assert_eq!(load(&a).await, Ok(None));
    assert!(!at(&a, |all| all.remove(LOGIN).unwrap()).await);
    assert_eq!(at(&a, |all| all.all().unwrap()).await, Vec::<Vec<u8>>::new());
    // A new sign-in works.
    let _guard = lock(&a).await.unwrap();
    save(&a, RENEWED).await;
    assert_eq!(load(&b).await, some(RENEWED));
}

#[tokio::test]
async fn only_one_workbench_holds_the_lock_on_a_login() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    let held = lock(&a).await;
    assert!(held.is_some() && lock(&a).await.is_none() && lock(&b).await.is_none());
    drop(held);
    until("the lock is released", async || server.keys().await.is_empty()).await;
    let held = lock(&b).await;
    assert!(held.is_some());
    // The former holder must not release an expired lock that has a new holder.
    let key = server.key_with("login-lock:").await;
    let lifetime: i64 = server.ask(&format!("PTTL {key}")).await;
    assert!((1..=40_000).contains(&lifetime), "{lifetime}");
    let _: i64 = server.ask(&format!("DEL {key}")).await;
    let new = lock(&a).await;
    assert!(new.is_some());
    drop(held);
    // The response to `b` comes after its release.
    assert_eq!(load(&b).await, Ok(None));
    assert_eq!(server.keys().await, [key]);
}

#[tokio::test]
async fn compare_and_set_never_overwrites_a_concurrent_write() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    save(&a, SECRET).await;
    load(&b).await.unwrap();
    // The lock of `a` has expired, and `b` has renewed the login since.
    save(&b, RENEWED).await;
    save(&a, b"of a loser").await;
    assert_eq!(load(&a).await, some(RENEWED));
    assert_eq!(load(&b).await, some(RENEWED));
    // The lock holder wins.
    let _guard = lock(&a).await.unwrap();
    save(&b, SECRET).await;
    save(&a, b"of the holder").await;
    assert_eq!(load(&b).await, some(b"of the holder"));
}

#[tokio::test]
async fn syncs_cached_logins_after_an_outage_and_after_a_flush() {
    let (mut server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(one, a), (_other, b)] = two(&server, &folder).await;
    save(&a, SECRET).await;
    server.kill();
    assert!(load(&a).await.is_err() && at(&a, |all| all.try_lock(LOGIN).is_err()).await);
    assert_eq!(at(&a, |all| all.last_known(LOGIN)).await.as_deref(), Some(SECRET));
    save(&a, RENEWED).await;
    assert_eq!(at(&a, |all| all.last_known(LOGIN)).await.as_deref(), Some(RENEWED));
    assert!(at(&a, |all| all.remove(LOGIN).is_err()).await, "a failed removal is reported");
    server.restart().await;
    until("it is found", async || one.store.is_up()).await;
    until("it is there", async || load(&b).await == some(RENEWED)).await;

    let _: String = server.ask("FLUSHALL").await;
    assert_eq!(load(&a).await, some(RENEWED), "restored after the flush");
    assert_eq!(load(&b).await, some(RENEWED));
}

#[tokio::test]
async fn undecryptable_logins_are_not_overwritten() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), _] = two(&server, &folder).await;
    save(&a, SECRET).await;
    let key = server.key_with(":login:").await;
    // First with another key, then with both.
    let other = Workbench::with(&with_keys(&server, folder.path(), &[2]), PATIENT).await;
    let c = other.store.logins().unwrap();
    let why = load(&c).await.unwrap_err();
    assert!(why.contains("another key") && !why.contains("secret"), "{why}");
    at(&c, |all| all.save(LOGIN, RENEWED).unwrap()).await;
    assert_eq!(load(&a).await, some(SECRET), "an undecryptable login is not overwritten");
    let both = Workbench::with(&with_keys(&server, folder.path(), &[2, 1]), PATIENT).await;
    let d = both.store.logins().unwrap();
    assert_eq!(load(&d).await, some(SECRET));
    save(&d, RENEWED).await;
    assert_eq!(load(&c).await, some(RENEWED), "the first key seals");

    for junk in [format!("SET {key} {{}}"), format!("SETRANGE {key} 2000000 x")] {
        let _: redis::Value = server.ask(&junk).await;
        assert!(load(&d).await.is_err());
        assert_eq!(at(&d, |all| all.last_known(LOGIN)).await.as_deref(), Some(RENEWED));
    }
    let _: i64 = server.ask(&format!("DEL {key}")).await;
    let _: i64 = server.ask(&format!("SADD {key} x")).await;
    assert!(load(&d).await.is_err());
    // A new sign-in, which holds the lock, replaces the value.
    let _guard = lock(&d).await.unwrap();
    save(&d, SECRET).await;
    assert_eq!(load(&d).await, some(SECRET));
}

#[tokio::test]
async fn a_pending_sign_in_is_taken_once_by_any_workbench() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    let lifetime = Duration::from_mins(5);
    assert!(
        at(&a, move |all| all.save_attempt("state", b"verifier-secret", lifetime).unwrap()).await
    );
    let key = server.key_with("sign-in:").await;
    assert!(!key.contains("state"), "{key}");
    let left: i64 = server.ask(&format!("PTTL {key}")).await;
    assert!((1..=300_000).contains(&left), "{left}");
    let dump: Vec<u8> = server.ask(&format!("DUMP {key}")).await;
    assert!(!dump.windows(6).any(|part| part == b"secret"));
    let take = |all: &dyn Logins| all.take_attempt("state").unwrap();
    assert_eq!(at(&b, |all| all.take_attempt("other").unwrap()).await, None);
    let (one, other) = tokio::join!(at(&a, take), at(&b, take));
    assert_eq!([one, other].into_iter().flatten().collect::<Vec<_>>(), [b"verifier-secret"]);
    let _: String = server.ask(&format!("SET {key} junk")).await;
    assert_eq!(at(&a, take).await, None);
}

#[tokio::test]
async fn listings_are_shared_between_workbenches_with_the_same_key() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let with = async |keys: &[u8]| {
        let config = with_keys(&server, folder.path(), keys);
        let workbench = Workbench::with(&config, PATIENT).await;
        let listings = workbench.store.listings().unwrap();
        (workbench, listings)
    };
    let [one, same, other] = [with(&[1]).await, with(&[1]).await, with(&[2]).await];
    assert!(Workbench::at(&server).await.store.listings().is_none());
    let find = async |all: &Arc<dyn SharedListingCache>, name: &'static str| {
        let all = Arc::clone(all);
        spawn_blocking(move || all.find(name)).await.unwrap()
    };
    let keep =
        async |all: &Arc<dyn SharedListingCache>, name: &'static str, since: u64, text: Vec<u8>| {
            let all = Arc::clone(all);
            spawn_blocking(move || all.keep(name, since, &text)).await.unwrap();
        };
    keep(&one.1, "a", 7, b"listing-secret".to_vec()).await;
    assert_eq!(find(&same.1, "a").await, Some((7, b"listing-secret".to_vec())));
    assert_eq!(find(&other.1, "a").await, None);
    assert_eq!(find(&same.1, "b").await, None);
    assert_ne!(one.1.key(), other.1.key());
    // A listing can't be moved to another server's key.
    let key = server.key_with("listing:").await;
    keep(&one.1, "b", 8, b"other".to_vec()).await;
    let keys = server.keys().await;
    let of_b = keys.iter().find(|it| it.contains("listing:") && **it != key).unwrap();
    let _: i64 = server.ask(&format!("COPY {key} {of_b} REPLACE")).await;
    assert_eq!(find(&same.1, "b").await, None);
    let dump: Vec<u8> = server.ask(&format!("DUMP {key}")).await;
    assert!(!dump.windows(6).any(|part| part == b"secret"));
    // An oversized listing removes the previous one.
    keep(&one.1, "a", 9, vec![b'x'; 1024 * 1024 + 1]).await;
    assert_eq!(find(&same.1, "a").await, None);
    // The oldest are evicted.
    for at in 0..40_u64 {
        let name: &'static str = Box::leak(format!("many-{at}").into_boxed_str());
        keep(&one.1, name, at, vec![b'x'; 1024 * 1024]).await;
    }
    let bytes: i64 = {
        let mut all = 0;
        for key in server.keys().await.iter().filter(|it| it.contains("listing:")) {
            all += server.ask::<i64>(&format!("STRLEN {key}")).await;
        }
        all
    };
    assert!(bytes <= 32 * 1024 * 1024, "{bytes}");
    assert_eq!(find(&same.1, "many-39").await.map(|(since, _)| since), Some(39));
    assert_eq!(find(&same.1, "many-0").await, None);
}
