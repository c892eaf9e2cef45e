//! Enforces the lock: withholds definitions that differ from `workbench.lock`.
//!
//! A listing is compared with the lock before views are built from it
//! ([`drift`](crate::gateway::drift)), and policy decides what to do about drift. Withheld
//! definitions are removed from the listing, so that nothing shows them; a blocked server lists
//! nothing. The comparison uses the raw listing, before the configuration's changes, whether it is
//! live or stored. If the lock is enforced, a server is started and listed before a call.

use std::sync::Arc;

use crate::backend::{self, StartPriority};
use crate::catalog::Listing;
use crate::gateway::access::RequestTarget;
use crate::gateway::drift::ListingDrift;
use crate::gateway::error::server_error;
use crate::gateway::managed_server::ManagedServer;
use crate::gateway::open_toolbox::while_starting;
use crate::gateway::snapshot::Snapshot;
use crate::gateway::{AgentHandle, CallError, FailedServer, Gateway, RequestContext, failed};
use crate::name::ServerRef;
use crate::policy::{DriftAction, may_be_same_resource};

fn has_withheld_resource(judged: &[Arc<ListingDrift>]) -> bool {
    let kinds = ["resource", "resource template"];
    judged.iter().any(|judged| kinds.iter().any(|kind| judged.withholds(kind, |_| true)))
}

impl Snapshot {
    fn blocked_error(&self, at: &ServerRef) -> Option<backend::BackendError> {
        let judged = self.drift(at).filter(|judged| judged.action == DriftAction::Deny)?;
        Some(backend::BackendError::StartFailed(Arc::new(judged.closed())))
    }

    pub(crate) fn check_open(&self, at: &ServerRef) -> Result<(), CallError> {
        self.blocked_error(at).map_or(Ok(()), |error| Err(server_error(at, error)))
    }

    pub(crate) fn failure_of(&self, at: &ServerRef) -> Option<FailedServer> {
        self.blocked_error(at).map(|error| failed(&at.server, &error))
    }
}

impl Gateway {
    pub(crate) fn enforces_lock(&self, at: &ServerRef) -> bool {
        let toolbox = self.config.toolbox(at.toolbox.as_str());
        let server = toolbox.and_then(|toolbox| toolbox.server(at.server.as_str()));
        server.is_some_and(|server| server.effective_drift_policy().is_enforced())
    }

    /// Returns `true` if the server has to be listed before a request: it never was, or the lock is
    /// enforced and the shown listing may be outdated.
    pub(crate) fn needs_listing(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        agent: &AgentHandle,
        snapshot: &Snapshot,
    ) -> bool {
        let shown = snapshot.version(server.shared.id());
        let may_differ = || match server.shared.connection() {
            Some(live) => live.listed().version > shown,
            None => server.current_backend(agent).id() == server.shared.id(),
        };
        shown == 0 || (self.enforces_lock(at) && may_differ())
    }

    /// Returns the drift of an agent's dedicated backend; `None` if it has none. Starts that
    /// backend if it isn't running. Fails if it is blocked.
    pub(crate) async fn drift_of_dedicated_backend(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<Option<Arc<ListingDrift>>, CallError> {
        let toolbox = self.config.toolbox(at.toolbox.as_str());
        let Some(of_file) = toolbox.and_then(|toolbox| toolbox.server(at.server.as_str())) else {
            return Ok(None);
        };
        let failed = |error| server_error(at, error);
        let backend = server.backend(context.agent, &self.pool).map_err(failed)?;
        if backend.id() == server.shared.id() {
            return Ok(None);
        }
        let live = if let Some(live) = backend.connection() {
            live
        } else {
            backend.attach(context.agent);
            let ready = backend.ensure_running(Some(context.agent), StartPriority::Call);
            Box::pin(while_starting(&at.server, context, ready)).await.map_err(failed)?
        };
        let listing = live.listed().listing;
        let name = || self.config.lock_key(at.toolbox.as_str(), of_file);
        let tell = |judged: &ListingDrift| {
            self.instrumentation.listeners.emit(judged.event(at, &judged.accepting()));
        };
        let locks = &self.interner.locks;
        let judged = locks.judged((at, of_file), &listing, &self.policy, name, tell);
        match judged {
            Some(judged) if judged.action == DriftAction::Deny => {
                Err(failed(backend::BackendError::StartFailed(Arc::new(judged.closed()))))
            }
            judged => Ok(judged),
        }
    }

    /// Checks a request against the lock; starts and lists the server if needed. Fails if the
    /// server is blocked or the primitive is withheld.
    pub(crate) async fn check_definitions(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let all = self.current_drift(at, context).await?;
        match target {
            RequestTarget::Prompt(name) | RequestTarget::PromptCompletion(name) => {
                let is_withheld =
                    all.iter().any(|judged| judged.withholds("prompt", |kept| kept == name));
                let unknown =
                    || CallError::UnknownPrimitive { what: "prompt", wanted: name.clone() };
                if is_withheld { Err(unknown()) } else { Ok(()) }
            }
            RequestTarget::Resource(uri) => self.check_address(at, uri, &all),
            RequestTarget::ResourceCompletion(uri) => {
                self.check_address(at, uri, &all)?;
                if has_withheld_resource(&all) { self.check_completed(at, uri) } else { Ok(()) }
            }
            RequestTarget::Task(_) => Ok(()),
        }
    }

    /// Returns `true` if resources or templates of the server are withheld, or if that can't be
    /// determined.
    pub(crate) async fn has_withheld_resources(
        &self,
        at: &ServerRef,
        context: &RequestContext<'_>,
    ) -> bool {
        let Ok(all) = self.current_drift(at, context).await else { return true };
        has_withheld_resource(&all)
    }

    /// Returns the drift of the shared listing and of the agent's dedicated backend; empty unless
    /// the lock is enforced. Starts the server if its listing is unknown. Fails if the server is
    /// blocked.
    async fn current_drift(
        &self,
        at: &ServerRef,
        context: &RequestContext<'_>,
    ) -> Result<Vec<Arc<ListingDrift>>, CallError> {
        if !self.enforces_lock(at) {
            return Ok(Vec::new());
        }
        let server = self.require_server(at)?;
        if self.needs_listing(at, server, context.agent, &self.snapshot()) {
            self.ensure_server_listed(at, server, context).await?;
        }
        self.snapshot().check_open(at)?;
        let apart = self.drift_of_dedicated_backend(at, server, context).await?;
        Ok(self.snapshot().drift(at).cloned().into_iter().chain(apart).collect())
    }

    /// Refuses the URI of a withheld resource, and one that only matches withheld templates.
    fn check_address(
        &self,
        at: &ServerRef,
        uri: &str,
        judged: &[Arc<ListingDrift>],
    ) -> Result<(), CallError> {
        let unknown =
            || Err(CallError::UnknownPrimitive { what: "resource", wanted: uri.to_owned() });
        let withholds = |kind: &str, is_meant: &dyn Fn(&str) -> bool| {
            judged.iter().any(|one| one.withholds(kind, is_meant))
        };
        if withholds("resource", &|kept| kept == uri) {
            return unknown();
        }
        let is_of =
            |template: &str| template == uri || crate::catalog::may_expand_to(template, uri);
        let is_kept = |template: &str| withholds("resource template", &|kept| kept == template);
        let is_of_withheld = withholds("resource template", &is_of);
        let may_be_withheld = withholds("resource", &|kept| may_be_same_resource(uri, kept));
        if !is_of_withheld && !may_be_withheld {
            return Ok(());
        }
        let view = self.snapshot().view(&at.toolbox);
        let part = view.part(at.server.as_str());
        let is_shown = part.is_some_and(|part| {
            part.resources().iter().any(|one| one.uri == uri)
                || !may_be_withheld
                    && part.templates().iter().any(|one| is_of(&one.uri) && !is_kept(&one.uri))
        });
        if is_shown { Ok(()) } else { unknown() }
    }

    /// Returns the complete, unfiltered listing of a running server.
    pub fn full_listing(&self, at: &ServerRef) -> Option<Arc<Listing>> {
        let server = self.managed_server(&at.toolbox, &at.server)?;
        server.shared.connection().map(|live| live.listed().listing)
    }

    /// Returns the `serverInfo` of a running server, as JSON.
    pub fn server_info(&self, at: &ServerRef) -> Option<crate::json::RawJson> {
        let server = self.managed_server(&at.toolbox, &at.server)?;
        server.shared.connection()?.info()
    }
}
