//! Requests that are passed on: what happens between an agent's request and its answer.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{Outcome, events};
use crate::exposure::{self, Exposure};
use crate::frontend::asked::{Answering, Asked, send};
use crate::frontend::attribution::{attributed, attributed_result};
use crate::frontend::era::{RequestMeta, fit, harmless};
use crate::frontend::session::Session;
use crate::gateway::{Event, Presence, Question, RequestContext};
use crate::raw::{self, Raw};
use crate::wire::Closed;
use crate::wire::code::METHOD_NOT_FOUND;
use crate::wire::incoming::Reply;

/// How much of what servers say within one request may wait for the agent to take it.
const EVENTS: usize = 64;

/// The work that answers a request.
pub(crate) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Calls a tool.
pub(crate) fn call(session: Arc<Session>, asked: Asked, reply: Reply) -> Answering {
    pass(session, asked, reply, |passed| async move {
        // `passed` is not taken apart: its parts would be kept twice for as long as the call waits.
        let asked = &*passed.asked;
        let name = match asked.borrowed_text("name") {
            Ok(name) => name,
            Err(refusal) => return refusal,
        };
        let (mut arguments, mut rest) = (None, Vec::new());
        for (key, value) in &asked.params {
            match &**key {
                "name" => {}
                "arguments" => arguments = Some(value),
                _ => rest.push((key.clone(), value.clone())),
            }
        }
        let (chosen, _) = passed.session.chosen();
        let request = exposure::Request {
            name: &name,
            arguments,
            rest: &rest,
            context: &passed.context(),
            surface: asked.meta.surface(),
            chosen: &chosen,
        };
        let exposure::Reply { mut outcome, opened, switched, awaits_relisting, unread } =
            passed.exposure.call(&request).await;
        let mut has_followed = true;
        if !asked.meta.is_modern {
            if let Some(toolbox) = opened {
                let now = passed.session.exposure(&asked.meta);
                if !Arc::ptr_eq(now.gateway(), passed.exposure.gateway()) {
                    // The configuration was read anew meanwhile, and may have other servers.
                    passed.session.start_new(
                        &now,
                        &BTreeSet::from([toolbox.clone()]),
                        &passed.presence,
                    );
                }
                has_followed &= passed.session.open(&now, toolbox, awaits_relisting).await;
            }
            if !switched.is_empty() {
                let now = passed.session.exposure(&asked.meta);
                has_followed &= passed.session.switch(&now, switched, awaits_relisting).await;
            }
        }
        if let Some(unread) = unread.filter(|_| !has_followed) {
            outcome = *unread;
            passed.session.is_told().await;
        }
        passed.session.save_kept_apart().await;
        if exposure::tells_definitions(&name) {
            passed.session.tells(&outcome);
        }
        harmless(outcome, asked.meta.is_modern)
    })
}

/// The means for the work on a request.
pub(crate) struct Passed {
    pub(crate) session: Arc<Session>,
    pub(crate) exposure: Exposure,
    pub(crate) presence: Presence,
    pub(crate) asked: Arc<Asked>,
    pub(crate) events: events::Sender,
}

impl Passed {
    pub(crate) fn context(&self) -> RequestContext<'_> {
        context(&self.session, &self.presence, &self.asked.meta, &self.events)
    }
}

/// Returns the context of a request.
pub(crate) fn context<'a>(
    session: &'a Session,
    presence: &'a Presence,
    meta: &'a RequestMeta,
    events: &'a events::Sender,
) -> RequestContext<'a> {
    RequestContext {
        agent: presence,
        caller: session.caller(),
        session: session.key(),
        is_modern: meta.is_modern,
        reads_links: session.reads_links(meta),
        meta: &meta.passed_on,
        log: session.log(meta),
        events: Some(events),
        wants_progress: meta.progress_token.is_some(),
        sent: None,
    }
}

/// Does the work on a request and answers it; or goes on with work that was waiting for the agent,
/// when the request brings what it waits for.
pub(crate) fn pass<F>(
    session: Arc<Session>,
    asked: Asked,
    reply: Reply,
    work: impl FnOnce(Passed) -> F + Send + 'static,
) -> Answering
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let asked = Arc::new(asked);
    if asked.param("requestState").is_none() {
        let running = Running::new(&session, &asked, work);
        return Box::pin(running.accompany(session, asked, reply));
    }
    Box::pin(async move {
        let running = match session.app().suspended.resume(&session, &asked).await {
            Some(Ok(running)) => running,
            Some(Err(refusal)) => return send(reply, refusal).await,
            None => Running::new(&session, &asked, work),
        };
        running.accompany(session, asked, reply).await;
    })
}

/// Work on a request, and what servers say meanwhile.
pub(crate) struct Running {
    pub(crate) work: Work,
    pub(crate) events: events::Receiver,
}

impl Running {
    fn new<F>(session: &Arc<Session>, asked: &Arc<Asked>, work: impl FnOnce(Passed) -> F) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (sender, events) = events::channel(EVENTS);
        let passed = Passed {
            session: Arc::clone(session),
            exposure: session.exposure(&asked.meta),
            presence: session.presence(&asked.meta),
            asked: Arc::clone(asked),
            events: sender,
        };
        Self { work: Box::pin(work(passed)), events }
    }

    async fn accompany(self, session: Arc<Session>, asked: Arc<Asked>, reply: Reply) {
        if self.until_answered(&session, &asked, reply).await.is_err() {
            tracing::debug!(method = asked.method, "the agent left before its answer");
        }
    }

    /// Tells the agent what comes while the work is done, and answers with what comes of it.
    async fn until_answered(
        mut self,
        session: &Arc<Session>,
        asked: &Arc<Asked>,
        reply: Reply,
    ) -> Result<(), Closed> {
        let is_modern = asked.meta.is_modern;
        self.events.belongs_to(reply.cancellation());
        // Those it has been asked; what is still asked when the work is done is given up.
        let mut asking = Vec::new();
        let outcome = loop {
            tokio::select! {
                biased;
                () = reply.cancelled() => return Ok(()),
                Some(event) = self.events.recv() => match attributed(|| session.app().gateways.config(), event) {
                    Event::Question(question) if !session.can_answer(&question.method, &asked.meta) => {
                        let reason = "the agent's client cannot be asked that";
                        question.decline(METHOD_NOT_FOUND, reason);
                    }
                    Event::Question(question) if is_modern => {
                        let suspended = &session.app().suspended;
                        let required = Box::pin(suspended.suspend(session, asked, self, *question));
                        return Box::pin(reply.answer(Outcome::Result(required.await))).await;
                    }
                    Event::Question(question) => asking.push(ask(session, &reply, *question)),
                    event => Box::pin(tell(&reply, &asked.meta, event)).await?,
                },
                outcome = &mut self.work => break outcome,
            }
        };
        while let Some(event) = self.events.try_recv() {
            Box::pin(tell(&reply, &asked.meta, event)).await?;
        }
        // An older agent is asked each question by itself.
        let outcome = if is_modern {
            let config = || session.app().gateways.config().policy.has_confirmations();
            attributed_result(config, outcome)
        } else {
            outcome
        };
        reply.answer(fit(outcome, is_modern)).await
    }
}

/// Asks a legacy agent something that belongs to its request.
fn ask(session: &Arc<Session>, reply: &Reply, question: Question) -> AbortOnDropHandle<()> {
    let (asking, asker) = (Arc::clone(session), reply.asker());
    let asked = session.app().tasks.spawn(async move {
        let (method, params) = (question.method.clone(), question.params.clone());
        asking.put(question, asker.ask(&method, params)).await;
    });
    AbortOnDropHandle::new(asked)
}

/// Tells the agent of what happens while its request is worked on.
pub(crate) async fn tell(reply: &Reply, meta: &RequestMeta, event: Event) -> Result<(), Closed> {
    match event {
        Event::Progress(params) => {
            let Some(token) = &meta.progress_token else { return Ok(()) };
            let params = params.with_member("progressToken", token).unwrap_or(params);
            reply.notify("notifications/progress", Some(params)).await
        }
        Event::Notice { method, params } => reply.notify(&method, params).await,
        // The work is done, so nobody waits for the answer.
        Event::Question(_) => Ok(()),
    }
}

/// The answer to a modern agent when a server wants to know something first.
pub(crate) fn input_required(question: &Question, state: &str) -> Raw {
    let mut wanted = json!({"method": question.method});
    let params = question.params.clone().unwrap_or_else(|| Raw::encode(&json!({})));
    wanted["params"] = json!(null);
    let request = Raw::encode(&wanted).with_member("params", &params).unwrap_or(params);
    let requests = raw::object([(QUESTION, &request)]);
    raw::object([
        ("resultType", &Raw::encode(&"input_required")),
        ("inputRequests", &requests),
        ("requestState", &Raw::encode(&state)),
    ])
}

/// The key of the one question that is asked at a time.
pub(crate) const QUESTION: &str = "question";
