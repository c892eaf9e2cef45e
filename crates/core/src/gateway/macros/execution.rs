//! Runs the steps of a macro as calls, several at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use serde_json::json;

use crate::backend::{AgentEvent, RpcOutcome, events};
use crate::gateway::error::CallError;
use crate::gateway::macros::failure_report::{self, StepStatus, describe_call_error};
use crate::gateway::macros::plan::Plan;
use crate::gateway::macros::values::{MissingValueError, Values, result, value_of};
use crate::gateway::progress::heartbeat;
use crate::gateway::request_context::RequestContext;
use mcp_workbench_settings::{MacroConfig, StepConfig};
use mcp_workbench_wire::json::RawJson;

const EVENTS: usize = 16;
/// Maximum number of parallel steps. A lower concurrency limit applies here too, because a step
/// that waits for a slot could time out.
const MAX_PARALLEL_STEPS: usize = 8;

/// The running call of a step.
pub(crate) type StepCall<'a> =
    Pin<Box<dyn Future<Output = Result<RpcOutcome, CallError>> + Send + 'a>>;

struct RunningStep<'a> {
    at: usize,
    call: StepCall<'a>,
}

/// Why no further step starts.
enum RunEnd {
    StepFailed,
    Stopped(&'static str),
}

/// A run of a macro. `call` calls the tool of a step, given by its index.
pub(crate) struct MacroRun<'a, F> {
    config: &'a MacroConfig,
    call: F,
    /// For each step, `true` once it was sent to its server.
    sent: &'a [AtomicBool],
    most: usize,
    plan: Plan<'a>,
    running: Vec<RunningStep<'a>>,
    stages: Vec<StepStatus>,
    values: Values<'a>,
    last: Option<RawJson>,
    end: Option<RunEnd>,
}

/// Returns a channel for the events of a run's steps.
pub(crate) fn step_events() -> (events::Sender, events::Receiver) {
    events::channel(EVENTS)
}

impl<'a, F: Fn(usize, Option<RawJson>) -> StepCall<'a>> MacroRun<'a, F> {
    pub(crate) fn new(
        config: &'a MacroConfig,
        inputs: Option<RawJson>,
        max_concurrency: Option<u32>,
        sent: &'a [AtomicBool],
        call: F,
    ) -> Self {
        let most = max_concurrency.map_or(MAX_PARALLEL_STEPS, |most| most as usize);
        Self {
            config,
            call,
            sent,
            most: MAX_PARALLEL_STEPS.min(most),
            plan: Plan::new(&config.steps),
            running: Vec::new(),
            stages: config.steps.iter().map(|_| StepStatus::NotBegun).collect(),
            values: Values::new(inputs),
            last: None,
            end: None,
        }
    }

    /// Runs the steps and passes their events on. `is_replaced` returns `true` once another gateway
    /// serves the agent.
    pub(crate) async fn run(
        mut self,
        mut heard: events::Receiver,
        context: &RequestContext<'_>,
        is_replaced: impl Fn() -> bool,
    ) -> RpcOutcome {
        let steps = &self.config.steps;
        let mut progress = MacroProgress { context, total: steps.len(), done: 0, beats: 0 };
        let mut heartbeat = heartbeat();
        loop {
            self.begin(&is_replaced);
            if self.running.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(event) = heard.recv() => pass_on(event, context).await,
                (at, ended) = next(&mut self.running) => {
                    if self.ended(at, step_result(ended)) {
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
        self.outcome()
    }

    /// Starts the steps that are ready, up to the limit. Once the run is over, drops the steps that
    /// were not sent yet.
    fn begin(&mut self, is_replaced: impl Fn() -> bool) {
        if self.end.is_none() {
            self.begin_more(is_replaced);
        }
        if self.end.is_some() {
            self.running.retain(|step| self.sent[step.at].load(Ordering::Relaxed));
        }
    }

    fn begin_more(&mut self, is_replaced: impl Fn() -> bool) {
        let steps = &self.config.steps;
        let ready = self.plan.begin(self.most.saturating_sub(self.running.len()));
        if !ready.is_empty() && is_replaced() {
            let why = "the configuration has changed in the meantime";
            self.end = Some(RunEnd::Stopped(why));
            return;
        }
        let mut begun = Vec::new();
        for at in ready {
            match arguments(&steps[at], &self.values) {
                Ok(given) => begun.push((at, given)),
                Err(MissingValueError(pointer)) => {
                    self.stages[at] = StepStatus::Failed(format!("no value at `{pointer}`"));
                    self.end = Some(RunEnd::StepFailed);
                }
            }
        }
        // If the arguments of one step are missing, none of this batch starts.
        if self.end.is_none() {
            let begun = begun.into_iter();
            self.running
                .extend(begun.map(|(at, given)| RunningStep { at, call: (self.call)(at, given) }));
        }
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
            Err(why) => {
                self.end.get_or_insert(RunEnd::StepFailed);
                StepStatus::Failed(why)
            }
        };
        is_done
    }

    fn outcome(self) -> RpcOutcome {
        let Self { config, stages, values, last, end, .. } = self;
        let why = match (end, &config.result, last) {
            (None, None, Some(last)) => return RpcOutcome::Result(last),
            (None, Some(template), _) => match values.fill(template) {
                Ok(value) => return result(&value),
                Err(MissingValueError(pointer)) => {
                    Some(format!("no value for the result at `{pointer}`"))
                }
            },
            (Some(RunEnd::Stopped(why)), ..) => Some(why.to_owned()),
            (Some(RunEnd::StepFailed) | None, ..) => None,
        };
        failure_report::failure_report(config, &stages, &values, why.as_deref())
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

fn step_result(called: Result<RpcOutcome, CallError>) -> Result<RawJson, String> {
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

async fn next(running: &mut Vec<RunningStep<'_>>) -> (usize, Result<RpcOutcome, CallError>) {
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
