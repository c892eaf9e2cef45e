//! Servers marked `eager`: started before the first request and restarted when they stop.
//!
//! A server is launched for a set of client capabilities. The servers started here are those for
//! clients without any; a gateway for other clients starts its own when it is created.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::backend::{self, Backend, BackendId, ClientCapabilities, Pool, StartPriority};
use crate::gateway::scope::server_ref;
use crate::gateway::servers::backend_spec;
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::Config;

const RETRY: Duration = Duration::from_secs(10);

/// The eager servers of a configuration, restarted until this is dropped.
pub(crate) struct EagerServers {
    /// `None`: the server can't be started at all.
    servers: Vec<(ServerRef, Option<Backend>)>,
    _keeping: JoinSet<()>,
}

/// An eager server that isn't running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyServer {
    pub at: ServerRef,
    /// `true` if the last start failed; `false` while it is starting.
    pub has_failed: bool,
}

impl EagerServers {
    pub(crate) fn new(config: &Config, pool: &Pool) -> Self {
        let mut keeping = JoinSet::new();
        let mut servers = Vec::new();
        let scope = pool.login_scope(None, None);
        for (toolbox, server) in config.servers().filter(|(_, server)| server.eager) {
            let nobody = ClientCapabilities::NONE;
            let spec = backend_spec(config, toolbox, server, nobody, pool, &scope);
            let backend =
                spec.ok().map(|spec| pool.get_or_create(spec.into(), server.shares_process));
            if let Some(backend) = &backend {
                keeping.spawn(keep(backend.clone()));
            }
            servers.push((server_ref(&toolbox.name, &server.name), backend));
        }
        Self { servers, _keeping: keeping }
    }

    pub(crate) fn backends(&self) -> impl Iterator<Item = BackendId> {
        self.servers.iter().filter_map(|(_, backend)| backend.as_ref().map(Backend::id))
    }

    pub(crate) fn links(&self) -> Vec<(ServerRef, Backend)> {
        let links = self.servers.iter();
        links.filter_map(|(at, backend)| Some((at.clone(), backend.clone()?))).collect()
    }

    pub(crate) fn unready(&self) -> Vec<UnreadyServer> {
        let is_down = |(at, backend): &(ServerRef, Option<Backend>)| {
            let has_failed = match backend {
                Some(backend) if backend.connection().is_some() => return None,
                Some(backend) => match backend.start_error() {
                    // Counts as ready: only a user can fix this, and callers get the error.
                    Some(failure) if failure.wants_sign_in => return None,
                    failure => failure.is_some(),
                },
                None => true,
            };
            Some(UnreadyServer { at: at.clone(), has_failed })
        };
        self.servers.iter().filter_map(is_down).collect()
    }
}

async fn keep(backend: Backend) {
    loop {
        match backend.ensure_running(None, StartPriority::Background).await {
            Ok(_) => backend.wait_stopped().await,
            Err(backend::BackendError::ShuttingDown) => return,
            // The backend starts by itself after the sign-in.
            Err(backend::BackendError::StartFailed(failure)) if failure.wants_sign_in => {
                backend.wait_running().await;
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}
