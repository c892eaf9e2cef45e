//! The client of the store: two connections and a circuit breaker.
//!
//! Interactive commands and bulk values use separate connections, so that a short response doesn't
//! queue behind a long one. If an interactive command times out or a connection fails, the breaker
//! opens: commands fail immediately, and one task probes the store, first immediately and then with
//! exponential backoff. A successful probe closes the breaker. If the store keeps failing soon
//! after a successful probe, the next probe is delayed, too.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{RedisCommandError, StoreTimeouts, connect, eval_script, with_timeout};
use crate::key_names::KeyNames;
use crate::probe::probe_connection;
use crate::scripts::Script;
use crate::target::RedisTarget;
use mcp_workbench_core::telemetry::{Event, Telemetry};

/// Minimum and maximum delay between probes.
const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How long a connection must have worked for its failure not to count as consecutive.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Minimum time between two warnings that the store is down.
const PAUSE: Duration = Duration::from_mins(1);

pub(crate) struct StoreClient {
    address: RedisTarget,
    pub(crate) limits: StoreTimeouts,
    pub(crate) names: KeyNames,
    observer: Arc<Telemetry>,
    tasks: TaskTracker,
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` while the breaker is open.
    lanes: Option<Connections>,
    /// The last reported state; `None` before the first report.
    is_told_up: Option<bool>,
    warned: Option<Instant>,
    /// Failures in a row, each less than `STABLE_AFTER` after connecting.
    consecutive_failures: u32,
}

#[derive(Clone)]
struct Connections {
    quick: MultiplexedConnection,
    bulk: MultiplexedConnection,
    since: Instant,
}

/// The connection that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionClass {
    /// For commands that a caller waits for.
    Interactive,
    /// For values that may be large.
    Bulk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// The breaker is open, or the command failed or timed out.
    Unavailable,
    /// The key holds a value of another type.
    WrongType,
}

impl StoreClient {
    pub(crate) fn new(
        address: RedisTarget,
        limits: StoreTimeouts,
        observer: Arc<Telemetry>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let names = KeyNames::new(&address.prefix);
        Arc::new(Self { address, limits, names, observer, tasks, stop, state: Mutex::default() })
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock())
    }

    /// Connects for the first time. Returns once the store is in use or the first probe has failed.
    pub(crate) async fn connect(self: &Arc<Self>) {
        match self.connect_and_probe().await {
            Ok(lanes) => self.close_breaker(lanes),
            Err(reason) => {
                self.report_down(&reason);
                self.spawn_reconnect(0);
            }
        }
    }

    /// Returns `true` if the breaker is closed.
    pub(crate) fn is_up(&self) -> bool {
        self.state(|state| state.lanes.is_some())
    }

    /// Returns the token that is cancelled at shutdown.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns when the breaker was last closed; `None` while it is open.
    pub(crate) fn up_since(&self) -> Option<Instant> {
        self.state(|state| state.lanes.as_ref().map(|lanes| lanes.since))
    }

    pub(crate) async fn query<T: FromRedisValue>(
        self: &Arc<Self>,
        lane: ConnectionClass,
        asked: &Cmd,
    ) -> Result<T, QueryError> {
        let (lanes, mut connection, limit) = self.lane(lane)?;
        let since = Instant::now();
        let answer =
            with_timeout(limit, async move { connection.send_packed_command(asked).await }).await;
        self.record_result(&lanes, lane, since, answer)
    }

    pub(crate) async fn run<T: FromRedisValue>(
        self: &Arc<Self>,
        script: &Script,
        key: &str,
        arguments: &[&[u8]],
    ) -> Result<T, QueryError> {
        let (lanes, connection, limit) = self.lane(ConnectionClass::Interactive)?;
        let since = Instant::now();
        let answer = with_timeout(limit, eval_script(connection, script, key, arguments)).await;
        self.record_result(&lanes, ConnectionClass::Interactive, since, answer)
    }

    fn lane(
        &self,
        lane: ConnectionClass,
    ) -> Result<(Connections, MultiplexedConnection, Duration), QueryError> {
        let lanes = self.state(|state| state.lanes.clone()).ok_or(QueryError::Unavailable)?;
        Ok(match lane {
            ConnectionClass::Interactive => (lanes.clone(), lanes.quick, self.limits.response),
            ConnectionClass::Bulk => (lanes.clone(), lanes.bulk, self.limits.bulk),
        })
    }

    /// Reports the latency of a command and opens the breaker if it failed.
    fn record_result<T>(
        self: &Arc<Self>,
        lanes: &Connections,
        lane: ConnectionClass,
        since: Instant,
        answer: Result<T, RedisCommandError>,
    ) -> Result<T, QueryError> {
        self.observer.bus().emit(Event::SharedStoreQueried(since.elapsed()));
        match answer {
            Ok(answer) => Ok(answer),
            Err(RedisCommandError::WrongType) => Err(QueryError::WrongType),
            // A slow bulk value says nothing about interactive commands.
            Err(RedisCommandError::TimedOut(_)) if lane == ConnectionClass::Bulk => {
                Err(QueryError::Unavailable)
            }
            Err(error) => {
                self.open_breaker(lanes, &error);
                Err(QueryError::Unavailable)
            }
        }
    }

    /// Opens the breaker, unless another command has done so since this one started.
    fn open_breaker(self: &Arc<Self>, lanes: &Connections, error: &RedisCommandError) {
        let strikes = self.state(|state| {
            state.lanes.as_ref().filter(|now| now.since == lanes.since)?;
            state.lanes = None;
            let was_fit = lanes.since.elapsed() >= STABLE_AFTER;
            state.consecutive_failures =
                if was_fit { 0 } else { state.consecutive_failures.saturating_add(1) };
            Some(state.consecutive_failures)
        });
        if let Some(strikes) = strikes {
            tracing::debug!("shared store {}: {}", self.address, error.reason());
            self.spawn_reconnect(strikes);
        }
    }

    /// Probes the store in the background until it can be used again.
    fn spawn_reconnect(self: &Arc<Self>, strikes: u32) {
        let client = Arc::clone(self);
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
                match client.connect_and_probe().await {
                    Ok(lanes) => return client.close_breaker(lanes),
                    Err(reason) => client.report_down(&reason),
                }
                sleep(intervals.next().unwrap_or(INTERVALS[1])).await;
            }
        };
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(looking));
    }

    async fn connect_and_probe(&self) -> Result<Connections, String> {
        let client = &self.address.client;
        let quick = connect(client, &self.limits).await?;
        let bulk = connect(client, &self.limits).await?;
        probe_connection(&quick, &self.names, &self.limits).await?;
        Ok(Connections { quick, bulk, since: Instant::now() })
    }

    fn close_breaker(&self, lanes: Connections) {
        let was_told_up = self.state(|state| {
            state.lanes = Some(lanes);
            state.is_told_up.replace(true)
        });
        match was_told_up {
            Some(true) => return,
            Some(false) => tracing::info!("shared store {} is available again", self.address),
            None => tracing::info!("connected to the shared store {}", self.address),
        }
        self.observer.bus().emit(Event::SharedStore(None));
    }

    fn report_down(&self, reason: &str) {
        let (was_told_up, is_warning) = self.state(|state| {
            let is_due = state.warned.is_none_or(|warned| warned.elapsed() >= PAUSE);
            if is_due {
                state.warned = Some(Instant::now());
            }
            (state.is_told_up.replace(false), is_due)
        });
        if is_warning {
            tracing::warn!(
                "shared store {} is unavailable: {reason}; session changes are not shared until it \
                 is back",
                self.address
            );
        }
        if was_told_up != Some(false) {
            self.observer.bus().emit(Event::SharedStore(Some(reason)));
        }
    }
}
