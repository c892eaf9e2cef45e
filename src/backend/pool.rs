//! The pool: one backend for all entries with the same launch, and the end of them all.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::actor::{Actor, Status};
use crate::backend::guard::Guard;
use crate::backend::switchboard::Switchboard;
use crate::backend::{Backend, BackendId, Changed, ChildEnvironment, Context, Reach, Spec};
use crate::config::Protocol;

/// How long the end of all servers may take.
const SHUTDOWN: Duration = Duration::from_millis(1600);

/// What all backends of a pool have in common.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Our environment, of which children get a part.
    pub environment: ChildEnvironment,
    /// Our own executable, which `mcp-workbench` means as a command, and which becomes the guard
    /// when it is run as `guard`; `None`: the command is looked for on `PATH`, and no guard.
    pub program: Option<PathBuf>,
}

/// All backends. Nothing is started by making one.
pub struct Pool {
    context: Arc<Context>,
    backends: Mutex<Backends>,
}

#[derive(Default)]
struct Backends {
    shared: HashMap<Key, Backend>,
    count: usize,
}

/// What two entries must have in common to share a process.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    reach: Reach,
    protocol: Protocol,
    /// Whoever looks through another gateway has listings of their own.
    agents: Bytes,
}

impl Pool {
    /// An empty pool.
    pub fn new(options: PoolOptions) -> Self {
        let PoolOptions { environment, program } = options;
        let context = Context {
            environment,
            guard: Arc::new(Guard::new(program.clone())),
            program,
            tasks: TaskTracker::new(),
            deadlines: Arc::default(),
            shutdown: CancellationToken::new(),
        };
        let (deadlines, shutdown) = (Arc::clone(&context.deadlines), context.shutdown.clone());
        context
            .tasks
            .spawn(shutdown.run_until_cancelled_owned(async move { deadlines.run().await }));
        Self { context: Arc::new(context), backends: Mutex::default() }
    }

    /// The backend for a server: the one there is for an equal launch when it may be shared, else
    /// a new one, which reports its listings to `events`. Of entries that share, the first one's
    /// timeouts hold.
    pub fn backend(
        &self,
        spec: Arc<Spec>,
        is_shared: bool,
        events: mpsc::Sender<Changed>,
    ) -> Backend {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key {
            reach: spec.reach.clone(),
            protocol: spec.protocol,
            agents: spec.agents.clone().into_bytes(),
        };
        if is_shared && let Some(backend) = backends.shared.get(&key) {
            return backend.clone();
        }
        let id = BackendId(backends.count);
        backends.count += 1;
        let (commands, commands_receiver) = mpsc::channel(64);
        let (status, status_receiver) = watch::channel(Status::Stopped);
        let board = Arc::new(Switchboard::new(spec.server.clone(), spec.has_roots));
        let actor = Actor {
            id,
            spec,
            context: Arc::clone(&self.context),
            commands: commands_receiver,
            status,
            board: Arc::clone(&board),
            events,
        };
        self.context.tasks.spawn(actor.run());
        let backend = Backend { id, commands, status: status_receiver, board };
        if is_shared {
            backends.shared.insert(key, backend.clone());
        }
        backend
    }

    /// Ends every server, all at once, and returns when nothing of them is left, after 1.6 s at
    /// the latest: what has left its server's process group can hold its streams, but not us.
    pub async fn shut_down(&self) {
        self.context.shutdown.cancel();
        self.context.tasks.close();
        if timeout(SHUTDOWN, self.context.tasks.wait()).await.is_err() {
            tracing::warn!("something a server started still holds its streams");
        }
    }
}
