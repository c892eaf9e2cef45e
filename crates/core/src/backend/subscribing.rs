//! Changes of resources that agents want to hear of.

use crate::backend::handshake::Era;
use crate::backend::users::AgentId;
use crate::backend::{Backend, Error, Live, Presence, Urgency};
use crate::policy::Admission;
use crate::raw::{self, Raw};
use crate::wire::server::Outcome;

impl Backend {
    /// Hears of changes of a resource, for an agent who knows it as `as_known`.
    pub async fn subscribe(
        &self,
        admission: &Admission,
        agent: &Presence,
        uri: &str,
        as_known: &str,
    ) -> Result<Outcome, Error> {
        self.shared.board.attach(agent, &self.name);
        let is_first = self.shared.board.subscribe(agent, uri, as_known, admission.hearing());
        let live = self.ready(Some(agent), Urgency::Call).await?;
        if is_first {
            let answer = self.tell_of_subscription(&live, "resources/subscribe", uri).await;
            if let Err(Outcome::Error(error)) = answer {
                self.shared.board.unsubscribe(agent.id, uri);
                return Ok(Outcome::Error(error));
            }
        }
        Ok(Outcome::Result(raw::object([])))
    }

    /// Lets an agent hear of those of its resources alone that it may still have.
    pub fn judge_again(&self, agent: AgentId, admit: impl Fn(&str) -> Option<Admission>) {
        for uri in self.shared.board.judge_again(agent, |uri| Some(admit(uri)?.hearing().cloned()))
        {
            tracing::debug!(server = &*self.name, uri, "a subscription ends with its permission");
        }
    }

    /// Takes that back.
    pub async fn unsubscribe(&self, agent: &Presence, uri: &str) {
        if self.shared.board.unsubscribe(agent.id, uri)
            && let Some(live) = self.running()
        {
            // There is nothing to be done about a server that does not take it.
            let _ = self.tell_of_subscription(&live, "resources/unsubscribe", uri).await;
        }
    }

    async fn tell_of_subscription(
        &self,
        live: &Live,
        method: &str,
        uri: &str,
    ) -> Result<(), Outcome> {
        match live.era() {
            Era::Legacy => {
                let uri = Raw::encode(&uri);
                live.outcome(method, &[("uri", &uri)]).await
            }
            Era::Modern => {
                self.shared.board.subscriptions_changed.notify_one();
                Ok(())
            }
        }
    }
}
