//! Rate and concurrency limits per agent, per server and in total.
//!
//! A call is first counted and refused if its rate is exceeded. Then it waits for a slot of its
//! agent, of its server and in total, and holds them until it is answered or dropped. Agents get
//! slots in round-robin order.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::gateway::caller::Caller;
use crate::gateway::error::CallError;
use crate::gateway::fair_queue::SlotGuard;
use crate::gateway::limits::{Limiter, Limiters};
use crate::gateway::managed_server::ManagedServer;
use crate::gateway::progress::with_heartbeat;
use crate::gateway::request_context::RequestContext;
use crate::telemetry::{CallContext, CallStopReason};
use mcp_workbench_names::{AgentName, ToolId};
use mcp_workbench_settings::Config;

/// The slots of a running call, released on drop.
pub(crate) struct CallSlotsGuard {
    _taken: Vec<SlotGuard>,
}

/// The limiters of a gateway's calls, apart from those of each server.
pub(crate) struct GatewayLimiters {
    agent: Option<Arc<Limiter>>,
    in_all: Option<Arc<Limiter>>,
    max_wait: Duration,
    caller: Option<AgentName>,
}

impl GatewayLimiters {
    pub(crate) fn new(limiters: &Limiters, caller: &Caller, config: &Config) -> Self {
        Self {
            agent: limiters.of_agent(caller.agent.as_ref(), config),
            in_all: limiters.of_all(config),
            max_wait: config.limits.max_wait,
            caller: caller.agent.clone(),
        }
    }

    fn limiters_of<'a>(
        &'a self,
        server: &'a ManagedServer,
    ) -> impl Iterator<Item = &'a Arc<Limiter>> {
        // Own limits first, so that an agent over its limit doesn't use up shared ones.
        [&self.agent, &server.settings.limiter, &self.in_all].into_iter().flatten()
    }

    /// Counts a call. Fails if the agent, the server or all together exceed their rate.
    pub(crate) async fn check_rate_limits(
        &self,
        tool: &ToolId,
        server: &ManagedServer,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        if self.limiters_of(server).all(|limiter| limiter.rate.is_none()) {
            return Ok(());
        }
        Box::pin(self.count_call(tool, server, call)).await
    }

    async fn count_call(
        &self,
        tool: &ToolId,
        server: &ManagedServer,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        for limiter in self.limiters_of(server) {
            let Err(wait) = limiter.count().await else { continue };
            call.end.stop_reason = Some(CallStopReason::Rate);
            let most = limiter.rates.calls_per_minute().map_or(0, std::num::NonZeroU32::get);
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            return Err(CallError::Refused {
                tool: tool.clone(),
                reason: format!(
                    "too many calls {} (limit: {most} per minute)",
                    limiter.subject_label
                ),
                hint: format!("retry in {seconds} s"),
            });
        }
        Ok(())
    }

    /// Returns the number of concurrent calls that this agent may have on any server.
    pub(crate) fn max_concurrency(&self) -> Option<u32> {
        let limiters = [&self.agent, &self.in_all].into_iter().flatten();
        limiters.filter_map(|limiter| Some(limiter.rates.max_concurrent_calls()?.get())).min()
    }

    /// Waits for a slot of each concurrency limit, at most `limits.maxWaitMs`.
    pub(crate) async fn acquire_slots(
        &self,
        tool: &ToolId,
        server: &ManagedServer,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<CallSlotsGuard, CallError> {
        if self.limiters_of(server).all(|limiter| limiter.places.is_none()) {
            return Ok(CallSlotsGuard { _taken: Vec::new() });
        }
        Box::pin(self.wait_for_slots(tool, server, context, call)).await
    }

    async fn wait_for_slots(
        &self,
        tool: &ToolId,
        server: &ManagedServer,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<CallSlotsGuard, CallError> {
        let since = Instant::now();
        let mut full = None;
        let taking = async {
            let mut taken = Vec::new();
            for limiter in self.limiters_of(server) {
                let Some(places) = &limiter.places else { continue };
                full = Some(limiter);
                taken.push(places.acquire(self.caller.clone()).await);
            }
            CallSlotsGuard { _taken: taken }
        };
        let message = || "waiting for other calls to end".to_owned();
        let taking = with_heartbeat(message, context, timeout(self.max_wait, taking));
        let places = taking.await;
        call.end.queued = since.elapsed();
        places.map_err(|_| {
            call.end.stop_reason = Some(CallStopReason::Concurrency);
            let whose = full.map_or("", |limiter| &limiter.subject_label);
            let most = full.and_then(|limiter| limiter.rates.max_concurrent_calls());
            CallError::Refused {
                tool: tool.clone(),
                reason: format!(
                    "too many concurrent calls {whose} (limit: {}), and none ended within {} s",
                    most.map_or(0, std::num::NonZeroU32::get),
                    self.max_wait.as_secs_f32(),
                ),
                hint: "retry after other calls have ended".to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests;
