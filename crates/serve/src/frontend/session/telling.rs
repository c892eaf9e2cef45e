//! Messages to an agent that it has not asked for: servers' news that belongs to no request, and
//! their questions.

use std::sync::{Arc, PoisonError};

use crate::backend::events;
use crate::frontend::attribution::attributed_question;
use crate::frontend::era::RequestMeta;
use crate::frontend::session::{Current, Session};
use crate::gateway::{Event, Question};
use crate::wire::agent::Notifier;
use crate::wire::code::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use crate::wire::mailbox::RequestError;
use crate::wire::outgoing::Pending;

impl Session {
    /// Tells an agent what belongs to no request of it.
    pub(super) async fn tell_events(
        notifier: Notifier,
        current: Current,
        mut events: events::Receiver,
    ) {
        while let Some(event) = events.recv().await {
            match event {
                // It belongs to a request, and goes with that.
                Event::Progress(_) => {}
                Event::Notice { method, params } => {
                    if notifier.notify(&method, params).await.is_err() {
                        tracing::debug!(method, "the agent is gone");
                    }
                }
                Event::Question(question) => {
                    let session = current.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
                    let (Some(session), notifier) = (session, notifier.clone()) else { return };
                    let question = attributed_question(&session.app().gateways.config(), *question);
                    let asking = Arc::clone(&session);
                    asking.spawn(async move {
                        let (method, params) = (question.method.clone(), question.params.clone());
                        let asked = notifier.ask(&method, params);
                        session.put(question, asked).await;
                    });
                }
            }
        }
    }

    /// Puts a question to a legacy agent and gives its answer back.
    pub(crate) async fn put(
        &self,
        mut question: Question,
        asked: impl Future<Output = Result<Pending, RequestError>>,
    ) {
        if !self.can_answer(&question.method, &RequestMeta::legacy()) {
            question.decline(METHOD_NOT_FOUND, "the agent's client cannot be asked that");
            return;
        }
        let answer = match asked.await {
            Ok(mut pending) => tokio::select! {
                answer = pending.done() => answer,
                () = question.withdrawn() => return,
            },
            Err(error) => Err(error),
        };
        match answer {
            Ok(outcome) => question.answer(outcome).await,
            Err(_) => question.decline(INTERNAL_ERROR, "the agent's client did not answer"),
        }
    }
}
