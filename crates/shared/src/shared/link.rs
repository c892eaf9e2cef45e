//! The link to the store: two connections and a breaker.
//!
//! *Theory of operation.* Questions that somebody waits for go through one connection, and texts that may
//! be long through the other, so that no short answer comes late behind a long one. When a question has
//! no answer in time, or the connection fails, the breaker opens: nobody asks any more, and one task
//! tries the store out at once and, if that fails, again and again at growing intervals. What is found
//! fit again is used again. A store that fails as soon as it is used is not tried at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::observe::{Event, Observer};
use crate::shared::address::Address;
use crate::shared::connection::{Limits, Unanswered, connect, run, within};
use crate::shared::names::Names;
use crate::shared::scripts::Script;
use crate::shared::trial::trial;

/// The intervals at which a store is tried out that cannot be used.
const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// For how long a store must have been used to count as fit.
const FIT: Duration = Duration::from_secs(10);
/// How often the log says that it cannot be used.
const PAUSE: Duration = Duration::from_mins(1);

/// The link to the store.
pub(crate) struct Link {
    address: Address,
    pub(crate) limits: Limits,
    pub(crate) names: Names,
    observer: Arc<Observer>,
    tasks: TaskTracker,
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The connections; `None`: the breaker is open.
    lanes: Option<Lanes>,
    /// `true` if others were told last that the store can be used; `None`: nothing yet.
    is_told_up: Option<bool>,
    /// When the log said last that it cannot.
    warned: Option<Instant>,
    /// How often it has failed soon after it was found fit.
    strikes: u32,
}

#[derive(Clone)]
struct Lanes {
    quick: MultiplexedConnection,
    bulk: MultiplexedConnection,
    since: Instant,
}

/// The connection that a question goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For questions that somebody waits for.
    Quick,
    /// For texts that may be long.
    Bulk,
}

/// There is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The store cannot be used.
    Away,
    /// Something is there that is not ours.
    Foreign,
}

impl Link {
    pub(crate) fn new(
        address: Address,
        limits: Limits,
        observer: Arc<Observer>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let names = Names::new(&address.prefix);
        Arc::new(Self { address, limits, names, observer, tasks, stop, state: Mutex::default() })
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tries the store out for the first time. Returns once it can be used, or cannot for now.
    pub(crate) async fn begin(self: &Arc<Self>) {
        match self.fit().await {
            Ok(lanes) => self.use_these(lanes),
            Err(reason) => {
                self.tell_down(&reason);
                self.look_for_it(0);
            }
        }
    }

    /// Returns `true` if the store can be used.
    pub(crate) fn is_up(&self) -> bool {
        self.state(|state| state.lanes.is_some())
    }

    /// Is cancelled at the end.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Since when the store can be used; `None`: it cannot.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.state(|state| state.lanes.as_ref().map(|lanes| lanes.since))
    }

    /// Asks one question.
    pub(crate) async fn ask<T: FromRedisValue>(
        self: &Arc<Self>,
        lane: Lane,
        asked: &Cmd,
    ) -> Result<T, NoAnswer> {
        let (lanes, mut connection, limit) = self.lane(lane)?;
        let since = Instant::now();
        let answer =
            within(limit, async move { connection.send_packed_command(asked).await }).await;
        self.learn(&lanes, lane, since, answer)
    }

    /// Runs a script on one key.
    pub(crate) async fn run<T: FromRedisValue>(
        self: &Arc<Self>,
        script: &Script,
        key: &str,
        arguments: &[&[u8]],
    ) -> Result<T, NoAnswer> {
        let (lanes, connection, limit) = self.lane(Lane::Quick)?;
        let since = Instant::now();
        let answer = within(limit, run(connection, script, key, arguments)).await;
        self.learn(&lanes, Lane::Quick, since, answer)
    }

    fn lane(&self, lane: Lane) -> Result<(Lanes, MultiplexedConnection, Duration), NoAnswer> {
        let lanes = self.state(|state| state.lanes.clone()).ok_or(NoAnswer::Away)?;
        Ok(match lane {
            Lane::Quick => (lanes.clone(), lanes.quick, self.limits.answer),
            Lane::Bulk => (lanes.clone(), lanes.bulk, self.limits.bulk),
        })
    }

    /// Learns of an answer whether the store can still be used.
    fn learn<T>(
        self: &Arc<Self>,
        lanes: &Lanes,
        lane: Lane,
        since: Instant,
        answer: Result<T, Unanswered>,
    ) -> Result<T, NoAnswer> {
        self.observer.listeners().tell(Event::SharedStoreAsked(since.elapsed()));
        match answer {
            Ok(answer) => Ok(answer),
            Err(Unanswered::Foreign) => Err(NoAnswer::Foreign),
            // A long text that takes its time says nothing of short ones.
            Err(Unanswered::Late(_)) if lane == Lane::Bulk => Err(NoAnswer::Away),
            Err(error) => {
                self.open(lanes, &error);
                Err(NoAnswer::Away)
            }
        }
    }

    /// Opens the breaker, unless others have done so and connections are new since.
    fn open(self: &Arc<Self>, lanes: &Lanes, error: &Unanswered) {
        let strikes = self.state(|state| {
            state.lanes.as_ref().filter(|now| now.since == lanes.since)?;
            state.lanes = None;
            let was_fit = lanes.since.elapsed() >= FIT;
            state.strikes = if was_fit { 0 } else { state.strikes.saturating_add(1) };
            Some(state.strikes)
        });
        if let Some(strikes) = strikes {
            tracing::debug!("the shared store {}: {}", self.address, error.reason());
            self.look_for_it(strikes);
        }
    }

    /// Looks for the store until it can be used again.
    fn look_for_it(self: &Arc<Self>, strikes: u32) {
        let link = Arc::clone(self);
        let looking = async move {
            let mut intervals = ExponentialBuilder::new()
                .with_min_delay(INTERVALS[0])
                .with_max_delay(INTERVALS[1])
                .without_max_times()
                .with_jitter()
                .build();
            for _ in 1..strikes.min(16) {
                sleep(intervals.next().unwrap_or(INTERVALS[1]).min(INTERVALS[1])).await;
            }
            loop {
                match link.fit().await {
                    Ok(lanes) => return link.use_these(lanes),
                    Err(reason) => link.tell_down(&reason),
                }
                sleep(intervals.next().unwrap_or(INTERVALS[1])).await;
            }
        };
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(looking));
    }

    /// Connects to the store and tries it out.
    async fn fit(&self) -> Result<Lanes, String> {
        let client = &self.address.client;
        let quick = connect(client, &self.limits).await?;
        let bulk = connect(client, &self.limits).await?;
        trial(&quick, &self.names, &self.limits).await?;
        Ok(Lanes { quick, bulk, since: Instant::now() })
    }

    fn use_these(&self, lanes: Lanes) {
        let was_told_up = self.state(|state| {
            state.lanes = Some(lanes);
            state.is_told_up.replace(true)
        });
        match was_told_up {
            Some(true) => return,
            Some(false) => tracing::info!("the shared store {} can be used again", self.address),
            None => tracing::info!("the shared store {} is used", self.address),
        }
        self.observer.listeners().tell(Event::SharedStore(None));
    }

    fn tell_down(&self, reason: &str) {
        let (was_told_up, is_warning) = self.state(|state| {
            let is_due = state.warned.is_none_or(|warned| warned.elapsed() >= PAUSE);
            if is_due {
                state.warned = Some(Instant::now());
            }
            (state.is_told_up.replace(false), is_due)
        });
        if is_warning {
            tracing::warn!(
                "the shared store {} cannot be used: {reason}. This workbench goes on alone until it can: \
                 what agents open from now on is known here only",
                self.address
            );
        }
        if was_told_up != Some(false) {
            self.observer.listeners().tell(Event::SharedStore(Some(reason)));
        }
    }
}
