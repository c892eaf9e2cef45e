//! Operator actions on servers: start, stop, restart, pause, resume and sign in, for all agents. A
//! server has a backend for each capability set and may have one for each agent.

use std::collections::HashSet;

use foldhash::HashMap;
use tokio::task::JoinSet;
use url::Url;

use crate::backend::{Backend, BackendError, BackendStatus, Phase, ServerTransport, StartPriority};
use crate::gateway::caller::Caller;
use crate::gateway::error::{FailedServer, failed};
use crate::gateway::registry::GatewayRegistry;
use crate::gateway::servers::Servers;
use mcp_workbench_login::RedirectTarget;
use mcp_workbench_names::ServerRef;

pub use mcp_workbench_login::Page as SignedInPage;

/// A page for the user to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInPage {
    /// An `http://` or `https://` URL.
    pub address: String,
    /// The code to enter on the page, in the device flow.
    pub code: Option<String>,
}

#[derive(Default)]
struct ServerBackends {
    all: Vec<Backend>,
    /// The backends that connected agents would use.
    wanted: Vec<Backend>,
    reaches: Vec<ServerTransport>,
}

impl GatewayRegistry {
    /// Returns the combined status of each server's backends.
    pub fn backend_statuses(&self) -> HashMap<ServerRef, BackendStatus> {
        let mut conditions: HashMap<ServerRef, BackendStatus> = HashMap::default();
        let mut seen = HashSet::new();
        let paused = self.pool().paused();
        for (gateway, _) in self.all() {
            for (at, server) in gateway.servers().servers_in_order() {
                server.for_each_backend(|backend| {
                    // Gateways share backends: count each once.
                    if !seen.insert((at.clone(), backend.id())) {
                        return;
                    }
                    let mut condition = backend.status();
                    condition.is_paused = paused.has(&server.spec().reach);
                    let known = conditions.remove(&at).unwrap_or_default();
                    conditions.insert(at.clone(), known.and(condition));
                });
            }
        }
        for (at, backend) in self.eager_backends() {
            if seen.insert((at.clone(), backend.id())) {
                let known = conditions.remove(&at).unwrap_or_default();
                conditions.insert(at, known.and(backend.status()));
            }
        }
        conditions
    }

    /// Starts a server for the connected agents, or else for the next one of `caller`.
    pub async fn start_server(&self, at: &ServerRef, caller: &Caller) -> Result<(), FailedServer> {
        self.start_links(at, self.links(at, Some(caller)).wanted).await
    }

    /// Stops a server for everyone. The next request starts it again.
    pub async fn stop_server(&self, at: &ServerRef) {
        halt(self.links(at, None).all).await;
    }

    /// Stops a server, then starts the backends that were running.
    pub async fn restart(&self, at: &ServerRef, caller: &Caller) -> Result<(), FailedServer> {
        let ServerBackends { all, wanted, .. } = self.links(at, Some(caller));
        let running: Vec<_> = all
            .iter()
            .filter(|backend| backend.status().phase >= Phase::Starting)
            .cloned()
            .collect();
        halt(all).await;
        self.start_links(at, if running.is_empty() { wanted } else { running }).await
    }

    /// Stops a server and prevents further starts, or allows them again.
    pub async fn set_paused(&self, at: &ServerRef, is_paused: bool) {
        let links = self.links(at, None);
        for reach in &links.reaches {
            self.pool().paused().set(reach, is_paused);
        }
        if is_paused {
            halt(links.all).await;
        }
    }

    /// Begins a sign-in at a server for `caller` and waits for it in the background, at most 5
    /// minutes. Concurrent sign-ins share one page. The browser is redirected to the public URL or,
    /// without one, to a listener on this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has no sign-in, or its authorization server can't be
    /// determined.
    pub async fn begin_sign_in(
        &self,
        at: &ServerRef,
        caller: &Caller,
    ) -> Result<SignInPage, FailedServer> {
        let failed = |reason: String, hint: String| {
            let server = at.server.clone();
            FailedServer { server, reason, hint, wants_sign_in: true }
        };
        let gateway = self.any_gateway_for(caller);
        let sign_ins = gateway.sign_ins();
        let back = sign_ins.login_target(at).and_then(|target| sign_ins.redirect_target(&target));
        let begun = sign_ins.sign_in(at, back.unwrap_or(RedirectTarget::Listener)).await;
        let pending = begun.map_err(|failure| failed(failure.reason, failure.hint))?;
        let address = pending.address();
        if !matches!(address.scheme(), "http" | "https") {
            let hint = "report this to the operator of the server";
            return Err(failed("its sign-in URL is not HTTP".to_owned(), hint.to_owned()));
        }
        let page = SignInPage {
            address: address.to_string(),
            code: pending.user_code().map(str::to_owned),
        };
        let (server, shutdown) = (at.server.clone(), self.pool().shutdown().clone());
        // The sign-in ends when its last holder drops it.
        self.tasks().spawn(shutdown.run_until_cancelled_owned(async move {
            if let Err(failure) = pending.done().await {
                tracing::info!(%server, reason = failure.reason, "the sign-in was not completed");
            }
        }));
        Ok(page)
    }

    /// Completes the pending sign-in that the `state` parameter of a redirect to [`CALLBACK_PATH`](crate::gateway::sign_in::CALLBACK_PATH)
    /// identifies; a `state` is valid once. Returns the page for the browser.
    pub async fn complete_sign_in(&self, address: &Url) -> SignedInPage {
        self.pool().signed_in(address).await
    }

    async fn start_links(&self, at: &ServerRef, links: Vec<Backend>) -> Result<(), FailedServer> {
        let mut starting = JoinSet::new();
        for backend in links {
            starting.spawn(async move {
                backend.ensure_running(None, StartPriority::Opening).await.map(drop)
            });
        }
        let mut started = Ok(());
        while let Some(one) = starting.join_next().await {
            let one = one.unwrap_or(Err(BackendError::ShuttingDown));
            started = started.and(one.map_err(|error| failed(&at.server, &error)));
        }
        started
    }

    /// Returns the backends of a server. If no agent is connected, includes those that `caller`
    /// would use.
    fn links(&self, at: &ServerRef, caller: Option<&Caller>) -> ServerBackends {
        let mut links = ServerBackends::default();
        for (gateway, is_followed) in self.all() {
            links.add(gateway.servers(), at, is_followed);
        }
        if let Some(caller) = caller.filter(|_| links.wanted.is_empty()) {
            links.add(self.any_gateway_for(caller).servers(), at, true);
        }
        let kept = self.eager_backends().into_iter().filter(|(kept, _)| kept == at);
        links.all.extend(kept.map(|(_, backend)| backend));
        links
    }
}

impl ServerBackends {
    fn add(&mut self, servers: &Servers, at: &ServerRef, is_wanted: bool) {
        let Some(server) = servers.managed_server(at) else { return };
        let is_new = |links: &[Backend], backend: &Backend| {
            links.iter().all(|other| other.id() != backend.id())
        };
        server.for_each_backend(|backend| {
            if is_new(&self.all, backend) {
                self.all.push(backend.clone());
            }
        });
        if is_wanted && is_new(&self.wanted, &server.shared) {
            self.wanted.push(server.shared.clone());
        }
        if !self.reaches.contains(&server.spec().reach) {
            self.reaches.push(server.spec().reach.clone());
        }
    }
}

async fn halt(links: Vec<Backend>) {
    let mut halting = JoinSet::new();
    for backend in links {
        halting.spawn(async move { backend.stop().await });
    }
    while halting.join_next().await.is_some() {}
}
