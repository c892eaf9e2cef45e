//! Limits on rate and concurrency: of one agent, of one server, and in all.
//!
//! *Theory of operation.* A call is first counted, and refused where there were too many in a minute;
//! then it waits for a place, of its agent, of its server, in all, and keeps these until it is answered
//! or given up. Agents that wait for the same places have them in turns.

use std::sync::Arc;

use tokio::time::{Instant, timeout};

use crate::gateway::limiters::Limiter;
use crate::gateway::members::Server;
use crate::gateway::opening::while_waiting;
use crate::gateway::turns::Place;
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::name::ToolId;
use crate::observe::{CallContext, Stop};

/// The places that a running call has; they are free again when this is dropped.
pub(crate) struct Places {
    _taken: Vec<Place>,
}

impl Gateway {
    /// Returns all limiters of a call of this server.
    fn limiters_of<'a>(&'a self, server: &'a Server) -> impl Iterator<Item = &'a Arc<Limiter>> {
        // Who has used up its own share takes nothing of what others share with it.
        [&self.limiters.agent, &server.limiter, &self.limiters.in_all].into_iter().flatten()
    }

    /// Counts a call where calls of this agent or this server are limited, unless there have been
    /// too many in the last minute.
    pub(crate) async fn count(
        &self,
        tool: &ToolId,
        server: &Server,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        for limiter in self.limiters_of(server) {
            let Err(wait) = limiter.count().await else { continue };
            call.details.stopped_by = Some(Stop::Rate);
            let most = limiter.rates.calls_per_minute().map_or(0, std::num::NonZeroU32::get);
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            return Err(CallError::Refused {
                tool: tool.clone(),
                reason: format!(
                    "there have been too many calls of {}, which may be {most} a minute",
                    limiter.whose
                ),
                hint: format!("wait {seconds} s, then call it again"),
            });
        }
        Ok(())
    }

    /// Returns `true` if calls of this server are counted.
    pub(crate) fn has_rates(&self, server: &Server) -> bool {
        self.limiters_of(server).any(|limiter| limiter.rate.is_some())
    }

    /// Returns `true` if calls of this server may have to wait for others to end.
    pub(crate) fn has_places(&self, server: &Server) -> bool {
        self.limiters_of(server).any(|limiter| limiter.places.is_some())
    }

    /// How many calls of this agent may run at the same time, whichever servers they are of.
    pub(crate) fn most_at_once(&self) -> Option<u32> {
        let limiters = [&self.limiters.agent, &self.limiters.in_all].into_iter().flatten();
        limiters.filter_map(|limiter| Some(limiter.rates.concurrent_calls()?.get())).min()
    }

    /// Waits in line until no more calls are running than may.
    pub(crate) async fn take_places(
        &self,
        tool: &ToolId,
        server: &Server,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<Places, CallError> {
        let since = Instant::now();
        let mut full = None;
        let taking = async {
            let mut taken = Vec::new();
            for limiter in self.limiters_of(server) {
                let Some(places) = &limiter.places else { continue };
                full = Some(limiter);
                taken.push(places.take(self.limiters.caller.clone()).await);
            }
            Places { _taken: taken }
        };
        let message = || "waiting for other calls to end".to_owned();
        let taking = while_waiting(message, context, timeout(self.limiters.max_wait, taking));
        let places = Box::pin(taking).await;
        call.details.waited = since.elapsed();
        places.map_err(|_| {
            call.details.stopped_by = Some(Stop::Concurrency);
            let whose = full.map_or("", |limiter| &limiter.whose);
            let most = full.and_then(|limiter| limiter.rates.concurrent_calls());
            CallError::Refused {
                tool: tool.clone(),
                reason: format!(
                    "as many calls of {whose} are running as may ({}), and none has ended for {} s",
                    most.map_or(0, std::num::NonZeroU32::get),
                    self.limiters.max_wait.as_secs_f32(),
                ),
                hint: "wait for other calls to end, then call it again".to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests;
