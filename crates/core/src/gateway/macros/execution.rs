//! Runs the steps of a macro as calls, several at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use serde_json::json;

use crate::backend::{AgentEvent, RpcOutcome, events};
use crate::gateway::macros::failure_report::{self, StepStatus, describe_call_error};
use crate::gateway::macros::plan::Plan;
use crate::gateway::macros::result;
use crate::gateway::macros::values::{MissingValueError, Values, value_of};
use crate::gateway::open_toolbox::heartbeat;
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::json::RawJson;
use crate::settings::{MacroConfig, StepConfig};

const EVENTS: usize = 16;
/// Maximum number of parallel steps. A lower concurrency limit applies here too, because a step
/// that waits for a slot could time out.
const MAX_PARALLEL_STEPS: usize = 8;

struct RunningStep<'a> {
    at: usize,
    call: Pin<Box<dyn Future<Output = Result<RawJson, String>> + Send + 'a>>,
}

struct MacroRun<'a> {
    gateway: &'a Gateway,
    config: &'a MacroConfig,
    context: RequestContext<'a>,
    /// For each step, `true` once it was sent to its server.
    sent: &'a [AtomicBool],
    most: usize,
    plan: Plan<'a>,
    running: Vec<RunningStep<'a>>,
    stages: Vec<StepStatus>,
    values: Values<'a>,
    last: Option<RawJson>,
    /// `true` if no further step starts.
    is_over: bool,
    /// Why no further step starts, unless a step failed.
    stop_reason: Option<&'static str>,
}

impl Gateway {
    /// Runs the steps of a macro. After a failure, waits only for the steps already sent. Dropping
    /// the future cancels the running calls.
    pub(crate) async fn run_macro(
        &self,
        config: &MacroConfig,
        inputs: Option<RawJson>,
        context: &RequestContext<'_>,
    ) -> RpcOutcome {
        let steps = &config.steps;
        let (sender, mut heard) = events::channel(EVENTS);
        let sent: Vec<_> = steps.iter().map(|_| AtomicBool::new(false)).collect();
        let mut run = MacroRun {
            gateway: self,
            config,
            // Progress of parallel steps can't be merged. Server requests have to be answered
            // during the run, because the agent can't repeat the request of a single step.
            context: RequestContext {
                is_modern: false,
                wants_progress: false,
                events: context.events.map(|_| &sender),
                ..*context
            },
            sent: &sent,
            most: self
                .limiters
                .max_concurrency()
                .map_or(MAX_PARALLEL_STEPS, |most| MAX_PARALLEL_STEPS.min(most as usize)),
            plan: Plan::new(steps),
            running: Vec::new(),
            stages: steps.iter().map(|_| StepStatus::NotBegun).collect(),
            values: Values::new(inputs),
            last: None,
            is_over: false,
            stop_reason: None,
        };
        let mut progress = MacroProgress { context, total: steps.len(), done: 0, beats: 0 };
        let mut heartbeat = heartbeat();
        loop {
            run.begin();
            if run.running.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(event) = heard.recv() => pass_on(event, context).await,
                (at, ended) = next(&mut run.running) => {
                    if run.ended(at, ended) {
                        progress.done(&steps[at]).await;
                    }
                }
                _ = heartbeat.tick() => progress.beat().await,
            }
        }
        while let Some(event) = heard.try_recv() {
            // The requests of finished steps need no answer.
            if !matches!(event, AgentEvent::Request(_)) {
                pass_on(event, context).await;
            }
        }
        run.outcome()
    }
}

impl<'a> MacroRun<'a> {
    /// Starts the steps that are ready, up to the limit. Once the run is over, drops the steps that
    /// were not sent yet.
    fn begin(&mut self) {
        if !self.is_over {
            self.begin_more();
        }
        if self.is_over {
            self.running.retain(|step| self.sent[step.at].load(Ordering::Relaxed));
        }
    }

    fn begin_more(&mut self) {
        let steps = &self.config.steps;
        let ready = self.plan.begin(self.most.saturating_sub(self.running.len()));
        if !ready.is_empty() && self.gateway.is_replaced.load(Ordering::Relaxed) {
            self.is_over = true;
            self.stop_reason = Some("the configuration has changed in the meantime");
            return;
        }
        let mut begun = Vec::new();
        for at in ready {
            match arguments(&steps[at], &self.values) {
                Ok(given) => begun.push((at, given)),
                Err(MissingValueError(pointer)) => {
                    self.stages[at] = StepStatus::Failed(format!("no value at `{pointer}`"));
                    self.is_over = true;
                }
            }
        }
        // If the arguments of one step are missing, none of this batch starts.
        for (at, given) in begun.into_iter().filter(|_| !self.is_over) {
            let context = RequestContext { sent_flag: Some(&self.sent[at]), ..self.context };
            self.running.push(self.step(at, given, context));
        }
    }

    fn step(
        &self,
        at: usize,
        given: Option<RawJson>,
        context: RequestContext<'a>,
    ) -> RunningStep<'a> {
        let (gateway, tool) = (self.gateway, &self.config.steps[at].tool);
        let call =
            Box::pin(async move { ended(gateway.call(tool, given.as_ref(), &[], &context).await) });
        RunningStep { at, call }
    }

    fn ended(&mut self, at: usize, ended: Result<RawJson, String>) -> bool {
        let steps = &self.config.steps;
        let is_done = ended.is_ok();
        self.stages[at] = match ended {
            Ok(result) => {
                self.values.add(&steps[at].name, value_of(&result));
                if at + 1 == steps.len() {
                    self.last = Some(result);
                }
                self.plan.done(at);
                StepStatus::Done
            }
            Err(why) => StepStatus::Failed(why),
        };
        self.is_over |= !is_done;
        is_done
    }

    fn outcome(self) -> RpcOutcome {
        let Self { config, stages, values, last, is_over, stop_reason: besides, .. } = self;
        let made = match (&config.result, last) {
            _ if is_over => None,
            (None, last) => last.map(|last| Ok(RpcOutcome::Result(last))),
            (Some(template), _) => Some(values.fill(template).map(|value| result(&value))),
        };
        match made {
            Some(Ok(outcome)) => outcome,
            Some(Err(MissingValueError(pointer))) => {
                let why = format!("no value for the result at `{pointer}`");
                failure_report::failure_report(config, &stages, &values, Some(&why))
            }
            None => failure_report::failure_report(config, &stages, &values, besides),
        }
    }
}

async fn pass_on(event: AgentEvent, context: &RequestContext<'_>) {
    if let (Some(events), false) = (context.events, matches!(event, AgentEvent::Progress(_))) {
        // If the agent is gone, its call is cancelled elsewhere.
        let _ = events.send(event).await;
    }
}

fn arguments(step: &StepConfig, values: &Values<'_>) -> Result<Option<RawJson>, MissingValueError> {
    step.arguments.as_ref().map(|arguments| values.fill(arguments)).transpose()
}

fn ended(called: Result<RpcOutcome, CallError>) -> Result<RawJson, String> {
    match called {
        Ok(RpcOutcome::Result(result)) => {
            let is = |key: &str, value: &str| {
                result.member(key).is_some_and(|said| said.as_bytes() == value.as_bytes())
            };
            if is("isError", "true") {
                return Err(failure_report::error_of(&result));
            }
            if is("resultType", r#""task""#) {
                return Err("its server runs it as a task, which macros do not support".to_owned());
            }
            Ok(result)
        }
        Ok(RpcOutcome::Error(error)) => {
            let message = error.member("message");
            Err(message
                .as_ref()
                .and_then(RawJson::decode_string_lossy)
                .unwrap_or_default()
                .into_owned())
        }
        Err(error) => Err(describe_call_error(&error)),
    }
}

async fn next(running: &mut Vec<RunningStep<'_>>) -> (usize, Result<RawJson, String>) {
    poll_fn(|context| {
        for index in 0..running.len() {
            if let Poll::Ready(ended) = running[index].call.as_mut().poll(context) {
                return Poll::Ready((running.swap_remove(index).at, ended));
            }
        }
        Poll::Pending
    })
    .await
}

struct MacroProgress<'a> {
    context: &'a RequestContext<'a>,
    total: usize,
    done: u32,
    /// Heartbeats since the last step finished.
    beats: u32,
}

impl MacroProgress<'_> {
    async fn done(&mut self, step: &StepConfig) {
        self.done += 1;
        self.beats = 0;
        self.tell(format!("step `{}` is done", step.name)).await;
    }

    async fn beat(&mut self) {
        self.beats += 1;
        self.tell("waiting for running steps".to_owned()).await;
    }

    /// Each heartbeat moves closer to the next integer without reaching it.
    fn number(&self) -> f64 {
        let beats = f64::from(self.beats);
        f64::from(self.done) + beats / (beats + 1.0)
    }

    async fn tell(&self, message: String) {
        let Some(events) = self.context.progress() else { return };
        let params = json!({"progress": self.number(), "total": self.total, "message": message});
        let _ = events.send(AgentEvent::Progress(RawJson::encode(&params))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::AgentHandle;

    #[test]
    fn progress_increases_but_stays_below_the_next_step() {
        let agent = AgentHandle::new(None);
        let mut progress = MacroProgress {
            context: &RequestContext::detached(&agent),
            total: 100,
            done: 99,
            beats: 0,
        };
        let mut last = progress.number();
        for beats in 1..10_000 {
            progress.beats = beats;
            assert!(progress.number() > last && progress.number() < 100.0, "{beats}");
            last = progress.number();
        }
    }
}
