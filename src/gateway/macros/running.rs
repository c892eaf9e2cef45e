//! The run of a macro: its steps as calls, several at the same time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use serde_json::json;

use crate::backend::{Event, Outcome, events};
use crate::config::{MacroConfig, StepConfig};
use crate::gateway::macros::account::{self, Stage, told};
use crate::gateway::macros::plan::Plan;
use crate::gateway::macros::result;
use crate::gateway::macros::values::{Missing, Values, value_of};
use crate::gateway::opening::heartbeat;
use crate::gateway::{CallError, Gateway, Origin};
use crate::raw::Raw;

/// How many events of servers may wait.
const EVENTS: usize = 16;

/// A step under way; what comes of it is its result, or what went wrong.
type Running<'a> = Pin<Box<dyn Future<Output = (usize, Result<Raw, String>)> + Send + 'a>>;

impl Gateway {
    /// Runs the steps. When one fails, those that were sent are waited for, and nothing new is
    /// begun. Dropping the future cancels what runs.
    pub(crate) async fn run(
        &self,
        config: &MacroConfig,
        inputs: Option<Raw>,
        origin: Origin<'_>,
    ) -> Outcome {
        let steps = &config.steps;
        let mut stages: Vec<Stage> = steps.iter().map(|_| Stage::NotBegun).collect();
        let (mut values, mut plan) = (Values::new(inputs), Plan::new(steps));
        let (sender, mut heard) = events::channel(EVENTS);
        // Progress of several servers makes no sense together, and a question has to be settled
        // here: the agent cannot make the request of a step again.
        let within = Origin {
            is_modern: false,
            wants_progress: false,
            events: origin.events.map(|_| &sender),
            ..origin
        };
        let mut progress = Progress { origin, total: steps.len(), last: 0.0 };
        let mut heartbeat = heartbeat();
        let mut running: Vec<Running<'_>> = Vec::new();
        let (mut last, mut has_failed) = (None, false);
        loop {
            if !has_failed {
                let ready = plan.begin().into_iter();
                let ready: Vec<_> = ready.map(|at| (at, arguments(&steps[at], &values))).collect();
                for (at, arguments) in &ready {
                    if let Err(Missing(pointer)) = arguments {
                        stages[*at] = Stage::Failed(format!("there is nothing at `{pointer}`"));
                        has_failed = true;
                    }
                }
                // One that cannot be sent holds back those beside it.
                for (at, arguments) in ready.into_iter().filter(|_| !has_failed) {
                    running.extend(arguments.map(|given| self.step(at, &steps[at], given, within)));
                }
            }
            if running.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(event) = heard.recv() => {
                    if let (Some(events), false) = (origin.events, matches!(event, Event::Progress(_))) {
                        // An agent that is gone takes nothing; its call ends elsewhere.
                        let _ = events.send(event).await;
                    }
                }
                (at, ended) = next(&mut running) => match ended {
                    Ok(result) => {
                        values.add(&steps[at].name, value_of(&result));
                        if at + 1 == steps.len() {
                            last = Some(result);
                        }
                        stages[at] = Stage::Done;
                        plan.done(at);
                        progress.done(&steps[at]).await;
                    }
                    Err(why) => {
                        stages[at] = Stage::Failed(why);
                        has_failed = true;
                    }
                },
                _ = heartbeat.tick() => progress.beat().await,
            }
        }
        let made = match (&config.result, last) {
            _ if has_failed => None,
            (None, last) => last.map(|last| Ok(Outcome::Result(last))),
            (Some(template), _) => Some(values.fill(template).map(|value| result(&value))),
        };
        match made {
            Some(Ok(outcome)) => outcome,
            Some(Err(Missing(pointer))) => {
                let why = format!("its result lacks what was to be at `{pointer}`");
                account::of(config, &stages, &values, Some(&why))
            }
            None => account::of(config, &stages, &values, None),
        }
    }

    fn step<'a>(
        &'a self,
        at: usize,
        step: &'a StepConfig,
        arguments: Option<Raw>,
        origin: Origin<'a>,
    ) -> Running<'a> {
        Box::pin(async move {
            let called = self.call(&step.tool, arguments.as_ref(), &[], origin).await;
            (at, ended(called))
        })
    }
}

fn arguments(step: &StepConfig, values: &Values<'_>) -> Result<Option<Raw>, Missing> {
    step.arguments.as_ref().map(|arguments| values.fill(arguments)).transpose()
}

/// What came of a step: the tool's result, or what went wrong.
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
        for at in 0..running.len() {
            if let Poll::Ready(ended) = running[at].as_mut().poll(context) {
                drop(running.swap_remove(at));
                return Poll::Ready(ended);
            }
        }
        Poll::Pending
    })
    .await
}

/// Tells the agent how far it is, with a number that only rises.
struct Progress<'a> {
    origin: Origin<'a>,
    total: usize,
    last: f64,
}

impl Progress<'_> {
    async fn done(&mut self, step: &StepConfig) {
        self.last = self.last.floor() + 1.0;
        self.tell(format!("step `{}` is done", step.name)).await;
    }

    async fn beat(&mut self) {
        // It moves half the way to the next step.
        self.last = f64::midpoint(self.last, self.last.floor() + 1.0);
        self.tell("waiting for the steps that run".to_owned()).await;
    }

    async fn tell(&self, message: String) {
        let Some(events) = self.origin.progress() else { return };
        let params = json!({"progress": self.last, "total": self.total, "message": message});
        // An agent that is gone takes no progress; its call ends elsewhere.
        let _ = events.send(Event::Progress(Raw::encode(&params))).await;
    }
}
