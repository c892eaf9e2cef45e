//! Passwords, ACL users and TLS, and that errors and logs contain no secrets.

use std::fs;
use std::io::Write;
use std::sync::OnceLock;

use pretty_assertions::assert_eq;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::tests::server::Server;
use crate::{RedisConfigError, probe};
use mcp_workbench_core::state::{Capacity, StateStore};

const PASSWORD: &str = "hunter2-hunter2";

/// The program does this at startup.
pub(super) fn provide_tls() {
    // Another test may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logged {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Captures the log of all crates at trace level.
fn logged() -> &'static Logged {
    static LOGGED: OnceLock<Logged> = OnceLock::new();
    LOGGED.get_or_init(|| {
        let logged = Logged::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(logged.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        logged
    })
}

async fn tried(config: &SharedStoreConfig) -> Result<Option<String>, RedisConfigError> {
    let address = RedisTarget::new(config)?.unwrap();
    probe(&address, &PATIENT).await.map(|trial| trial.version)
}

#[tokio::test]
async fn passwords_and_credentials_are_never_shown() {
    let logged = logged();
    let server = Server::with(&["--requirepass", PASSWORD]).await;
    let url = |login: &str, database: &str| {
        config(&format!("redis://{login}127.0.0.1:{}{database}", server.port()))
    };
    let folder = tempfile::tempdir().unwrap();
    let keys = with_keys(&server, folder.path(), &[1]).keys;
    let right = SharedStoreConfig { keys, ..url(&format!(":{PASSWORD}@"), "/3") };
    assert!(tried(&right).await.unwrap().is_some_and(|version| version.starts_with("Redis 7")));
    let a = Workbench::with(&right, PATIENT).await;
    let (id, key) = session_key("a-credential");
    a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await;
    let rests = RecordKey::Rest("a-random-name".to_owned());
    a.store.put(rests, rest("ann", Some(&id), "x"), Capacity::UNLIMITED).await;
    a.store.count("of a-subject", rate(1)).await.unwrap();

    let mut told = vec![format!("{right:?} {:?}", RedisTarget::new(&right))];
    for wrong in
        [url(&format!(":{PASSWORD}-not@"), ""), url("", ""), url("eve:hunter2-hunter2@", "")]
    {
        let error = tried(&wrong).await.unwrap_err();
        told.push(format!("{error} {error:?} {wrong:?}"));
        let short = StoreTimeouts { connect: Duration::from_secs(2), ..PATIENT };
        let b = Workbench::with(&wrong, short).await;
        assert!(!b.store.is_up());
        told.push(format!("{:?}", b.heard.all()));
    }
    assert!(told[1].contains("authentication"), "{}", told[1]);
    told.push(String::from_utf8_lossy(&logged.0.lock()).into_owned());
    assert!(told.last().unwrap().contains("is unavailable"), "the log was captured");
    for told in told {
        for secret in [PASSWORD, "a-credential", "a-random-name", "a-subject"] {
            assert!(!told.contains(secret), "{secret}: {told}");
        }
    }
    let client = redis::Client::open(right.url.unwrap().expose_secret()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    assert!(
        keys.len() >= 3 && keys.iter().all(|key| key.starts_with("mcp-workbench:")),
        "{keys:?}"
    );
    for secret in ["a-credential", "a-random-name", "a-subject", "ann"] {
        assert!(!keys.iter().any(|key| key.contains(secret)), "{keys:?}");
    }
}

#[tokio::test]
async fn the_documented_acl_commands_suffice() {
    let server = Server::start().await;
    let _: String = server
        .ask("ACL SETUSER workbench on >hunter2-hunter2 ~mcp-workbench:* +@connection +get +set +getdel \
              +del +evalsha +eval +time +type +hmget +hset +hdel +hget +hexists +hstrlen +pexpire +zadd +zrem \
              +zremrangebyscore +zremrangebyrank +zcard +zrange +getrange +sadd +srem +srandmember -@dangerous")
        .await;
    let url = format!("redis://workbench:{PASSWORD}@127.0.0.1:{}", server.port());
    let a = Workbench::with(&config(&url), PATIENT).await;
    assert!(a.store.is_up(), "{:?}", a.heard.all());
    let (id, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    let rests = RecordKey::Rest("r".to_owned());
    a.store.put(rests.clone(), rest("ann", Some(&id), "x"), Capacity { count: 1, bytes: 9 }).await;
    a.store.count("ann", rate(1)).await.unwrap();
    a.store.end(&id, &tenure("a", 0));
    a.settled().await;
    let b = Workbench::with(&config(&url), PATIENT).await;
    assert_eq!(b.store.get(&key).await, None);
    assert_eq!(b.store.take(&rests).await, None);
    assert!(a.store.is_up() && b.store.is_up(), "{:?}", a.heard.all());
    // Logins and listings need no other commands, either.
    let folder = tempfile::tempdir().unwrap();
    let keys = with_keys(&server, folder.path(), &[1]).keys;
    let sealed = SharedStoreConfig { keys, ..config(&url) };
    let c = Workbench::with(&sealed, PATIENT).await;
    let logins = c.store.logins().unwrap();
    let listings = c.store.listings().unwrap();
    spawn_blocking(move || {
        drop(logins.try_lock("login").unwrap().unwrap());
        logins.save("login", b"record").unwrap();
        assert_eq!(logins.all().unwrap(), [b"record"]);
        assert!(logins.save_attempt("state", b"attempt", Duration::from_mins(1)).unwrap());
        assert!(logins.take_attempt("state").unwrap().is_some());
        assert!(logins.remove("login").unwrap());
        listings.keep("listing", 1, b"record");
        assert!(listings.find("listing").is_some());
    })
    .await
    .unwrap();
    assert!(c.store.is_up(), "{:?}", c.heard.all());
    assert_eq!(tried(&sealed).await, Ok(None));
    // The user has no access to other prefixes, nor to `INFO`.
    let other = SharedStoreConfig { prefix: "other:".to_owned(), ..config(&url) };
    assert!(tried(&other).await.unwrap_err().to_string().contains("permission"));
    assert_eq!(tried(&config(&url)).await, Ok(None));
}

#[tokio::test]
async fn tls_verifies_the_server_against_the_ca() {
    provide_tls();
    let folder = TempDir::new().unwrap();
    let ca = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = folder.path().join(name);
        fs::write(&file, ca.pem()).unwrap();
        (ca, file)
    };
    let ((ours, right), (_, wrong)) = (ca("right.crt"), ca("wrong.crt"));
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &ours).unwrap();
    let [cert_file, key_file] = ["its.crt", "its.key"].map(|name| folder.path().join(name));
    fs::write(&cert_file, cert.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let [cert_file, key_file] = [&cert_file, &key_file].map(|file| file.to_str().unwrap());
    let server = Server::with(&[
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        cert_file,
        "--tls-key-file",
        key_file,
        "--tls-auth-clients",
        "no",
    ])
    .await;
    let with = |scheme: &str, ca: Option<&std::path::PathBuf>| SharedStoreConfig {
        ca: ca.cloned(),
        ..config(&format!("{scheme}://127.0.0.1:{}", server.port()))
    };
    assert!(tried(&with("rediss", Some(&right))).await.unwrap().is_some());
    let a = Workbench::with(&with("rediss", Some(&right)), PATIENT).await;
    let (_, key) = session_key("credential");
    assert!(a.store.put(key.clone(), session("a", 0), Capacity::UNLIMITED).await.is_stored());
    assert_eq!(a.store.get(&key).await, Some(session("a", 0)));
    for wrong in [Some(&wrong), None] {
        let error = tried(&with("rediss", wrong)).await.unwrap_err().to_string();
        assert!(error.to_lowercase().contains("certificate"), "{error}");
    }
    let error = tried(&with("redis", Some(&right))).await.unwrap_err().to_string();
    assert!(error.contains("rediss://"), "{error}");
    let missing = folder.path().join("missing");
    let error = tried(&with("rediss", Some(&missing))).await.unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
    // A TLS-only server, with a plain connection.
    let limits = StoreTimeouts { connect: Duration::from_secs(1), ..StoreTimeouts::default() };
    let plain = RedisTarget::new(&with("redis", None)).unwrap().unwrap();
    assert!(probe(&plain, &limits).await.is_err());
}

#[tokio::test]
async fn tls_to_a_plain_server_times_out() {
    provide_tls();
    let server = Server::start().await;
    let limits = StoreTimeouts { connect: Duration::from_secs(1), ..StoreTimeouts::default() };
    let url = format!("rediss://127.0.0.1:{}", server.port());
    let address = RedisTarget::new(&config(&url)).unwrap().unwrap();
    let since = Instant::now();
    assert!(probe(&address, &limits).await.is_err());
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}
