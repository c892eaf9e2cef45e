//! Logins and listings of several workbenches, sealed.

use pretty_assertions::assert_eq;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::*;
use crate::backend::Elsewhere;
use crate::login::{Guard, Store as Logins};
use crate::shared::tests::server::Server;

const LOGIN: &str = "login-of-ann";
const SECRET: &[u8] = b"{\"token\":\"access-1-secret\"}";
const RENEWED: &[u8] = b"{\"token\":\"access-2-secret\"}";

/// Does what blocks beside the test.
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

async fn lock(logins: &Arc<dyn Logins>) -> Option<Guard> {
    at(logins, |all| all.try_lock(LOGIN).unwrap()).await
}

#[expect(clippy::unnecessary_wraps, reason = "that is how it is found")]
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
async fn a_login_is_that_of_all_and_nobody_reads_it_in_the_store() {
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
    // It ends for all, and does not come back from those who still know it.
    assert!(at(&b, |all| all.remove(LOGIN).unwrap()).await);
    assert_eq!(load(&a).await, Ok(None));
    assert!(!at(&a, |all| all.remove(LOGIN).unwrap()).await);
    assert_eq!(at(&a, |all| all.all().unwrap()).await, Vec::<Vec<u8>>::new());
    // And begins anew.
    let _guard = lock(&a).await.unwrap();
    save(&a, RENEWED).await;
    assert_eq!(load(&b).await, some(RENEWED));
}

#[tokio::test]
async fn one_workbench_at_a_time_changes_a_login() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    let held = lock(&a).await;
    assert!(held.is_some() && lock(&a).await.is_none() && lock(&b).await.is_none());
    drop(held);
    until("it is given back", async || server.keys().await.is_empty()).await;
    let held = lock(&b).await;
    assert!(held.is_some());
    // A lock that is over is somebody else's, and is not given back by whoever had it.
    let key = server.key_with("login-lock:").await;
    let lifetime: i64 = server.ask(&format!("PTTL {key}")).await;
    assert!((1..=40_000).contains(&lifetime), "{lifetime}");
    let _: i64 = server.ask(&format!("DEL {key}")).await;
    let new = lock(&a).await;
    assert!(new.is_some());
    drop(held);
    // Whatever `b` asks is answered after that.
    assert_eq!(load(&b).await, Ok(None));
    assert_eq!(server.keys().await, [key]);
}

#[tokio::test]
async fn nobody_writes_over_what_somebody_else_has_written_meanwhile() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    save(&a, SECRET).await;
    load(&b).await.unwrap();
    // `a` had the lock, and it is over; `b` has renewed the login since.
    save(&b, RENEWED).await;
    save(&a, b"of a loser").await;
    assert_eq!(load(&a).await, some(RENEWED));
    assert_eq!(load(&b).await, some(RENEWED));
    // Whoever has the lock counts.
    let _guard = lock(&a).await.unwrap();
    save(&b, SECRET).await;
    save(&a, b"of the holder").await;
    assert_eq!(load(&b).await, some(b"of the holder"));
}

#[tokio::test]
async fn what_was_given_while_the_store_is_away_gets_there_and_an_emptied_one_is_filled() {
    let (mut server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(one, a), (_other, b)] = two(&server, &folder).await;
    save(&a, SECRET).await;
    server.kill();
    assert!(load(&a).await.is_err() && at(&a, |all| all.try_lock(LOGIN).is_err()).await);
    assert_eq!(at(&a, |all| all.last(LOGIN)).await.as_deref(), Some(SECRET));
    save(&a, RENEWED).await;
    assert_eq!(at(&a, |all| all.last(LOGIN)).await.as_deref(), Some(RENEWED));
    assert!(at(&a, |all| all.remove(LOGIN).is_err()).await, "nobody says that it has ended");
    server.restart().await;
    until("it is found", async || one.store.is_up()).await;
    until("it is there", async || load(&b).await == some(RENEWED)).await;

    let _: String = server.ask("FLUSHALL").await;
    assert_eq!(load(&a).await, some(RENEWED), "it is there again");
    assert_eq!(load(&b).await, some(RENEWED));
}

#[tokio::test]
async fn what_no_key_opens_is_left_alone_and_said_once() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), _] = two(&server, &folder).await;
    save(&a, SECRET).await;
    let key = server.key_with(":login:").await;
    // Another key, and then both.
    let other = Workbench::with(&with_keys(&server, folder.path(), &[2]), PATIENT).await;
    let c = other.store.logins().unwrap();
    let why = load(&c).await.unwrap_err();
    assert!(why.contains("another key") && !why.contains("secret"), "{why}");
    at(&c, |all| all.save(LOGIN, RENEWED).unwrap()).await;
    assert_eq!(load(&a).await, some(SECRET), "it is not written over");
    let both = Workbench::with(&with_keys(&server, folder.path(), &[2, 1]), PATIENT).await;
    let d = both.store.logins().unwrap();
    assert_eq!(load(&d).await, some(SECRET));
    save(&d, RENEWED).await;
    assert_eq!(load(&c).await, some(RENEWED), "the first key seals");

    for junk in [format!("SET {key} {{}}"), format!("SETRANGE {key} 2000000 x")] {
        let _: redis::Value = server.ask(&junk).await;
        assert!(load(&d).await.is_err());
        assert_eq!(at(&d, |all| all.last(LOGIN)).await.as_deref(), Some(RENEWED));
    }
    let _: i64 = server.ask(&format!("DEL {key}")).await;
    let _: i64 = server.ask(&format!("SADD {key} x")).await;
    assert!(load(&d).await.is_err());
    // A person who signs in anew, with the lock, puts an end to it.
    let _guard = lock(&d).await.unwrap();
    save(&d, SECRET).await;
    assert_eq!(load(&d).await, some(SECRET));
}

#[tokio::test]
async fn a_sign_in_under_way_is_taken_once_wherever_its_browser_comes_back() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let [(_one, a), (_other, b)] = two(&server, &folder).await;
    let lifetime = Duration::from_mins(5);
    assert!(at(&a, move |all| all.begin("state", b"verifier-secret", lifetime).unwrap()).await);
    let key = server.key_with("sign-in:").await;
    assert!(!key.contains("state"), "{key}");
    let left: i64 = server.ask(&format!("PTTL {key}")).await;
    assert!((1..=300_000).contains(&left), "{left}");
    let dump: Vec<u8> = server.ask(&format!("DUMP {key}")).await;
    assert!(!dump.windows(6).any(|part| part == b"secret"));
    let take = |all: &dyn Logins| all.returned("state").unwrap();
    assert_eq!(at(&b, |all| all.returned("other").unwrap()).await, None);
    let (one, other) = tokio::join!(at(&a, take), at(&b, take));
    assert_eq!([one, other].into_iter().flatten().collect::<Vec<_>>(), [b"verifier-secret"]);
    let _: String = server.ask(&format!("SET {key} junk")).await;
    assert_eq!(at(&a, take).await, None);
}

#[tokio::test]
async fn a_listing_is_found_by_whoever_has_the_key_and_by_nobody_else() {
    let (server, folder) = (Server::start().await, TempDir::new().unwrap());
    let with = async |keys: &[u8]| {
        let config = with_keys(&server, folder.path(), keys);
        let workbench = Workbench::with(&config, PATIENT).await;
        let listings = workbench.store.listings().unwrap();
        (workbench, listings)
    };
    let [one, same, other] = [with(&[1]).await, with(&[1]).await, with(&[2]).await];
    assert!(Workbench::at(&server).await.store.listings().is_none());
    let find = async |all: &Arc<dyn Elsewhere>, name: &'static str| {
        let all = Arc::clone(all);
        spawn_blocking(move || all.find(name)).await.unwrap()
    };
    let keep = async |all: &Arc<dyn Elsewhere>, name: &'static str, since: u64, text: Vec<u8>| {
        let all = Arc::clone(all);
        spawn_blocking(move || all.keep(name, since, &text)).await.unwrap();
    };
    keep(&one.1, "a", 7, b"listing-secret".to_vec()).await;
    assert_eq!(find(&same.1, "a").await, Some((7, b"listing-secret".to_vec())));
    assert_eq!(find(&other.1, "a").await, None);
    assert_eq!(find(&same.1, "b").await, None);
    assert_ne!(one.1.key(), other.1.key());
    // A listing is none of another server, whoever puts it there.
    let key = server.key_with("listing:").await;
    keep(&one.1, "b", 8, b"other".to_vec()).await;
    let keys = server.keys().await;
    let of_b = keys.iter().find(|it| it.contains("listing:") && **it != key).unwrap();
    let _: i64 = server.ask(&format!("COPY {key} {of_b} REPLACE")).await;
    assert_eq!(find(&same.1, "b").await, None);
    let dump: Vec<u8> = server.ask(&format!("DUMP {key}")).await;
    assert!(!dump.windows(6).any(|part| part == b"secret"));
    // One that is longer than any that is kept takes the old one away.
    keep(&one.1, "a", 9, vec![b'x'; 1024 * 1024 + 1]).await;
    assert_eq!(find(&same.1, "a").await, None);
    // The oldest go.
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
