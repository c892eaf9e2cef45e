//! Tests with a real server, which each test starts for itself.

mod failing;
mod records;
mod sealed;
mod secrets;
mod server;
mod sessions;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::observe::{Event, Kinds, Listener, Observer};
use crate::settings::{SharedConfig, StoreUrl};
use crate::shared::tests::server::Server;
use crate::shared::{Address, Limits, Options, Redis};
use crate::state::{Key, Rate, Record, Rest, Session, SessionKey, Tenure};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limits that a busy machine keeps, for tests of other things.
const PATIENT: Limits = Limits { connect: PATIENCE, answer: PATIENCE, bulk: PATIENCE };

/// One of several workbenches, as far as its store goes.
struct Workbench {
    store: Redis,
    heard: Arc<Heard>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The news of the store, oldest first: a reason, or nothing where it can be used.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<String>>>);

impl Heard {
    fn all(&self) -> Vec<Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Listener for Heard {
    fn wants(&self) -> Kinds {
        Kinds::SHARED_STORE
    }

    fn hear(&self, event: Event<'_>) {
        if let Event::SharedStore(why) = event {
            self.0.lock().unwrap().push(why.map(str::to_owned));
        }
    }
}

impl Workbench {
    /// A workbench whose store is there, with limits that are never reached.
    async fn at(server: &Server) -> Self {
        Self::with(&server.config(), PATIENT).await
    }

    async fn with(config: &SharedConfig, limits: Limits) -> Self {
        let heard = Arc::new(Heard::default());
        let observer = Arc::new(Observer::default().heard_by(Arc::clone(&heard) as Arc<_>));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let address = Address::new(config).unwrap().unwrap();
        let options = Options { session_idle: Duration::from_mins(10), limits };
        let store = Redis::open(address, options, observer, &tasks, stop.clone()).await;
        Self { store, heard, stop, tasks }
    }

    /// Waits for what goes on in the background.
    async fn settled(&self) {
        self.tasks.close();
        tokio::time::timeout(PATIENCE, self.tasks.wait()).await.unwrap();
        self.tasks.reopen();
    }
}

impl Drop for Workbench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        // Another process brings it about, and tells nobody.
        sleep(Duration::from_millis(10)).await;
    }
}

/// The configuration of a workbench with these keys, which are files in `folder`.
fn with_keys(server: &Server, folder: &std::path::Path, keys: &[u8]) -> SharedConfig {
    let file = |key: &u8| {
        let path = folder.join(format!("key-{key}"));
        std::fs::write(&path, [*key; 32]).unwrap();
        path
    };
    SharedConfig { keys: keys.iter().map(file).collect(), ..server.config() }
}

fn config(url: &str) -> SharedConfig {
    SharedConfig { url: Some(StoreUrl::parse(url).unwrap()), ..SharedConfig::default() }
}

fn tenure(owner: &str, epoch: u64) -> Tenure {
    Tenure { owner: owner.to_owned(), epoch }
}

fn session(owner: &str, epoch: u64) -> Record {
    let session =
        Session { mode: "proxy".to_owned(), tenure: tenure(owner, epoch), ..Session::default() };
    Record::Session(Arc::new(session))
}

fn session_key(id: &str) -> (SessionKey, Key) {
    let key = SessionKey::of_id(id);
    (key.clone(), Key::Session(key))
}

fn rest(payer: &str, session: Option<&SessionKey>, text: &str) -> Record {
    Record::Rest(Rest {
        agent: None,
        session: session.cloned(),
        payer: Some(payer.to_owned()),
        text: text.into(),
        piece: 10,
    })
}

fn rate(per_minute: u32) -> Rate {
    Rate { per_minute: NonZeroU32::new(per_minute).unwrap() }
}
