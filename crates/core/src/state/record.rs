//! State records and their encoding.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::state::choices::SessionChoices;
use mcp_workbench_names::{AgentName, ServerRef, ToolboxName};
use mcp_workbench_wire::json::RawJson;

/// Version of the encoding. Records of other versions are treated as missing.
const VERSION: u32 = 1;

/// Unguessable key of a session. The session's ID leads to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(String);

impl SessionKey {
    /// Derives the key from a session ID, a credential that can't be recovered from it.
    pub fn of_id(id: &str) -> Self {
        Self::of_bytes(&Sha256::digest(id)[..16])
    }

    /// Returns a key for a session without an ID; `None` if the system has no random numbers.
    pub fn random() -> Option<Self> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).ok()?;
        Some(Self::of_bytes(&random))
    }

    /// Returns the key as 32 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Self(hex::encode(bytes))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordKey {
    Session(SessionKey),
    /// The random name of a result remainder.
    Rest(String),
    /// Task ID and the key of the agents that may query it.
    Task(String),
    Suspended(u64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateRecord {
    Session(Arc<SessionRecord>),
    #[serde(rename = "rest")]
    Remainder(ResultRemainder),
    Task {
        agent: Option<AgentName>,
        server: ServerRef,
    },
    Suspended(Suspended),
}

/// Session of a legacy client (initialize handshake).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionRecord {
    pub agent: Option<AgentName>,
    /// The only toolbox that is served, if it is restricted to one.
    pub toolbox: Option<ToolboxName>,
    /// The holder of the JWT, if servers get exchanged tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    pub mode: String,
    /// `None` before `initialize`.
    pub introduction: Option<ClientIntroduction>,
    pub chosen: SessionChoices,
    pub lists: ListState,
    pub subscriptions: BTreeSet<Arc<str>>,
    /// As set by `logging/setLevel`.
    pub log_level: Option<String>,
    /// Servers with `isolation` that were started for this session. Their state is lost if another
    /// process takes the session over.
    pub isolated: BTreeSet<ServerRef>,
    /// Fingerprint of the configuration when the record was stored.
    pub configuration: String,
    pub moves: Takeovers,
    pub tenure: SessionLease,
}

impl SessionRecord {
    /// Returns a tombstone for a session that ended after a takeover, so that its previous owner
    /// stops. Without an `introduction`, it can't be taken over.
    pub fn ended(tenure: &SessionLease) -> Option<Self> {
        let tenure = SessionLease { epoch: tenure.epoch.checked_add(1)?, ..tenure.clone() };
        Some(Self { tenure, ..Self::default() })
    }
}

/// Times of the last takeovers in seconds since the Unix epoch, oldest first. The clocks of several
/// machines contribute, so use it only for hints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Takeovers(Vec<u64>);

impl Takeovers {
    /// Number of times that are remembered.
    const MOST: usize = 4;

    /// Adds a takeover at `now`.
    #[must_use]
    pub fn and(&self, now: u64) -> Self {
        let rest = self.0.iter().rev().take(Self::MOST - 1).rev().copied();
        Self(rest.chain([now]).collect())
    }

    /// Returns `true` if there were more than three takeovers in the last minute.
    pub fn is_flapping(&self, now: u64) -> bool {
        let lately = self.0.iter().filter(|moved| now.saturating_sub(**moved) < 60);
        lately.count() >= Self::MOST
    }
}

/// A lease on a session. Each takeover increments the epoch; the newest lease wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionLease {
    /// Random name of the process.
    pub owner: String,
    /// Number of takeovers.
    pub epoch: u64,
}

impl SessionLease {
    /// Returns the lease of `owner` after a takeover; `None` if the epoch overflows.
    pub fn taken_over_by(&self, owner: &str) -> Option<Self> {
        Some(Self { owner: owner.to_owned(), epoch: self.epoch.checked_add(1)? })
    }

    /// Returns `true` if this lease is newer than `other` or equal to it.
    pub fn supersedes(&self, other: &Self) -> bool {
        self.epoch > other.epoch || self == other
    }
}

/// The client's parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientIntroduction {
    /// Kept as the client wrote them.
    pub capabilities: RawJson,
    pub client: ClientInfo,
    /// The negotiated protocol version.
    pub protocol: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientInfo {
    pub name: String,
    pub version: String,
}

/// A client's knowledge of its lists, which decides whether it needs notifications of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListState {
    /// `true` once the client has listed tools whose definitions describe servers.
    pub is_given: bool,
    /// `true` if the client has the current tool list.
    pub is_current: bool,
    /// `true` if the client didn't list its tools again after a notification.
    pub is_ignored: bool,
    /// Digests of the last lists sent, for takeovers.
    #[serde(rename = "given")]
    pub digests: ListDigests,
}

/// Digests of the lists sent; `None` if the client hasn't requested the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDigests {
    pub tools: Option<String>,
    pub resources: Option<String>,
    pub prompts: Option<String>,
}

impl ListDigests {
    /// Returns a digest of a list, which depends on the order of its entries.
    pub fn digest(entries: &[RawJson]) -> String {
        let mut hash = Sha256::new();
        for entry in entries {
            hash.update(entry.as_bytes());
            hash.update(b"\n");
        }
        hex::encode(&hash.finalize()[..8])
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultRemainder {
    pub agent: Option<AgentName>,
    /// The holder of the JWT, if servers get exchanged tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// The session it belongs to; `None` for any session of the agent.
    pub session: Option<SessionKey>,
    /// The caller whose quota it counts against; `None` if it counts against none.
    #[serde(rename = "payer")]
    pub owner: Option<String>,
    pub text: Arc<str>,
    /// Number of bytes returned per read.
    pub piece: usize,
}

/// Work that waits for an answer. The work itself stays in the process that suspended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suspended {
    pub agent: Option<AgentName>,
    pub method: String,
    /// When an answer is no longer valid, in milliseconds since the Unix epoch. `None` in records
    /// of older versions, which can't be answered.
    #[serde(default)]
    pub expires_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    Session,
    Rest,
    Task,
    Suspended,
}

/// Maximum number of records, and of bytes of text in them.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    pub count: usize,
    pub bytes: usize,
}

impl Capacity {
    /// For records that are limited elsewhere.
    pub const UNLIMITED: Self = Self { count: usize::MAX, bytes: usize::MAX };

    /// Returns the larger of both, member by member.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { count: self.count.max(other.count), bytes: self.bytes.max(other.bytes) }
    }
}

/// The outcome of storing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    Stored,
    /// Stored, and older records of the same caller were evicted for it.
    StoredWithEviction,
    /// Not stored, because another process has taken the session over.
    Superseded,
}

impl PutOutcome {
    pub fn is_stored(self) -> bool {
        self != Self::Superseded
    }
}

impl RecordKind {
    /// `None` if such records don't expire.
    pub const fn lifetime(self) -> Option<Duration> {
        match self {
            Self::Rest => Some(Duration::from_mins(15)),
            Self::Suspended => Some(Duration::from_mins(10)),
            Self::Session | Self::Task => None,
        }
    }

    /// The capacity for all callers together.
    pub(crate) const fn room(self) -> Capacity {
        match self {
            Self::Rest => Capacity { count: 1000, bytes: 64 * 1024 * 1024 },
            Self::Task => Capacity { count: 100_000, ..Capacity::UNLIMITED },
            Self::Session | Self::Suspended => Capacity::UNLIMITED,
        }
    }
}

impl RecordKey {
    pub(crate) fn kind(&self) -> RecordKind {
        match self {
            Self::Session(_) => RecordKind::Session,
            Self::Rest(_) => RecordKind::Rest,
            Self::Task(_) => RecordKind::Task,
            Self::Suspended(_) => RecordKind::Suspended,
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    record: &'a StateRecord,
}

#[derive(Deserialize)]
struct EncodedRecordRef<'a> {
    version: u32,
    #[serde(borrow)]
    record: &'a RawValue,
}

impl StateRecord {
    /// Encodes the record with its version.
    ///
    /// # Errors
    ///
    /// Returns an error if JSON can't represent it, which is a bug.
    pub fn encode(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Written { version: VERSION, record: self })
    }

    /// Decodes a record of the same version, ignoring unknown members; `None` for any other text.
    pub fn decode(text: &str) -> Option<Self> {
        let read: EncodedRecordRef<'_> = serde_json::from_str(text).ok()?;
        (read.version == VERSION).then(|| serde_json::from_str(read.record.get()).ok())?
    }

    /// Returns the caller whose quota it counts against.
    pub(crate) fn payer(&self) -> Option<&str> {
        let agent = match self {
            Self::Remainder(rest) => return rest.owner.as_deref(),
            Self::Session(session) => &session.agent,
            Self::Task { agent, .. } => agent,
            Self::Suspended(suspended) => &suspended.agent,
        };
        agent.as_ref().map(AgentName::as_str)
    }

    /// Returns the session whose end removes it.
    pub(crate) fn session(&self) -> Option<&SessionKey> {
        match self {
            Self::Remainder(rest) => rest.session.as_ref(),
            Self::Session(_) | Self::Task { .. } | Self::Suspended(_) => None,
        }
    }

    /// Returns the bytes of text that count against the capacity.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Remainder(rest) => rest.text.len(),
            Self::Session(_) | Self::Task { .. } | Self::Suspended(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
