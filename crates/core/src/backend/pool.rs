//! The pool: one backend for all entries with the same launch, and the end of them all.

use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::backend::actor::{Actor, Status};
use crate::backend::condition::Vitals;
use crate::backend::guard::Guard;
use crate::backend::muted::Muted;
use crate::backend::reports::Reports;
use crate::backend::store::{Keeper, Outgoing};
use crate::backend::strays::{self, Strays};
use crate::backend::switchboard::Switchboard;
use crate::backend::turns::Turns;
use crate::backend::whose::{SigningIn, tell_of_login};
use crate::backend::{
    Backend, BackendId, ChildEnvironment, Context, Remembered, Shared, Spec, Store, WeakBackend,
    Whose, launch,
};
use crate::catalog::KnownDefinitions;
use crate::login::{self, Back, Keep, Logins, Page, Pending, Place, SignIn};
use crate::name::AgentName;
use crate::observe::Observer;
use crate::wire::budget::Budget;

/// How long the end of all servers may take.
const SHUTDOWN: Duration = Duration::from_millis(1600);

/// The options that all backends of a pool have in common.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Our environment, which servers get a part of where whoever wants them brings none.
    pub environment: Arc<ChildEnvironment>,
    /// Our own executable, which `mcp-workbench` means as a command, and which becomes the guard
    /// when it is run as `guard`; `None`: the command is looked for on `PATH`, and no guard.
    pub program: Option<PathBuf>,
    /// Where confined servers have their homes, each a folder; `None`: none starts.
    pub homes: Option<PathBuf>,
    /// Where it is kept what servers list; `None`: nowhere.
    pub store: Option<Arc<Store>>,
    /// Where logins at servers over HTTP are kept; `None`: nobody signs in.
    pub logins: Option<Keep>,
    /// Who is told of what happens.
    pub observer: Arc<Observer>,
    /// `true` if more than one agent can come, who must not hear of each other.
    pub serves_many: bool,
    /// `true` if agents may be on other machines than this one, so that a browser of their users does not
    /// reach a page here.
    pub is_served_elsewhere: bool,
    /// `true` if there is one server, whose log messages need no label that says whose they are.
    pub is_alone: bool,
    /// How many bytes of what servers say may be held at a time.
    pub said: Budget,
}

/// All backends. Nothing is started by making one, and it ends with its last handle, of which the
/// pool has none.
pub struct Pool {
    context: Arc<Context>,
    environment: Arc<ChildEnvironment>,
    backends: Mutex<Backends>,
    /// The sign-ins that somebody waits for.
    signing_in: SigningIn,
    is_served_elsewhere: bool,
    is_alone: bool,
}

#[derive(Default)]
struct Backends {
    shared: HashMap<Key, WeakBackend>,
    count: usize,
}

/// The specification of a server, which is equal to those that may share its process: in how it is
/// reached, what it gets of whose environment, how it is spoken to, and what it is told that its
/// client can do.
struct Key(Arc<Spec>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same_server(&other.0)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Most have one environment in common, which equality sees at once.
        let Spec { reach, protocol, abilities, .. } = &*self.0;
        (reach, protocol, abilities).hash(state);
    }
}

impl Pool {
    /// An empty pool.
    pub fn new(options: PoolOptions) -> Self {
        let PoolOptions { environment, program, homes, store, logins, observer, said, .. } =
            options;
        // What is waited for there would hold up the end.
        let logins = logins.map(|keep| {
            let observer = Arc::clone(&observer);
            Logins::new(keep, TaskTracker::new(), move |told| tell_of_login(&observer, told))
        });
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let keeper = store.map(|store| Arc::new(Keeper::new(store, tasks.clone(), &shutdown)));
        let run = strays::name_of_run();
        let guard = Guard::new(program.clone(), launch::spawn_guard, run.clone());
        let context = Context {
            strays: Arc::new(Strays::new(run, guard)),
            program,
            homes,
            tasks,
            deadlines: Arc::default(),
            shutdown,
            keeper,
            turns: Turns::new(available_parallelism().map_or(1, NonZero::get)),
            is_sole: !options.serves_many,
            observer,
            said,
            muted: Muted::default(),
            logins,
        };
        let (deadlines, shutdown) = (Arc::clone(&context.deadlines), context.shutdown.clone());
        context.tasks.spawn(
            shutdown.clone().run_until_cancelled_owned(async move { deadlines.run().await }),
        );
        context.tasks.spawn(Arc::clone(&context.strays).tend(shutdown));
        Self {
            context: Arc::new(context),
            environment,
            backends: Mutex::default(),
            signing_in: SigningIn::default(),
            is_served_elsewhere: options.is_served_elsewhere,
            is_alone: options.is_alone,
        }
    }

    /// The backend for a server: the one there is for an equal launch when it may be shared, else
    /// a new one. Of entries that share, the first one's timeouts hold.
    pub fn backend(&self, spec: Arc<Spec>, is_shared: bool) -> Backend {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key(Arc::clone(&spec));
        if is_shared
            && let Some(backend) =
                backends.shared.get(&key).and_then(|backend| backend.upgrade(&key.0.server))
        {
            return backend;
        }
        let id = BackendId(backends.count);
        backends.count += 1;
        let (commands, commands_receiver) = mpsc::channel(64);
        let (status, status_receiver) = watch::channel(Status::Stopped);
        let (gone, gone_receiver) = watch::channel(false);
        let (reports, vitals) = (Arc::new(Reports::default()), Vitals::default());
        let (name, has_roots) = (spec.server.clone(), spec.abilities.has_roots());
        let secrets = Arc::new(spec.secrets());
        let board = Switchboard::new(name.clone(), has_roots, self.context.is_sole, secrets);
        let board = Arc::new(if self.is_alone { board.unlabelled() } else { board });
        let actor = Actor {
            id,
            spec,
            context: Arc::clone(&self.context),
            commands: commands_receiver,
            status,
            board: Arc::clone(&board),
            reports: Arc::clone(&reports),
            vitals: vitals.clone(),
            known: KnownDefinitions::default(),
            outgoing: Outgoing::default(),
            after: None,
            is_dismissed: false,
            gone,
        };
        self.context.tasks.spawn(actor.run());
        let (status, gone) = (status_receiver, gone_receiver);
        let shared = Shared { id, commands, status, board, reports, vitals, gone };
        let backend = Backend { name: name.into(), shared: Arc::new(shared) };
        if is_shared {
            backends.shared.retain(|_, other| other.is_kept());
            backends.shared.insert(key, backend.downgrade());
        }
        backend
    }

    /// The knowledge of these servers from the last time that they ran.
    pub(crate) fn recall(
        &self,
        specs: Vec<(BackendId, Arc<Spec>)>,
    ) -> impl Future<Output = HashMap<BackendId, Remembered>> + Send + use<> {
        let keeper = self.context.keeper.clone();
        async move {
            let Some(keeper) = keeper else { return HashMap::new() };
            let recall = move |store: &Store| {
                let recall = |(id, spec): (BackendId, Arc<Spec>)| {
                    let (record, since) = store.recall(&spec.reach, spec.protocol)?;
                    Some((id, Remembered { listing: record.listing, since }))
                };
                specs.into_iter().filter_map(recall).collect()
            };
            keeper.run(recall).await.unwrap_or_default()
        }
    }

    /// Waits until what servers have listed so far is in the store.
    pub(crate) async fn kept(&self) {
        if let Some(keeper) = &self.context.keeper {
            keeper.settled().await;
        }
    }

    /// Does something with the store, beside the tasks that serve agents; `None` where there is none.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Option<T> {
        self.context.keeper.as_ref()?.run(work).await
    }

    /// Does `work` with the store. Only [`Self::shut_down`] waits for it.
    pub(crate) fn with_store_later(&self, work: impl FnOnce(&Store) + Send + 'static) {
        if let Some(keeper) = self.context.keeper.clone() {
            self.context.tasks.spawn(async move { keeper.run(work).await });
        }
    }

    /// The environment of servers that nobody brings another one for: our own.
    pub(crate) fn environment(&self) -> &Arc<ChildEnvironment> {
        &self.environment
    }

    /// Who is told of what happens.
    pub(crate) fn observer(&self) -> &Arc<Observer> {
        &self.context.observer
    }

    /// Returns the servers that are not to be started.
    pub(crate) fn muted(&self) -> &Muted {
        &self.context.muted
    }

    /// Returns whose logins an agent uses.
    pub(crate) fn whose(&self, agent: Option<&AgentName>) -> Whose {
        Whose::new(self.context.logins.as_ref(), agent, !self.context.is_sole)
    }

    /// The sign-in at this place that somebody waits for, or a new one.
    pub(crate) async fn sign_in(
        &self,
        login: &Arc<SignIn>,
        back: Back,
    ) -> Result<Arc<Pending>, login::Failure> {
        self.signing_in.join(login, back).await
    }

    /// The page for a browser that has come back to us from an authorization server.
    pub(crate) async fn signed_in(&self, address: &Url) -> Page {
        match &self.context.logins {
            Some(logins) => logins.page_for(address).await,
            None => Page::nobody_waits(),
        }
    }

    /// Returns `true` if agents may be on other machines than this one.
    pub(crate) fn is_served_elsewhere(&self) -> bool {
        self.is_served_elsewhere
    }

    /// Is cancelled when every server is to end.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.context.shutdown
    }

    /// Returns `true` if somebody waits for the sign-in at this place.
    pub(crate) fn is_signing_in(&self, place: &Place) -> bool {
        self.signing_in.has(place)
    }

    /// Returns `true` if all agents that can come are one.
    pub(crate) fn is_sole(&self) -> bool {
        self.context.is_sole
    }

    /// Returns `true` if anything may be known before servers run.
    pub(crate) fn has_store(&self) -> bool {
        self.context.keeper.is_some()
    }

    /// Ends every server, all at once, and returns when nothing of them is left, after 1.6 s at
    /// the latest: what has left its server's process group can hold its streams, but not us.
    pub async fn shut_down(&self) {
        self.context.shutdown.cancel();
        self.context.tasks.close();
        let renewed = async {
            if let Some(logins) = &self.context.logins
                && timeout(SHUTDOWN, logins.close()).await.is_err()
            {
                tracing::warn!("a token was being renewed at the end, which may cost its login");
            }
        };
        let ended = timeout(SHUTDOWN, self.context.tasks.wait());
        let ((), ended) = tokio::join!(renewed, ended);
        if ended.is_err() {
            tracing::warn!("something a server started still holds its streams");
        }
    }
}

#[cfg(test)]
mod tests;
