//! Tests against a real `redis-server`, which each test starts for itself.

mod failing;
mod records;
mod sealed;
mod secrets;
mod server;
mod sessions;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::tests::server::Server;
use crate::{RedisStore, RedisStoreOptions, RedisTarget, StoreTimeouts};
use mcp_workbench_core::state::{
    Rate, RecordKey, ResultRemainder, SessionKey, SessionLease, SessionRecord, StateRecord,
};
use mcp_workbench_core::telemetry::{Event, EventKinds, EventListener, Telemetry};
use mcp_workbench_settings::{SharedStoreConfig, StoreUrl};

/// Maximum time that a test waits for anything.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Timeouts that even a busy machine doesn't reach.
const PATIENT: StoreTimeouts = StoreTimeouts { connect: TIMEOUT, response: TIMEOUT, bulk: TIMEOUT };

/// The store of one of several workbenches.
struct Workbench {
    store: RedisStore,
    heard: Arc<Heard>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Reported states of the store, oldest first: the reason why it is down, or `None` for up.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<String>>>);

impl Heard {
    fn all(&self) -> Vec<Option<String>> {
        self.0.lock().clone()
    }
}

impl EventListener for Heard {
    fn interest(&self) -> EventKinds {
        EventKinds::SHARED_STORE
    }

    fn on_event(&self, event: Event<'_>) {
        if let Event::SharedStore(why) = event {
            self.0.lock().push(why.map(str::to_owned));
        }
    }
}

impl Workbench {
    /// A workbench with a reachable store, and timeouts that are never reached.
    async fn at(server: &Server) -> Self {
        Self::with(&server.config(), PATIENT).await
    }

    async fn with(config: &SharedStoreConfig, limits: StoreTimeouts) -> Self {
        let heard = Arc::new(Heard::default());
        let observer = Arc::new(Telemetry::default().with_listener(Arc::clone(&heard) as Arc<_>));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let address = RedisTarget::new(config).unwrap().unwrap();
        let options = RedisStoreOptions { session_idle: Duration::from_mins(10), limits };
        let store = RedisStore::open(address, options, observer, &tasks, stop.clone()).await;
        Self { store, heard, stop, tasks }
    }

    async fn settled(&self) {
        self.tasks.close();
        tokio::time::timeout(TIMEOUT, self.tasks.wait()).await.unwrap();
        self.tasks.reopen();
    }
}

impl Drop for Workbench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        // Another process changes it, and nothing signals that.
        sleep(Duration::from_millis(10)).await;
    }
}

/// A configuration with these sealing keys, written to files in `folder`.
fn with_keys(server: &Server, folder: &std::path::Path, keys: &[u8]) -> SharedStoreConfig {
    let file = |key: &u8| {
        let path = folder.join(format!("key-{key}"));
        std::fs::write(&path, [*key; 32]).unwrap();
        path
    };
    SharedStoreConfig { keys: keys.iter().map(file).collect(), ..server.config() }
}

fn config(url: &str) -> SharedStoreConfig {
    SharedStoreConfig { url: Some(StoreUrl::parse(url).unwrap()), ..SharedStoreConfig::default() }
}

fn tenure(owner: &str, epoch: u64) -> SessionLease {
    SessionLease { owner: owner.to_owned(), epoch }
}

fn session(owner: &str, epoch: u64) -> StateRecord {
    let session = SessionRecord {
        mode: "proxy".to_owned(),
        tenure: tenure(owner, epoch),
        ..SessionRecord::default()
    };
    StateRecord::Session(Arc::new(session))
}

fn session_key(id: &str) -> (SessionKey, RecordKey) {
    let key = SessionKey::of_id(id);
    (key.clone(), RecordKey::Session(key))
}

fn rest(owner: &str, session: Option<&SessionKey>, text: &str) -> StateRecord {
    StateRecord::Remainder(ResultRemainder {
        agent: None,
        subject: None,
        session: session.cloned(),
        owner: Some(owner.to_owned()),
        text: text.into(),
        piece: 10,
    })
}

fn rate(per_minute: u32) -> Rate {
    Rate { per_minute: NonZeroU32::new(per_minute).unwrap() }
}
