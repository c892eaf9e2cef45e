//! Servers with definitions that are not as the lock has them, and what agents get of them.
//!
//! *Theory of operation.* A listing is compared with the lock before anything is made of it
//! ([`judged`](crate::gateway::judged)), and policy decides what of it is shown. What it keeps back is not in the
//! listing that the views are made of, so that no surface has it: it is as if the server did not have
//! it. A server that is not opened lists nothing. What is compared is what the server says, whatever
//! the configuration makes of it, and a listing from the store like any other. Before a call of a server
//! for which that holds, it runs and has been listed.

use std::sync::Arc;

use crate::backend::{self, Urgency};
use crate::catalog::Listing;
use crate::gateway::error::server_error;
use crate::gateway::judged::Judged;
use crate::gateway::members::Server;
use crate::gateway::opening::while_starting;
use crate::gateway::snapshot::Snapshot;
use crate::gateway::{CallError, FailedServer, Gateway, Presence, RequestContext, failed};
use crate::name::ServerRef;
use crate::policy::Heed;
use crate::raw::Member;

/// Returns `true` if some template of a server is kept from agents by one of these judgments.
fn keep_a_template_back(judged: &[Arc<Judged>]) -> bool {
    judged.iter().any(|judged| judged.keeps_back("resource template", |_| true))
}

impl Snapshot {
    /// Returns why a server is not opened, if it is because of its definitions.
    fn closed(&self, at: &ServerRef) -> Option<backend::Error> {
        let judged = self.drift(at).filter(|judged| judged.heed == Heed::Close)?;
        Some(backend::Error::StartFailed(Arc::new(judged.closed())))
    }

    /// Refuses what is asked of a server that is not opened.
    pub(crate) fn check_open(&self, at: &ServerRef) -> Result<(), CallError> {
        self.closed(at).map_or(Ok(()), |error| Err(server_error(at, error)))
    }

    /// The failure that kept a server from being opened, if it was its definitions.
    pub(crate) fn failure_of(&self, at: &ServerRef) -> Option<FailedServer> {
        self.closed(at).map(|error| failed(&at.server, &error))
    }
}

impl Gateway {
    /// Returns `true` if something of a server may be kept from agents because of its definitions.
    pub(crate) fn is_locked(&self, at: &ServerRef) -> bool {
        let toolbox = self.config.toolbox(at.toolbox.as_str());
        let server = toolbox.and_then(|toolbox| toolbox.server(at.server.as_str()));
        server.is_some_and(|server| server.definitions().is_enforced())
    }

    /// Returns `true` if a server has to be listed before something is asked of it: it never was, or
    /// what is shown of it may not be what it would say now, where that decides what agents get.
    pub(crate) fn is_to_list(
        &self,
        at: &ServerRef,
        server: &Server,
        agent: &Presence,
        snapshot: &Snapshot,
    ) -> bool {
        let shown = snapshot.version(server.shared.id());
        let may_differ = || match server.shared.running() {
            Some(live) => live.listed().version > shown,
            None => server.used_by(agent).id() == server.shared.id(),
        };
        shown == 0 || (self.is_locked(at) && may_differ())
    }

    /// Judges what an agent's own process of a server with a lock ([`Self::is_locked`]) lists, where that is not the
    /// one whose list is shown; the process is started first. Refuses one that is not opened.
    pub(crate) async fn judged_apart(
        &self,
        at: &ServerRef,
        server: &Server,
        context: &RequestContext<'_>,
    ) -> Result<Option<Arc<Judged>>, CallError> {
        let toolbox = self.config.toolbox(at.toolbox.as_str());
        let Some(of_file) = toolbox.and_then(|toolbox| toolbox.server(at.server.as_str())) else {
            return Ok(None);
        };
        let failed = |error| server_error(at, error);
        let backend = server.backend(context.agent, &self.pool).map_err(failed)?;
        if backend.id() == server.shared.id() {
            return Ok(None);
        }
        let live = if let Some(live) = backend.running() {
            live
        } else {
            backend.attach(context.agent);
            let ready = backend.ready(Some(context.agent), Urgency::Call);
            Box::pin(while_starting(&at.server, context, ready)).await.map_err(failed)?
        };
        let listing = live.listed().listing;
        let name = || self.config.name_in_lock(at.toolbox.as_str(), of_file);
        let tell = |judged: &Judged| self.listeners.tell(judged.event(at, &judged.accepting()));
        let locks = &self.world.locks;
        let judged = locks.judged((at, of_file), &listing, &self.policy, name, tell);
        match judged {
            Some(judged) if judged.heed == Heed::Close => {
                Err(failed(backend::Error::StartFailed(Arc::new(judged.closed()))))
            }
            judged => Ok(judged),
        }
    }

    /// Has a server run and be listed before anything else than a tool is asked of it, and refuses what
    /// is kept from agents.
    pub(crate) async fn check_definitions(
        &self,
        at: &ServerRef,
        method: &str,
        params: &[Member],
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let all = self.judged_now(at, context).await?;
        if all.is_empty() {
            return Ok(());
        }
        let keeps_back = |word: &str, name: &str| {
            all.iter().any(|judged| judged.keeps_back(word, |kept| kept == name))
        };
        let about = params.iter().find(|(key, _)| key == "ref").map(|(_, about)| about);
        let text = |name: &str| {
            let own = params.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            let value = own.or_else(|| about?.member(name))?;
            Some(value.text()?.into_owned())
        };
        let unknown = |what, wanted| Err(CallError::UnknownPrimitive { what, wanted });
        if let Some(name) = text("name")
            && (method.starts_with("prompts/") || about.is_some())
            && keeps_back("prompt", &name)
        {
            return unknown("prompt", name);
        }
        if let Some(uri) = text("uri") {
            self.check_address(at, &uri, &all)?;
            if about.is_some() && keep_a_template_back(&all) {
                self.check_completed(at, &uri)?;
            }
        }
        Ok(())
    }

    /// Has a server be listed before an agent hears of changes of a resource of it, and refuses what is
    /// kept from agents.
    pub(crate) async fn check_subscription(
        &self,
        at: &ServerRef,
        uri: &str,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let all = self.judged_now(at, context).await?;
        self.check_address(at, uri, &all)
    }

    /// Returns `true` if some templates of a server are kept from an agent because nobody has reviewed them, and
    /// where that cannot be told: then they may be.
    pub(crate) async fn keeps_templates_back(
        &self,
        at: &ServerRef,
        context: &RequestContext<'_>,
    ) -> bool {
        let Ok(all) = self.judged_now(at, context).await else { return true };
        keep_a_template_back(&all)
    }

    /// Returns in what a server differs from the lock now, and the agent's own process of it, if something
    /// may be kept back for that; the server is listed first where that is not known. Refuses one that is
    /// not opened.
    async fn judged_now(
        &self,
        at: &ServerRef,
        context: &RequestContext<'_>,
    ) -> Result<Vec<Arc<Judged>>, CallError> {
        if !self.is_locked(at) {
            return Ok(Vec::new());
        }
        let server = self.server(at)?;
        if self.is_to_list(at, server, context.agent, &self.snapshot()) {
            self.list_first(at, server, context).await?;
        }
        self.snapshot().check_open(at)?;
        let apart = self.judged_apart(at, server, context).await?;
        Ok(self.snapshot().drift(at).cloned().into_iter().chain(apart).collect())
    }

    /// Refuses an address that is of a template alone that is kept from agents.
    fn check_address(
        &self,
        at: &ServerRef,
        uri: &str,
        judged: &[Arc<Judged>],
    ) -> Result<(), CallError> {
        let is_of = |template: &str| template == uri || crate::catalog::fits(template, uri);
        let is_kept = |template: &str| {
            judged.iter().any(|one| one.keeps_back("resource template", |kept| kept == template))
        };
        if !judged.iter().any(|one| one.keeps_back("resource template", is_of)) {
            return Ok(());
        }
        let view = self.snapshot().view(&at.toolbox);
        let part = view.part(at.server.as_str());
        let is_shown = part.is_some_and(|part| {
            part.resources().iter().any(|one| one.uri == uri)
                || part.templates().iter().any(|one| is_of(&one.uri) && !is_kept(&one.uri))
        });
        if is_shown {
            return Ok(());
        }
        Err(CallError::UnknownPrimitive { what: "resource", wanted: uri.to_owned() })
    }

    /// The whole listing of a server that runs, as it wrote it.
    pub fn listing(&self, at: &ServerRef) -> Option<Arc<Listing>> {
        let server = self.at(&at.toolbox, &at.server)?;
        server.shared.running().map(|live| live.listed().listing)
    }

    /// The whole name that a running server has given itself, as JSON.
    pub fn server_info(&self, at: &ServerRef) -> Option<crate::raw::Raw> {
        let server = self.at(&at.toolbox, &at.server)?;
        server.shared.running()?.info()
    }
}
