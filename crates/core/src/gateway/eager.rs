//! Servers that are started before anybody asks for them (`eager`), and kept.
//!
//! Servers are told what their client can do, so those that are kept here are those of agents that
//! can do nothing in particular. A gateway of other agents starts its own when it is made.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::backend::{self, Backend, BackendId, ClientAbilities, Pool, Urgency};
use crate::gateway::{Gateway, server_ref, spec};
use crate::name::ServerRef;
use crate::settings::Config;

/// How soon a server that could not be started is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// The eager servers of a configuration, kept for as long as this is there.
pub(crate) struct Eager {
    /// Each where it stands; `None`: it cannot be started at all.
    servers: Vec<(ServerRef, Option<Backend>)>,
    _keeping: JoinSet<()>,
}

/// An eager server that is not up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// Which.
    pub at: ServerRef,
    /// `true` if its start has failed; `false` while it is being tried.
    pub has_failed: bool,
}

impl Eager {
    /// Begins to start them.
    pub(crate) fn new(config: &Config, pool: &Pool) -> Self {
        let mut keeping = JoinSet::new();
        let mut servers = Vec::new();
        let whose = pool.whose(None);
        for (toolbox, server) in config.servers().filter(|(_, server)| server.eager) {
            let nobody = ClientAbilities::NONE;
            let spec = spec(config, toolbox, server, nobody, pool, &whose);
            let backend = spec.ok().map(|spec| pool.backend(spec.into(), server.shared));
            if let Some(backend) = &backend {
                keeping.spawn(keep(backend.clone()));
            }
            servers.push((server_ref(&toolbox.name, &server.name), backend));
        }
        Self { servers, _keeping: keeping }
    }

    /// Returns the backends that are kept.
    pub(crate) fn backends(&self) -> impl Iterator<Item = BackendId> {
        self.servers.iter().filter_map(|(_, backend)| backend.as_ref().map(Backend::id))
    }

    /// Returns the links that are kept, each with where it stands.
    pub(crate) fn links(&self) -> Vec<(ServerRef, Backend)> {
        let links = self.servers.iter();
        links.filter_map(|(at, backend)| Some((at.clone(), backend.clone()?))).collect()
    }

    /// Returns the servers that are not up, in the order of the configuration.
    pub(crate) fn down(&self) -> Vec<Down> {
        let is_down = |(at, backend): &(ServerRef, Option<Backend>)| {
            let has_failed = match backend {
                Some(backend) if backend.running().is_some() => return None,
                Some(backend) => match backend.failure() {
                    // It is there; only its user can do something about it, and whoever calls is told.
                    Some(failure) if failure.wants_sign_in => return None,
                    failure => failure.is_some(),
                },
                None => true,
            };
            Some(Down { at: at.clone(), has_failed })
        };
        self.servers.iter().filter_map(is_down).collect()
    }
}

/// Starts a server, and again whenever it has ended.
async fn keep(backend: Backend) {
    loop {
        match backend.ready(None, Urgency::Background).await {
            Ok(_) => backend.stopped().await,
            Err(backend::Error::ShuttingDown) => return,
            // It starts by itself when somebody has signed in.
            Err(backend::Error::StartFailed(failure)) if failure.wants_sign_in => {
                backend.running_again().await;
            }
            // The log says why.
            Err(_) => sleep(RETRY).await,
        }
    }
}

impl Gateway {
    /// Begins to start those of its servers that are eager.
    pub(crate) fn start_eager(&self, tasks: &TaskTracker) {
        for (toolbox, server) in self.config.servers().filter(|(_, server)| server.eager) {
            if let Some(server) = self.at(&toolbox.name, &server.name) {
                let backend = server.shared.clone();
                tasks.spawn(async move {
                    // Whoever asks for it next is told why it does not start.
                    let _ = backend.ready(None, Urgency::Background).await;
                });
            }
        }
    }
}
