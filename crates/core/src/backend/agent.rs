//! Agents as servers can reach them: who they are, and what goes to them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::backend::events;
use crate::backend::payers::Purse;
use crate::backend::users::{AgentId, Principal};
use crate::name::{AgentName, ServerRef};
use crate::raw::Raw;

/// The tie between the requests of an agent, by which it can have something for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// A session, which says when it ends.
    #[default]
    Session,
    /// The agent's name alone: each request comes by itself.
    Name,
    /// Nothing: each could be another's.
    Nothing,
}

/// An agent as servers can reach it; clones are the same agent.
#[derive(Clone, Debug)]
pub struct Presence {
    /// Which agent.
    pub id: AgentId,
    /// The agent whose connections it uses: itself, or the agent on whose behalf it listens.
    pub owner: AgentId,
    /// Where what belongs to no request of it goes; `None`: nothing can be told outside of one.
    pub standing: Option<events::Sender>,
    /// The tie between its requests.
    pub tie: Tie,
    name: Option<AgentName>,
    /// The counts of what is held for it; `None`: nobody counts.
    purse: Option<Arc<Purse>>,
    log: Arc<AtomicU8>,
    /// The servers whose state of its session was lost with another process, and that it has not been told
    /// so of; `None`: nothing was lost.
    lost: Option<Arc<Mutex<BTreeSet<ServerRef>>>>,
}

impl Presence {
    /// A new agent, which has not said what it wants to hear of servers' logs.
    pub fn new(standing: Option<events::Sender>) -> Self {
        let log = Arc::new(AtomicU8::new(LogLevel::UNSAID.0));
        let id = AgentId::next();
        let (name, purse, lost) = (None, None, None);
        Self { id, owner: id, standing, tie: Tie::default(), name, purse, log, lost }
    }

    /// An agent that has to be told, once of each, that the state which these servers had of its session is
    /// lost.
    #[must_use]
    pub fn having_lost(self, servers: BTreeSet<ServerRef>) -> Self {
        let lost = (!servers.is_empty()).then(|| Arc::new(Mutex::new(servers)));
        Self { lost, ..self }
    }

    /// The servers whose loss it has not been told of.
    pub fn lost(&self) -> BTreeSet<ServerRef> {
        let lost =
            self.lost.as_ref().map(|lost| lost.lock().unwrap_or_else(PoisonError::into_inner));
        lost.map(|lost| lost.clone()).unwrap_or_default()
    }

    /// Returns `true` if the state of this server was lost and the agent has not been told; it is told now.
    pub(crate) fn learns_of_loss(&self, server: &ServerRef) -> bool {
        let Some(lost) = &self.lost else { return false };
        lost.lock().unwrap_or_else(PoisonError::into_inner).remove(server)
    }

    /// Gives the agent its name, if it has one.
    #[must_use]
    pub fn named(self, name: Option<AgentName>) -> Self {
        Self { name, ..self }
    }

    /// Counts what is held for the agent in this purse.
    #[must_use]
    pub fn paying_with(self, purse: Arc<Purse>) -> Self {
        Self { purse: Some(purse), ..self }
    }

    /// The counts of what is held for it, if anybody counts.
    pub(crate) fn purse(&self) -> Option<&Arc<Purse>> {
        self.purse.as_ref()
    }

    /// Whom it is told from others by.
    pub(crate) fn principal(&self) -> Principal {
        match (&self.name, self.tie) {
            (Some(name), _) => Principal::Named(name.clone()),
            (None, Tie::Nothing) => Principal::Nobody,
            (None, Tie::Session | Tie::Name) => Principal::Nameless(self.owner),
        }
    }

    /// Ties the agent's requests together in this way.
    #[must_use]
    pub fn tied_by(self, tie: Tie) -> Self {
        Self { tie, ..self }
    }

    /// Somebody who listens on this agent's behalf, and hears nothing of servers' logs.
    #[must_use]
    pub fn listener(&self, standing: events::Sender) -> Self {
        let listener = Self::new(Some(standing));
        // Logs belong to the requests that ask for them.
        listener.set_log(LogLevel::NOTHING);
        let (name, purse) = (self.name.clone(), self.purse.clone());
        Self { owner: self.owner, tie: self.tie, name, purse, ..listener }
    }

    /// Returns `true` if it only listens.
    pub(crate) fn is_listener(&self) -> bool {
        self.id != self.owner
    }

    /// Makes it an agent that is told nothing outside of its requests.
    #[must_use]
    pub fn within_requests(&self) -> Self {
        Self { standing: None, ..self.clone() }
    }

    /// The level of servers' logs that it wants to hear.
    pub fn log(&self) -> LogLevel {
        LogLevel(self.log.load(Ordering::Relaxed))
    }

    /// Sets that.
    pub fn set_log(&self, level: LogLevel) {
        self.log.store(level.0, Ordering::Relaxed);
    }
}

/// From which severity on log messages are heard (MCP, server/utilities/logging).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(u8);

const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl LogLevel {
    /// Nothing was said: everything is heard.
    pub const UNSAID: Self = Self(u8::MAX);
    /// Nothing is heard.
    pub const NOTHING: Self = Self(u8::MAX - 1);

    /// The level called `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        let index = LEVELS.iter().position(|level| *level == word)?;
        u8::try_from(index).ok().map(Self)
    }

    /// The level of a log message; of one that does not say, the highest.
    pub(crate) fn of(message: &Raw) -> Self {
        #[derive(Deserialize)]
        struct Level {
            level: String,
        }

        let level = message.parse::<Level>().ok();
        level.and_then(|level| Self::from_word(&level.level)).unwrap_or(Self(7))
    }

    /// Returns `true` if a message of `level` is heard.
    pub(crate) fn hears(self, level: Self) -> bool {
        self == Self::UNSAID || (self != Self::NOTHING && self <= level)
    }

    /// The level, where one was said.
    pub(crate) fn wanted(self) -> Option<Self> {
        (usize::from(self.0) < LEVELS.len()).then_some(self)
    }

    /// Its word, where one was said.
    pub fn word(self) -> Option<&'static str> {
        LEVELS.get(usize::from(self.0)).copied()
    }

    pub(crate) fn encode(self) -> Raw {
        Raw::encode(&self.word().unwrap_or("debug"))
    }
}

/// Returns `true` if a result may say that the server wants to know something (2026-07-28,
/// basic/patterns/mrtr). Most can be told at a glance not to.
pub fn may_ask(said: &Raw) -> bool {
    // The members that say so have this in common: `input_required`, `inputRequests`.
    static INPUT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("input"));
    // Where letters are escaped, which is written in this way alone, a member may be spelled otherwise.
    static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r"\u"));
    let text = said.as_bytes();
    INPUT.find(text).is_some() || ESCAPED.find(text).is_some()
}

/// Returns `true` if a modern server's words ask for the agent's roots; they are a result, or the
/// state of a task. Some readers take the first of repeated members and some the last, so all of
/// them count, and so does what cannot be read.
pub fn asks_for_roots(said: &Raw) -> bool {
    if !may_ask(said) {
        return false;
    }
    let is_for_roots = |wanted: &Raw| {
        let methods = wanted.members().map(|members| {
            let methods = members.into_iter().filter(|(key, _)| key == "method");
            methods.map(|(_, method)| method.parse::<String>()).collect::<Vec<_>>()
        });
        methods.is_none_or(|methods| {
            methods.iter().any(|method| method.as_ref().map_or(true, |m| m == "roots/list"))
        })
    };
    let requests = said.members().into_iter().flatten().filter(|(key, _)| key == "inputRequests");
    requests.into_iter().any(|(_, requests)| {
        let all = requests.members().unwrap_or_default();
        all.iter().any(|(_, wanted)| is_for_roots(wanted))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wish_for_roots_is_seen_however_it_is_written() {
        let asks = |text: &str| {
            asks_for_roots(&Raw::encode(
                &serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap(),
            ))
        };
        assert!(asks(r#"{"inputRequests":{"a":{"method":"ping"},"b":{"method":"roots/list"}}}"#));
        assert!(asks(
            r#"{"status":"input_required","inputRequests":{"b":{"m":1,"method":"roots\/l\u0069st"}}}"#
        ));
        assert!(asks(r#"{"input\u0052equests":{"b":{"method":"roots/list"}}}"#));
        assert!(asks(r#"{"\u0069nputRequests":{"b":{"method":"roots/list"}}}"#));
        assert!(asks(r#"{"inputRequests":{},"inputRequests":{"b":{"method":"roots/list"}}}"#));
        assert!(asks(r#"{"inputRequests":{"b":{"method":"x","method":"roots/list"}}}"#));
        assert!(!asks(r#"{"inputRequests":{"a":{"method":"elicitation/create"}}}"#));
        assert!(!asks(r#"{"content":"a\nb","inputRequests":{"a":{"method":"x"}}}"#));
        assert!(!asks(r#"{"content":["inputRequests","roots/list"]}"#));
        assert!(!asks("[]"));
    }

    #[test]
    fn most_results_cannot_ask_for_anything() {
        let may_ask = |text: &str| may_ask(&Raw::encode(&json!({ "content": text })));
        assert!(!may_ask("a \"line\"\n\tand another"));
        assert!(may_ask("input") && may_ask("\u{1}"));
    }

    #[test]
    fn a_level_hears_what_is_as_important() {
        let [debug, error] = ["debug", "error"].map(|word| LogLevel::from_word(word).unwrap());
        assert!(debug.hears(error) && error.hears(error) && !error.hears(debug));
        assert!(LogLevel::UNSAID.hears(debug) && !LogLevel::NOTHING.hears(error));
        assert_eq!(LogLevel::from_word("loud"), None);
        assert_eq!(LogLevel::of(&Raw::encode(&json!({"level": "error"}))), error);
        assert!(error.hears(LogLevel::of(&Raw::encode(&json!({"level": 7})))));
        assert_eq!((error.wanted(), LogLevel::UNSAID.wanted()), (Some(error), None));
        assert_eq!(LogLevel::NOTHING.wanted(), None);
    }

    #[test]
    fn a_listener_uses_the_connections_of_its_agent() {
        let agent = Presence::new(None);
        let listener = agent.listener(events::channel(1).0);
        assert_eq!(listener.owner, agent.id);
        assert_ne!(listener.id, agent.id);
        assert!(listener.is_listener() && !agent.is_listener());
        assert_eq!(listener.log(), LogLevel::NOTHING);
        assert_eq!(agent.log(), LogLevel::UNSAID);
    }
}
