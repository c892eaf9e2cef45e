//! The live view: the sessions and calls of this process, for people who watch it.
//!
//! *Theory of operation.* Sessions are always recorded. Calls are recorded after the first
//! [`LiveView::snapshot`]. Until then a call costs a few relaxed atomic loads. Everything is
//! bounded.

mod latency_histogram;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldhash::HashMap;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::telemetry::context::CallContext;
use crate::telemetry::event::{Event, EventKinds, SessionContext};
use crate::telemetry::live_view::latency_histogram::LatencyHistogram;
use crate::telemetry::outcome::{CallEnd, CallOutcome};
use mcp_workbench_names::untrusted_text::display_name;
use mcp_workbench_names::{AgentName, ServerName, ToolboxName};

/// Bounds on the calls and the agents that are shown.
const MAX_CALLS: usize = 100;
const MAX_AGENTS: usize = 256;
/// Bounds on the servers that are counted and on the used tools that are remembered.
const MAX_SERVERS: usize = 4096;
const MAX_TOOLS: usize = 16 * 1024;
/// Maximum length of a name from outside, in characters.
const MAX_NAME: usize = 120;
const PERCENTILES: [u64; 3] = [50, 95, 99];
/// Length of an interval of the traffic history, in milliseconds, and the number of intervals.
const INTERVAL_MS: u64 = 5_000;
const MAX_INTERVALS: usize = 120;

type Key = (ToolboxName, ServerName);

/// The live view. Clones share it.
#[derive(Clone, Default)]
pub struct LiveView(Arc<LiveViewShared>);

#[derive(Default)]
struct LiveViewShared {
    /// `true` after the first snapshot.
    is_watched: AtomicBool,
    now: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    /// Time of the first snapshot, in milliseconds since the Unix epoch.
    since: u64,
    address: Option<String>,
    agents: BTreeMap<u64, LiveAgent>,
    calls: VecDeque<FinishedCall>,
    under_way: u64,
    /// All recorded calls, and the tokens saved in all sessions.
    total: CallCounters,
    servers: HashMap<Key, CallCounters>,
    /// The tools that were called without being unknown or refused.
    used: HashSet<(ToolboxName, ServerName, String)>,
    course: VecDeque<(u64, CallCounters)>,
}

#[derive(Default)]
struct CallCounters {
    calls: u64,
    errors: u64,
    times: LatencyHistogram,
    saved_tokens: i64,
}

/// A snapshot of the live view. Times are in milliseconds since the Unix epoch.
#[derive(Clone, Debug, Default)]
pub struct LiveSnapshot {
    /// When the recording of calls began.
    pub since: u64,
    /// The HTTP address of the endpoint, once it is served.
    pub address: Option<String>,
    /// The connected agents by session number, up to a bound.
    pub agents: BTreeMap<u64, LiveAgent>,
    /// The calls that ended last, newest first.
    pub calls: Vec<FinishedCall>,
    /// Calls in flight that began after the recording did.
    pub under_way: u64,
    /// Statistics of each server that has been called.
    pub servers: HashMap<Key, CallStats>,
    /// Statistics of each interval with its start time, oldest first.
    pub traffic: Vec<(u64, CallStats)>,
    /// The 50th, 95th and 99th percentile of the durations of all recorded calls, in milliseconds.
    pub latency: Option<[f64; 3]>,
    /// Tokens saved in all sessions.
    pub saved_tokens: i64,
}

/// A connected agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveAgent {
    /// The agent's name in policy; `None` if it is anonymous.
    pub name: Option<String>,
    /// The name and version that the client program reports.
    pub client: Option<String>,
    pub version: Option<String>,
    /// When the session began.
    pub since: u64,
    /// Recorded calls that have ended.
    pub calls: u64,
    pub saved_tokens: i64,
    /// The toolboxes that the agent has opened.
    pub opened: BTreeSet<ToolboxName>,
}

/// A call that has ended. `top` and the dashboard show it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FinishedCall {
    /// Sequence number in this process, to tell repeated entries apart.
    pub number: u64,
    pub at: u64,
    pub session: u64,
    /// The agent's name in policy; `None` if it is anonymous.
    pub agent: Option<String>,
    /// The name that its client reported.
    pub client: Option<String>,
    /// `None` if no toolbox has the tool.
    pub toolbox: Option<String>,
    /// `None` if no server has the tool.
    pub server: Option<String>,
    /// The name the agent called, without control characters.
    pub tool: String,
    pub ms: f64,
    pub argument_bytes: u64,
    /// `None` without a response.
    pub result_bytes: Option<u64>,
    /// The audit's word for the outcome: `ok`, `tool_error`, `timed_out` and so on.
    pub outcome: String,
    /// Why it failed or was cancelled, in a few lines without control characters and secrets.
    pub reason: Option<String>,
}

/// Statistics of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallStats {
    pub calls: u64,
    /// Calls that failed. Cancelled calls have not failed.
    pub errors: u64,
    /// The 50th, 95th and 99th percentile of the durations, in milliseconds.
    pub latency: Option<[f64; 3]>,
    pub saved_tokens: i64,
}

impl LiveView {
    /// The kinds that the live view always receives.
    pub(crate) const ALWAYS: EventKinds = EventKinds::SESSIONS.union(EventKinds::PROGRAM);
    /// The kinds that it receives after the first snapshot.
    pub(crate) const WATCHED: EventKinds = EventKinds::CALLS_ENDED;

    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_watched.load(Ordering::Relaxed)
    }

    fn now(&self) -> MutexGuard<'_, LiveState> {
        self.0.now.lock()
    }

    /// Returns a snapshot. The first one starts the recording of calls.
    pub fn snapshot(&self) -> LiveSnapshot {
        let at = millis(SystemTime::now());
        let mut now = self.now();
        if !self.0.is_watched.swap(true, Ordering::Relaxed) {
            now.since = at;
        }
        now.interval_at(at);
        now.picture()
    }

    /// Returns the tools that were called without being unknown or refused, and since when calls
    /// are recorded.
    pub fn used_tools(&self) -> (u64, HashSet<(ToolboxName, ServerName, String)>) {
        let now = self.now();
        (now.since, now.used.clone())
    }

    /// Counts a call as in flight; it is recorded when it ends.
    pub(crate) fn begin(&self) {
        self.now().under_way += 1;
    }

    pub(crate) fn hear(&self, event: Event<'_>) {
        match event {
            Event::CallEnded(call) if call.is_watched => self.now().call(call),
            Event::SessionOpened(session) => self.now().open(session),
            Event::ClientIdentified(session, client, version) => {
                let reported =
                    |text: &str| (!text.is_empty()).then(|| display_name(text, MAX_NAME));
                if let Some(agent) = self.now().agents.get_mut(&session.session) {
                    (agent.client, agent.version) = (reported(client), reported(version));
                }
            }
            Event::TokensSaved(session, tokens) => {
                let is_watched = self.is_watched();
                let mut now = self.now();
                now.total.saved_tokens += tokens;
                if let Some(agent) = now.agents.get_mut(&session.session) {
                    agent.saved_tokens += tokens;
                }
                if is_watched {
                    now.interval_at(millis(SystemTime::now())).saved_tokens += tokens;
                }
            }
            Event::ToolboxOpened(session, toolbox) => {
                if let Some(agent) = self.now().agents.get_mut(&session.session) {
                    agent.opened.insert(toolbox.clone());
                }
            }
            Event::SessionClosed(session) => {
                self.now().agents.remove(&session.session);
            }
            Event::Serving(address) => self.now().address = Some(display_name(address, MAX_NAME)),
            _ => {}
        }
    }
}

impl LiveState {
    fn open(&mut self, session: &SessionContext) {
        if self.agents.len() < MAX_AGENTS {
            let agent = LiveAgent {
                name: shown(session.agent.as_ref().map(AgentName::as_str)),
                since: millis(SystemTime::now()),
                ..LiveAgent::default()
            };
            self.agents.insert(session.session, agent);
        }
    }

    fn call(&mut self, call: &CallContext<'_>) {
        let (subject, end) = (&call.subject, &call.end);
        let at = millis(SystemTime::now());
        self.under_way = self.under_way.saturating_sub(1);
        self.interval_at(at).add(end);
        self.total.add(end);
        // A modern request over HTTP has no session that is known by name.
        let mut client = shown(Some(subject.client).filter(|name| !name.is_empty()));
        if let Some(agent) = self.agents.get_mut(&subject.session) {
            agent.calls += 1;
            client = agent.client.clone().or(client);
        }
        if let (Some(toolbox), Some(server)) = (subject.toolbox, subject.server) {
            let key = (toolbox.clone(), server.clone());
            if self.servers.len() < MAX_SERVERS || self.servers.contains_key(&key) {
                self.servers.entry(key).or_default().add(end);
            }
            let was_let_through =
                !matches!(end.outcome, CallOutcome::UnknownTool | CallOutcome::Denied);
            if was_let_through && self.used.len() < MAX_TOOLS {
                self.used.insert((toolbox.clone(), server.clone(), subject.tool.to_owned()));
            }
        }
        let took = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
        self.calls.truncate(MAX_CALLS - 1);
        self.calls.push_front(FinishedCall {
            number: self.total.calls,
            at: at.saturating_sub(took),
            session: subject.session,
            agent: shown(subject.agent.map(AgentName::as_str)),
            client,
            toolbox: shown(subject.toolbox.map(ToolboxName::as_str)),
            server: shown(subject.server.map(ServerName::as_str)),
            tool: display_name(subject.tool, MAX_NAME),
            // Two decimal places.
            ms: (end.took.as_secs_f64() * 100_000.0).round() / 100.0,
            argument_bytes: call.argument_bytes() as u64,
            result_bytes: end.result_bytes.map(|bytes| bytes as u64),
            outcome: end.outcome.as_str().to_owned(),
            reason: end.failure.clone().or_else(|| end.outcome.describe().map(str::to_owned)),
        });
    }

    /// Returns the counters of the current interval, and adds empty intervals since the last one.
    fn interval_at(&mut self, at: u64) -> &mut CallCounters {
        let begin = at - at % INTERVAL_MS;
        // The clock can jump by any amount in either direction.
        let oldest = begin.saturating_sub(INTERVAL_MS * (MAX_INTERVALS as u64 - 1));
        let mut next = self.course.back().map_or(begin, |(last, _)| last + INTERVAL_MS).max(oldest);
        while next <= begin {
            self.course.push_back((next, CallCounters::default()));
            next += INTERVAL_MS;
        }
        while self.course.len() > MAX_INTERVALS {
            self.course.pop_front();
        }
        let last = self.course.len() - 1;
        &mut self.course[last].1
    }

    fn picture(&self) -> LiveSnapshot {
        LiveSnapshot {
            since: self.since,
            address: self.address.clone(),
            agents: self.agents.clone(),
            calls: self.calls.iter().cloned().collect(),
            under_way: self.under_way,
            servers: self
                .servers
                .iter()
                .map(|(key, counts)| (key.clone(), counts.told()))
                .collect(),
            traffic: self.course.iter().map(|(at, counts)| (*at, counts.told())).collect(),
            latency: self.total.times.percentiles(PERCENTILES),
            saved_tokens: self.total.saved_tokens,
        }
    }
}

impl CallCounters {
    fn add(&mut self, end: &CallEnd) {
        self.calls += 1;
        self.errors += u64::from(!end.outcome.is_ok());
        self.times.add(end.took);
    }

    fn told(&self) -> CallStats {
        CallStats {
            calls: self.calls,
            errors: self.errors,
            latency: self.times.percentiles(PERCENTILES),
            saved_tokens: self.saved_tokens,
        }
    }
}

fn shown(name: Option<&str>) -> Option<String> {
    name.map(|name| display_name(name, MAX_NAME))
}

/// Milliseconds since the Unix epoch.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
