//! Agents as servers can reach them: identity, event channel, quota and log level.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::backend::events;
use crate::backend::principal::{AgentId, Principal};
use crate::backend::quota::{CallerQuota, SubscriptionGuard, SubscriptionLimitError};
use mcp_workbench_names::{AgentName, ServerRef};
use mcp_workbench_settings::CallerLimits;
use mcp_workbench_wire::json::RawJson;

/// Session affinity: how requests are attributed to the same agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// Requests belong to a session with an explicit end.
    #[default]
    Session,
    /// Requests share only the agent's name.
    AgentName,
    /// Requests can't be linked to each other.
    None,
}

/// An agent that servers can reach. Clones are the same agent.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    pub id: AgentId,
    /// Owner of the connections: this agent, or the agent that it listens for.
    pub connection_owner: AgentId,
    /// Channel for events outside a request. `None` if the agent can be reached only while a
    /// request is in flight.
    pub session_events: Option<events::Sender>,
    pub affinity: Affinity,
    name: Option<AgentName>,
    /// `None` disables counting.
    quota: Option<Arc<CallerQuota>>,
    log: Arc<AtomicU8>,
    /// Servers whose session state was lost with another process, until this is reported to the
    /// agent. `None` if nothing was lost.
    lost: Option<Arc<Mutex<BTreeSet<ServerRef>>>>,
}

impl AgentHandle {
    /// Creates an agent with a new ID and no log level.
    pub fn new(session_events: Option<events::Sender>) -> Self {
        let log = Arc::new(AtomicU8::new(LogLevel::UNSET.0));
        let id = AgentId::next();
        let (name, quota, lost) = (None, None, None);
        Self {
            id,
            connection_owner: id,
            session_events,
            affinity: Affinity::default(),
            name,
            quota,
            log,
            lost,
        }
    }

    /// Marks the session state at `servers` as lost. Each loss is reported to the agent once.
    #[must_use]
    pub fn with_lost_servers(self, servers: BTreeSet<ServerRef>) -> Self {
        let lost = (!servers.is_empty()).then(|| Arc::new(Mutex::new(servers)));
        Self { lost, ..self }
    }

    pub fn lost(&self) -> BTreeSet<ServerRef> {
        let lost = self.lost.as_ref().map(|lost| lost.lock());
        lost.map(|lost| lost.clone()).unwrap_or_default()
    }

    /// Returns `true` if the state at this server was lost, and marks the loss as reported.
    pub(crate) fn take_loss(&self, server: &ServerRef) -> bool {
        let Some(lost) = &self.lost else { return false };
        lost.lock().remove(server)
    }

    #[must_use]
    pub fn with_name(self, name: Option<AgentName>) -> Self {
        Self { name, ..self }
    }

    #[must_use]
    pub fn with_quota(self, purse: Arc<CallerQuota>) -> Self {
        Self { quota: Some(purse), ..self }
    }

    pub(crate) fn purse(&self) -> Option<&Arc<CallerQuota>> {
        self.quota.as_ref()
    }

    /// Acquires a subscription whose URI or task ID has this many bytes. `None` without a quota.
    pub(crate) fn subscribe(
        &self,
        bytes: usize,
        limits: &CallerLimits,
    ) -> Result<Option<SubscriptionGuard>, SubscriptionLimitError> {
        self.quota.as_ref().map(|quota| quota.subscribe(bytes, limits)).transpose()
    }

    /// Returns the identity that separates this agent from others.
    pub(crate) fn principal(&self) -> Principal {
        match (&self.name, self.affinity) {
            (Some(name), _) => Principal::Named(name.clone()),
            (None, Affinity::None) => Principal::Anonymous,
            (None, Affinity::Session | Affinity::AgentName) => {
                Principal::Session(self.connection_owner)
            }
        }
    }

    #[must_use]
    pub fn with_affinity(self, affinity: Affinity) -> Self {
        Self { affinity, ..self }
    }

    /// Creates a listener for this agent, which shares its connections and receives no logs.
    #[must_use]
    pub fn listener(&self, standing: events::Sender) -> Self {
        let listener = Self::new(Some(standing));
        // Logs go to the requests that ask for them.
        listener.set_log_level(LogLevel::OFF);
        let (name, purse) = (self.name.clone(), self.quota.clone());
        Self {
            connection_owner: self.connection_owner,
            affinity: self.affinity,
            name,
            quota: purse,
            ..listener
        }
    }

    pub(crate) fn is_listener(&self) -> bool {
        self.id != self.connection_owner
    }

    /// Returns a handle that gets no events outside its requests.
    #[must_use]
    pub fn without_session_events(&self) -> Self {
        Self { session_events: None, ..self.clone() }
    }

    pub fn log_level(&self) -> LogLevel {
        LogLevel(self.log.load(Ordering::Relaxed))
    }

    pub fn set_log_level(&self, level: LogLevel) {
        self.log.store(level.0, Ordering::Relaxed);
    }
}

/// Minimum severity of forwarded log messages (MCP, server/utilities/logging).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(u8);

const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl LogLevel {
    /// No level was set: all messages are forwarded.
    pub const UNSET: Self = Self(u8::MAX);
    pub const OFF: Self = Self(u8::MAX - 1);

    /// Parses a level name of the MCP specification.
    pub fn from_word(word: &str) -> Option<Self> {
        let index = LEVELS.iter().position(|level| *level == word)?;
        u8::try_from(index).ok().map(Self)
    }

    /// Returns the severity of a log message. Without a valid level, assumes the highest.
    pub(crate) fn of(message: &RawJson) -> Self {
        #[derive(Deserialize)]
        struct Level {
            level: String,
        }

        let level = message.parse::<Level>().ok();
        level.and_then(|level| Self::from_word(&level.level)).unwrap_or(Self(7))
    }

    pub(crate) fn allows(self, level: Self) -> bool {
        self == Self::UNSET || (self != Self::OFF && self <= level)
    }

    pub(crate) fn explicit(self) -> Option<Self> {
        (usize::from(self.0) < LEVELS.len()).then_some(self)
    }

    /// Returns the level's name in MCP, if one was set.
    pub fn as_str(self) -> Option<&'static str> {
        LEVELS.get(usize::from(self.0)).copied()
    }

    pub(crate) fn encode(self) -> RawJson {
        RawJson::encode(&self.as_str().unwrap_or("debug"))
    }
}

/// Checks quickly whether a result may request input (2026-07-28, basic/patterns/mrtr). False
/// positives are possible.
pub fn may_require_input(said: &RawJson) -> bool {
    // Common to the members `input_required` and `inputRequests`.
    static INPUT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("input"));
    // JSON escapes letters only as `\u…`, which would hide the word.
    static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r"\u"));
    let text = said.as_bytes();
    INPUT.find(text).is_some() || ESCAPED.find(text).is_some()
}

/// Returns `true` if a modern server's result or task state requests the agent's roots. JSON
/// readers differ on repeated members, so all of them count, and so do unreadable ones.
pub fn requests_roots(said: &RawJson) -> bool {
    if !may_require_input(said) {
        return false;
    }
    let is_for_roots = |wanted: &RawJson| {
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
    fn roots_request_is_detected_in_every_json_spelling() {
        let asks = |text: &str| {
            requests_roots(&RawJson::encode(
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
    fn plain_results_cannot_require_input() {
        let may_ask = |text: &str| may_require_input(&RawJson::encode(&json!({ "content": text })));
        assert!(!may_ask("a \"line\"\n\tand another"));
        assert!(may_ask("input") && may_ask("\u{1}"));
    }

    #[test]
    fn log_level_allows_equal_or_higher_severity() {
        let [debug, error] = ["debug", "error"].map(|word| LogLevel::from_word(word).unwrap());
        assert!(debug.allows(error) && error.allows(error) && !error.allows(debug));
        assert!(LogLevel::UNSET.allows(debug) && !LogLevel::OFF.allows(error));
        assert_eq!(LogLevel::from_word("loud"), None);
        assert_eq!(LogLevel::of(&RawJson::encode(&json!({"level": "error"}))), error);
        assert!(error.allows(LogLevel::of(&RawJson::encode(&json!({"level": 7})))));
        assert_eq!((error.explicit(), LogLevel::UNSET.explicit()), (Some(error), None));
        assert_eq!(LogLevel::OFF.explicit(), None);
    }

    #[test]
    fn listener_shares_its_owner_and_gets_no_logs() {
        let agent = AgentHandle::new(None);
        let listener = agent.listener(events::channel(1).0);
        assert_eq!(listener.connection_owner, agent.id);
        assert_ne!(listener.id, agent.id);
        assert!(listener.is_listener() && !agent.is_listener());
        assert_eq!(listener.log_level(), LogLevel::OFF);
        assert_eq!(agent.log_level(), LogLevel::UNSET);
    }
}
