//! The run of a macro: its steps as calls, several at the same time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use serde_json::json;

use crate::backend::{Event, Outcome, events};
use crate::gateway::macros::account::{self, Stage, told};
use crate::gateway::macros::plan::Plan;
use crate::gateway::macros::result;
use crate::gateway::macros::values::{Missing, Values, value_of};
use crate::gateway::opening::heartbeat;
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::raw::Raw;
use crate::settings::{MacroConfig, StepConfig};

/// How many events of servers may wait.
const EVENTS: usize = 16;
/// How many steps run at the same time. Where fewer calls may, the others wait here, where nobody
/// loses patience with them.
const MOST: usize = 8;

/// A step under way; what comes of it is its result, or what went wrong.
struct Running<'a> {
    at: usize,
    call: Pin<Box<dyn Future<Output = Result<Raw, String>> + Send + 'a>>,
}

/// A run of a macro, and how far it is.
struct Run<'a> {
    gateway: &'a Gateway,
    config: &'a MacroConfig,
    /// Where its calls come from.
    context: RequestContext<'a>,
    /// Which steps have gone to their servers.
    sent: &'a [AtomicBool],
    most: usize,
    plan: Plan<'a>,
    running: Vec<Running<'a>>,
    stages: Vec<Stage>,
    values: Values<'a>,
    last: Option<Raw>,
    /// `true` if nothing more is begun.
    is_over: bool,
    /// Why, if no step is to blame.
    besides: Option<&'static str>,
}

impl Gateway {
    /// Runs the steps. When one fails, those that were sent are waited for, and nothing else is.
    /// Dropping the future cancels what runs.
    pub(crate) async fn run(
        &self,
        config: &MacroConfig,
        inputs: Option<Raw>,
        context: &RequestContext<'_>,
    ) -> Outcome {
        let steps = &config.steps;
        let (sender, mut heard) = events::channel(EVENTS);
        let sent: Vec<_> = steps.iter().map(|_| AtomicBool::new(false)).collect();
        let mut run = Run {
            gateway: self,
            config,
            // Progress of several servers makes no sense together, and a question has to be settled
            // here: the agent cannot make the request of a step again.
            context: RequestContext {
                is_modern: false,
                wants_progress: false,
                events: context.events.map(|_| &sender),
                ..*context
            },
            sent: &sent,
            most: self.most_at_once().map_or(MOST, |most| MOST.min(most as usize)),
            plan: Plan::new(steps),
            running: Vec::new(),
            stages: steps.iter().map(|_| Stage::NotBegun).collect(),
            values: Values::new(inputs),
            last: None,
            is_over: false,
            besides: None,
        };
        let mut progress = Progress { context, total: steps.len(), done: 0, beats: 0 };
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
            // Nobody waits for the answer to what is still asked.
            if !matches!(event, Event::Question(_)) {
                pass_on(event, context).await;
            }
        }
        run.outcome()
    }
}

impl<'a> Run<'a> {
    /// Begins the steps that can, as far as there is room for them; if nothing more is to be, gives
    /// up those that still wait for a place, a server or the user.
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
            self.besides = Some("another configuration is served now, with other rules maybe");
            return;
        }
        let mut begun = Vec::new();
        for at in ready {
            match arguments(&steps[at], &self.values) {
                Ok(given) => begun.push((at, given)),
                Err(Missing(pointer)) => {
                    self.stages[at] = Stage::Failed(format!("there is nothing at `{pointer}`"));
                    self.is_over = true;
                }
            }
        }
        // One that cannot be sent holds back those beside it.
        for (at, given) in begun.into_iter().filter(|_| !self.is_over) {
            let context = RequestContext { sent: Some(&self.sent[at]), ..self.context };
            self.running.push(self.step(at, given, context));
        }
    }

    fn step(&self, at: usize, given: Option<Raw>, context: RequestContext<'a>) -> Running<'a> {
        let (gateway, tool) = (self.gateway, &self.config.steps[at].tool);
        let call =
            Box::pin(async move { ended(gateway.call(tool, given.as_ref(), &[], &context).await) });
        Running { at, call }
    }

    /// Takes note of what came of a step; whether it is done.
    fn ended(&mut self, at: usize, ended: Result<Raw, String>) -> bool {
        let steps = &self.config.steps;
        let is_done = ended.is_ok();
        self.stages[at] = match ended {
            Ok(result) => {
                self.values.add(&steps[at].name, value_of(&result));
                if at + 1 == steps.len() {
                    self.last = Some(result);
                }
                self.plan.done(at);
                Stage::Done
            }
            Err(why) => Stage::Failed(why),
        };
        self.is_over |= !is_done;
        is_done
    }

    /// Returns the answer to the agent.
    fn outcome(self) -> Outcome {
        let Self { config, stages, values, last, is_over, besides, .. } = self;
        let made = match (&config.result, last) {
            _ if is_over => None,
            (None, last) => last.map(|last| Ok(Outcome::Result(last))),
            (Some(template), _) => Some(values.fill(template).map(|value| result(&value))),
        };
        match made {
            Some(Ok(outcome)) => outcome,
            Some(Err(Missing(pointer))) => {
                let why = format!("its result lacks what was to be at `{pointer}`");
                account::of(config, &stages, &values, Some(&why))
            }
            None => account::of(config, &stages, &values, besides),
        }
    }
}

/// Hands on what a server says meanwhile.
async fn pass_on(event: Event, context: &RequestContext<'_>) {
    if let (Some(events), false) = (context.events, matches!(event, Event::Progress(_))) {
        // An agent that is gone takes nothing; its call ends elsewhere.
        let _ = events.send(event).await;
    }
}

fn arguments(step: &StepConfig, values: &Values<'_>) -> Result<Option<Raw>, Missing> {
    step.arguments.as_ref().map(|arguments| values.fill(arguments)).transpose()
}

/// Returns the tool's result of a step, or what went wrong.
fn ended(called: Result<Outcome, CallError>) -> Result<Raw, String> {
    match called {
        Ok(Outcome::Result(result)) => {
            let is = |key: &str, value: &str| {
                result.member(key).is_some_and(|said| said.as_bytes() == value.as_bytes())
            };
            if is("isError", "true") {
                return Err(account::error_of(&result));
            }
            if is("resultType", r#""task""#) {
                return Err(
                    "its server runs it as a task, which a macro does not wait for".to_owned()
                );
            }
            Ok(result)
        }
        Ok(Outcome::Error(error)) => {
            let message = error.member("message");
            Err(message.as_ref().and_then(Raw::text).unwrap_or_default().into_owned())
        }
        Err(error) => Err(told(&error)),
    }
}

/// Waits for one of these to end, and takes it out.
async fn next(running: &mut Vec<Running<'_>>) -> (usize, Result<Raw, String>) {
    poll_fn(|context| {
        for place in 0..running.len() {
            if let Poll::Ready(ended) = running[place].call.as_mut().poll(context) {
                return Poll::Ready((running.swap_remove(place).at, ended));
            }
        }
        Poll::Pending
    })
    .await
}

/// Tells the agent how far it is, with a number that only rises.
struct Progress<'a> {
    context: &'a RequestContext<'a>,
    total: usize,
    done: u32,
    /// How often it has been said since then that it goes on.
    beats: u32,
}

impl Progress<'_> {
    async fn done(&mut self, step: &StepConfig) {
        self.done += 1;
        self.beats = 0;
        self.tell(format!("step `{}` is done", step.name)).await;
    }

    async fn beat(&mut self) {
        self.beats += 1;
        self.tell("waiting for the steps that run".to_owned()).await;
    }

    /// Each beat is a little nearer to the next step, and none is there.
    fn number(&self) -> f64 {
        let beats = f64::from(self.beats);
        f64::from(self.done) + beats / (beats + 1.0)
    }

    async fn tell(&self, message: String) {
        let Some(events) = self.context.progress() else { return };
        let params = json!({"progress": self.number(), "total": self.total, "message": message});
        // An agent that is gone takes no progress; its call ends elsewhere.
        let _ = events.send(Event::Progress(Raw::encode(&params))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Presence;

    #[test]
    fn however_long_a_step_takes_the_next_number_is_higher_and_below_its_own() {
        let agent = Presence::new(None);
        let mut progress =
            Progress { context: &RequestContext::nobody(&agent), total: 100, done: 99, beats: 0 };
        let mut last = progress.number();
        for beats in 1..10_000 {
            progress.beats = beats;
            assert!(progress.number() > last && progress.number() < 100.0, "{beats}");
            last = progress.number();
        }
    }
}
