//! Resource subscriptions of agents.

use crate::backend::handshake::Era;
use crate::backend::message_router::NewSubscription;
use crate::backend::principal::AgentId;
use crate::backend::quota::SubscriptionLimitError;
use crate::backend::{AgentHandle, Backend, BackendConnection, BackendError, StartPriority};
use crate::policy::Admission;
use mcp_workbench_settings::CallerLimits;
use mcp_workbench_wire::json::{self, RawJson};
use mcp_workbench_wire::server::RpcOutcome;

impl Backend {
    /// Subscribes an agent to a resource, which it knows as `as_known`. The outer error says that
    /// the agent has too many subscriptions.
    pub async fn subscribe(
        &self,
        admission: &Admission,
        agent: &AgentHandle,
        (uri, as_known): (&str, &str),
        limits: &CallerLimits,
    ) -> Result<Result<RpcOutcome, BackendError>, SubscriptionLimitError> {
        let router = &self.shared.router;
        router.attach(agent, &self.name);
        let hears = admission.resource_scope();
        let added = router.subscribe(agent, uri, as_known, hears, limits)?;
        let subscribed = async {
            let live = self.ensure_running(Some(agent), StartPriority::Call).await?;
            if added == NewSubscription::First
                && let Err(refused @ RpcOutcome::Error(_)) =
                    self.tell_of_subscription(&live, "resources/subscribe", uri).await
            {
                return Ok(refused);
            }
            Ok(RpcOutcome::Result(json::object([])))
        };
        let subscribed = subscribed.await;
        if added != NewSubscription::None && !matches!(subscribed, Ok(RpcOutcome::Result(_))) {
            router.unsubscribe(agent.id, uri);
        }
        Ok(subscribed)
    }

    /// Ends the subscriptions of an agent that `admit` no longer allows, and restricts the others.
    pub fn recheck_subscriptions(&self, agent: AgentId, admit: impl Fn(&str) -> Option<Admission>) {
        for uri in self
            .shared
            .router
            .recheck_subscriptions(agent, |uri| Some(admit(uri)?.resource_scope().cloned()))
        {
            tracing::debug!(
                server = &*self.name,
                uri,
                "ended a subscription that is no longer allowed"
            );
        }
    }

    /// Cancels an agent's subscription to a resource.
    pub async fn unsubscribe(&self, agent: &AgentHandle, uri: &str) {
        if self.shared.router.unsubscribe(agent.id, uri)
            && let Some(live) = self.connection()
        {
            // The server keeps sending updates if this fails; without subscribers they are dropped.
            let _ = self.tell_of_subscription(&live, "resources/unsubscribe", uri).await;
        }
    }

    async fn tell_of_subscription(
        &self,
        live: &BackendConnection,
        method: &str,
        uri: &str,
    ) -> Result<(), RpcOutcome> {
        match live.era() {
            Era::Legacy => {
                let uri = RawJson::encode(&uri);
                live.request_ack(method, &[("uri", &uri)]).await
            }
            Era::Modern => {
                self.shared.router.subscriptions_changed.notify_one();
                Ok(())
            }
        }
    }
}
