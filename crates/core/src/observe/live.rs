//! A picture of what goes on here now, for whoever looks on.
//!
//! *Theory of operation.* Agents that come and leave are always noted, as far as there is room. Calls are
//! noted from when somebody has first looked ([`Live::look`]): until then they are neither timed nor told
//! for its sake, and ask no more than whether somebody looks. All of it has limits.

mod times;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldhash::HashMap;

use crate::name::seen::named;
use crate::name::{AgentName, ServerName, ToolboxName};
use crate::observe::context::CallContext;
use crate::observe::ending::{CallEnd, Ending};
use crate::observe::event::{Event, Kinds, SessionContext};
use crate::observe::live::times::Times;

/// The most calls that are shown, and the most agents.
const MAX_CALLS: usize = 100;
const MAX_AGENTS: usize = 256;
/// The most servers that are counted, and the most tools that are known to have been used.
const MAX_SERVERS: usize = 4096;
const MAX_TOOLS: usize = 16 * 1024;
/// The most characters of a name that somebody else has chosen.
const MAX_NAME: usize = 120;
/// How long a stretch of the course is, in milliseconds, and how many of them there are.
const STRETCH: u64 = 5_000;
const MAX_STRETCHES: usize = 120;

/// A server as calls name it: its toolbox and itself.
type Key = (ToolboxName, ServerName);

/// The picture of what goes on. Clones are the same.
#[derive(Clone, Default)]
pub struct Live(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// `true` once somebody has looked.
    is_watched: AtomicBool,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// When somebody first looked, in milliseconds since 1970.
    since: u64,
    address: Option<String>,
    agents: BTreeMap<u64, LiveAgent>,
    calls: VecDeque<LiveCall>,
    /// How many calls have been noted.
    count: u64,
    under_way: u64,
    servers: HashMap<Key, Counts>,
    /// The tools that were called and let through.
    used: HashSet<(ToolboxName, ServerName, String)>,
    course: VecDeque<(u64, Counts)>,
    saved_tokens: i64,
}

#[derive(Default)]
struct Counts {
    calls: u64,
    errors: u64,
    times: Times,
    saved_tokens: i64,
}

/// All that is seen at one moment. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Since when calls are noted.
    pub since: u64,
    /// Where agents are served over HTTP, once they are.
    pub address: Option<String>,
    /// The agents that are there, by their sessions; not all of very many.
    pub agents: BTreeMap<u64, LiveAgent>,
    /// The calls that ended last, the newest first.
    pub calls: Vec<LiveCall>,
    /// Calls that run now and began since calls are noted.
    pub under_way: u64,
    /// The calls of each server that has had any.
    pub servers: HashMap<Key, LiveCounts>,
    /// How it went, stretch by stretch, with the beginning of each; the oldest first.
    pub course: Vec<(u64, LiveCounts)>,
    /// Tokens that models were spared in all.
    pub saved_tokens: i64,
}

/// An agent that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveAgent {
    /// Its name in policy.
    pub name: Option<String>,
    /// The name that its program gives itself.
    pub client: Option<String>,
    /// Since when it is there.
    pub since: u64,
    /// Its calls that have ended and were noted.
    pub calls: u64,
    /// Tokens that its model was spared.
    pub saved_tokens: i64,
    /// The toolboxes that it has opened.
    pub opened: BTreeSet<ToolboxName>,
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct LiveCall {
    /// Counts the calls that were noted.
    pub number: u64,
    /// When it began.
    pub at: u64,
    /// The session of the agent.
    pub session: u64,
    /// The agent, where it has a name.
    pub agent: Option<String>,
    /// The toolbox; `None`: nobody knows it.
    pub toolbox: Option<String>,
    /// The server; `None`: nobody knows it.
    pub server: Option<String>,
    /// The tool, without anything unseen.
    pub tool: String,
    /// The bytes of its arguments.
    pub argument_bytes: usize,
    /// Its end.
    pub end: CallEnd,
}

/// Counts of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveCounts {
    /// Calls that have ended.
    pub calls: u64,
    /// Calls among them that did not end well.
    pub errors: u64,
    /// Within how many milliseconds 50, 95 and 99 of 100 ended.
    pub latency: Option<[f64; 3]>,
    /// Tokens that models were spared.
    pub saved_tokens: i64,
}

impl Live {
    /// The kinds of events that it always hears.
    pub(crate) const ALWAYS: Kinds = Kinds::SESSIONS.and(Kinds::PROGRAM);
    /// The kinds that it hears once somebody looks.
    pub(crate) const WATCHED: Kinds = Kinds::CALLS_ENDED;

    /// Returns `true` once somebody has looked.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_watched.load(Ordering::Relaxed)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks. Calls are noted from the first look on.
    pub fn look(&self) -> Picture {
        let at = millis(SystemTime::now());
        let mut now = self.now();
        if !self.0.is_watched.swap(true, Ordering::Relaxed) {
            now.since = at;
        }
        now.stretch(at);
        now.picture()
    }

    /// Returns the tools that were called and let through since calls are noted, by toolbox, server and
    /// name; and since when that is.
    pub fn used(&self) -> (u64, HashSet<(ToolboxName, ServerName, String)>) {
        let now = self.now();
        (now.since, now.used.clone())
    }

    /// A call begins that is noted when it ends.
    pub(crate) fn begin(&self) {
        self.now().under_way += 1;
    }

    /// Takes note of an event of one of its kinds.
    pub(crate) fn hear(&self, event: Event<'_>) {
        match event {
            Event::CallEnded(call, end) if call.is_watched => self.now().call(call, end),
            Event::SessionOpened(session) => self.now().open(session),
            Event::SessionIntroduced(session, client) => {
                if let Some(agent) = self.now().agents.get_mut(&session.session) {
                    agent.client = Some(named(client, MAX_NAME)).filter(|name| !name.is_empty());
                }
            }
            Event::TokensSaved(session, tokens) => {
                let is_watched = self.is_watched();
                let mut now = self.now();
                now.saved_tokens += tokens;
                if let Some(agent) = now.agents.get_mut(&session.session) {
                    agent.saved_tokens += tokens;
                }
                if is_watched {
                    now.stretch(millis(SystemTime::now())).saved_tokens += tokens;
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
            Event::Serving(address) => self.now().address = Some(named(address, MAX_NAME)),
            _ => {}
        }
    }
}

impl Now {
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

    fn call(&mut self, call: &CallContext<'_>, end: CallEnd) {
        let subject = &call.subject;
        let at = millis(SystemTime::now());
        self.under_way = self.under_way.saturating_sub(1);
        self.count += 1;
        self.stretch(at).add(end);
        if let Some(agent) = self.agents.get_mut(&subject.session) {
            agent.calls += 1;
        }
        if let (Some(toolbox), Some(server)) = (subject.toolbox, subject.server) {
            let key = (toolbox.clone(), server.clone());
            if self.servers.len() < MAX_SERVERS || self.servers.contains_key(&key) {
                self.servers.entry(key).or_default().add(end);
            }
            let was_let_through = !matches!(end.ending, Ending::Unknown | Ending::Refused);
            if was_let_through && self.used.len() < MAX_TOOLS {
                self.used.insert((toolbox.clone(), server.clone(), subject.tool.to_owned()));
            }
        }
        let took = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
        self.calls.truncate(MAX_CALLS - 1);
        self.calls.push_front(LiveCall {
            number: self.count,
            at: at.saturating_sub(took),
            session: subject.session,
            agent: shown(subject.agent.map(AgentName::as_str)),
            toolbox: shown(subject.toolbox.map(ToolboxName::as_str)),
            server: shown(subject.server.map(ServerName::as_str)),
            tool: named(subject.tool, MAX_NAME),
            argument_bytes: call.argument_bytes(),
            end,
        });
    }

    /// The counts of the stretch of time that is now, with all those between it and the last one.
    fn stretch(&mut self, at: u64) -> &mut Counts {
        let begin = at - at % STRETCH;
        // A clock may have been put forward by any amount, or back.
        let oldest = begin.saturating_sub(STRETCH * (MAX_STRETCHES as u64 - 1));
        let mut next = self.course.back().map_or(begin, |(last, _)| last + STRETCH).max(oldest);
        while next <= begin {
            self.course.push_back((next, Counts::default()));
            next += STRETCH;
        }
        while self.course.len() > MAX_STRETCHES {
            self.course.pop_front();
        }
        let last = self.course.len() - 1;
        &mut self.course[last].1
    }

    fn picture(&self) -> Picture {
        Picture {
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
            course: self.course.iter().map(|(at, counts)| (*at, counts.told())).collect(),
            saved_tokens: self.saved_tokens,
        }
    }
}

impl Counts {
    fn add(&mut self, end: CallEnd) {
        self.calls += 1;
        self.errors += u64::from(!is_well(end.ending));
        self.times.add(end.took);
    }

    fn told(&self) -> LiveCounts {
        LiveCounts {
            calls: self.calls,
            errors: self.errors,
            latency: self.times.percentiles([50, 95, 99]),
            saved_tokens: self.saved_tokens,
        }
    }
}

/// Returns `true` if nobody is to be blamed for how a call ended.
fn is_well(ending: Ending) -> bool {
    matches!(ending, Ending::Ok | Ending::InputRequired | Ending::Cancelled | Ending::ShuttingDown)
}

fn shown(name: Option<&str>) -> Option<String> {
    name.map(|name| named(name, MAX_NAME))
}

/// A time in milliseconds since 1970.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
