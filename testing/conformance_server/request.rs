//! A request with its protocol version, capabilities and log level.

use serde_json::{Value, json};

use crate::wire::Fault;

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Both,
}

impl Eras {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word {
            "legacy" => Some(Self::Legacy),
            "modern" => Some(Self::Modern),
            "both" => Some(Self::Both),
            _ => None,
        }
    }

    pub(crate) fn has_legacy(self) -> bool {
        self != Self::Modern
    }

    pub(crate) fn has_modern(self) -> bool {
        self != Self::Legacy
    }

    /// The supported revisions, oldest first.
    pub(crate) fn versions(self) -> Vec<&'static str> {
        let legacy = LEGACY.into_iter().filter(|_| self.has_legacy());
        legacy.chain(self.has_modern().then_some(MODERN)).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(usize);

impl Level {
    pub(crate) const DEBUG: Self = Self(0);

    pub(crate) fn from_json(word: &Value) -> Result<Self, Fault> {
        let position = LEVELS.iter().position(|level| *word == **level);
        position
            .map(Self)
            .ok_or_else(|| Fault::invalid_params(format!("invalid log level: {word}")))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) capabilities: Value,
    pub(crate) level: Level,
}

/// A request. Capabilities and log level come from the session (legacy) or the request itself
/// (modern).
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) params: Value,
    pub(crate) modern: bool,
    pub(crate) capabilities: Value,
    /// The lowest level to log; `None` turns logging off.
    pub(crate) level: Option<Level>,
}

impl Request {
    pub(crate) fn legacy(id: Value, params: Value, session: &Session) -> Self {
        let capabilities = session.capabilities.clone();
        Self { id, params, modern: false, capabilities, level: Some(session.level) }
    }

    pub(crate) fn modern(id: Value, params: Value, versions: &[&str]) -> Result<Self, Fault> {
        let meta = &params["_meta"];
        let version = meta[VERSION_KEY]
            .as_str()
            .ok_or_else(|| Fault::invalid_params(format!("`_meta` has no {VERSION_KEY}")))?;
        if version != MODERN {
            return Err(Fault::unsupported_version(version, versions));
        }
        let capabilities = meta[CAPABILITIES_KEY].clone();
        if !capabilities.is_object() {
            return Err(Fault::invalid_params(format!("`_meta` has no {CAPABILITIES_KEY}")));
        }
        let level = match &meta[LOG_LEVEL_KEY] {
            Value::Null => None,
            word => Some(Level::from_json(word)?),
        };
        Ok(Self { id, params, modern: true, capabilities, level })
    }

    /// Every modern request has a protocol version in its `_meta`.
    pub(crate) fn carries_version(params: &Value) -> bool {
        !params["_meta"][VERSION_KEY].is_null()
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Fault> {
        let value = self.params[name].as_str();
        value.ok_or_else(|| Fault::invalid_params(format!("`{name}` is missing or not a string")))
    }

    /// Returns the arguments of a call, or `{}` if there are none.
    pub(crate) fn arguments(&self) -> Result<Value, Fault> {
        match &self.params["arguments"] {
            Value::Null => Ok(json!({})),
            arguments if arguments.is_object() => Ok(arguments.clone()),
            _ => Err(Fault::invalid_params("`arguments` is not an object")),
        }
    }
}
