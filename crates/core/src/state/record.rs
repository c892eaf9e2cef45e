//! Records, and their text.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::name::{AgentName, ServerRef, ToolboxName};
use crate::raw::Raw;
use crate::state::Chosen;

/// The version of the text of records. A program reads its own alone, and takes any other for
/// something that is not there.
const VERSION: u32 = 1;

/// The key of a session. It cannot be guessed, and an agent that comes back with its session's id is
/// led to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(String);

impl SessionKey {
    /// Returns the key of the session with this id. The id is a credential, so it is not in there.
    pub fn of_id(id: &str) -> Self {
        Self::of_bytes(&Sha256::digest(id)[..16])
    }

    /// Returns a key for a session without an id; `None` if the system has no random numbers.
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
        Self(hex(bytes))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Where a record is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A session.
    Session(SessionKey),
    /// The rest of a result, by its random name.
    Rest(String),
    /// A task, by its id and whatever tells apart the agents that may know it.
    Task(String),
    /// Suspended work, by its ticket.
    Suspended(u64),
}

/// The state of something that outlasts a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Record {
    /// A session.
    Session(Arc<Session>),
    /// The rest of a result that was too long to be given at once.
    Rest(Rest),
    /// A task: the server that runs it.
    Task {
        /// The agent that began it, by its name.
        agent: Option<AgentName>,
        /// The server.
        server: ServerRef,
    },
    /// Work that waits for an agent to come back with an answer.
    Suspended(Suspended),
}

/// The state of one legacy agent's session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Session {
    /// The agent's name, if it has one.
    pub agent: Option<AgentName>,
    /// The one toolbox that it wants, if it wants one.
    pub toolbox: Option<ToolboxName>,
    /// The word of the mode in which everything is presented to it.
    pub mode: String,
    /// Its introduction; `None`: it has not begun yet.
    pub introduction: Option<Introduction>,
    /// Its choices.
    pub chosen: Chosen,
    /// Its knowledge of its lists.
    pub lists: Lists,
    /// The addresses of the resources that it has subscribed to.
    pub subscriptions: BTreeSet<String>,
    /// From which level on it hears servers' logs, if it said so.
    pub log_level: Option<String>,
    /// The servers that keep sessions apart (`isolation`) and have been started for this one: what they
    /// know of it is lost with the process that has started them.
    pub isolated: BTreeSet<ServerRef>,
    /// The configuration that was served when it was put, by its fingerprint.
    pub configuration: String,
    /// When it was taken over last.
    pub moves: Moves,
    /// Who goes on with it.
    pub tenure: Tenure,
}

impl Session {
    /// The record that stands in the place of a session which has ended after it was taken over, so that
    /// whoever had it before does not go on with it. Nobody takes it over, for it has no introduction.
    pub fn ended(tenure: &Tenure) -> Option<Self> {
        let tenure = Tenure { epoch: tenure.epoch.checked_add(1)?, ..tenure.clone() };
        Some(Self { tenure, ..Self::default() })
    }
}

/// When a session was taken over last, in seconds since 1970, the oldest first. Clocks of several machines
/// have written it, so it is good for hints alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moves(Vec<u64>);

impl Moves {
    /// How many are remembered. Where so many are of one minute, a session does not stay where it is.
    const MOST: usize = 4;

    /// Takes note of one more.
    #[must_use]
    pub fn and(&self, now: u64) -> Self {
        let rest = self.0.iter().rev().take(Self::MOST - 1).rev().copied();
        Self(rest.chain([now]).collect())
    }

    /// Returns `true` if it was taken over more than three times within the minute that ends `now`.
    pub fn are_many(&self, now: u64) -> bool {
        let lately = self.0.iter().filter(|moved| now.saturating_sub(**moved) < 60);
        lately.count() >= Self::MOST
    }
}

/// Which of several processes goes on with a session: each that takes it over does so for the next time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tenure {
    /// The process, by a random name.
    pub owner: String,
    /// How often the session was taken over.
    pub epoch: u64,
}

impl Tenure {
    /// The tenure of `owner`, who takes the session over from this one; `None` where it was taken over as
    /// often as can be counted.
    pub fn next(&self, owner: &str) -> Option<Self> {
        Some(Self { owner: owner.to_owned(), epoch: self.epoch.checked_add(1)? })
    }

    /// Returns `true` if this one holds where `other` has held until now.
    pub fn follows(&self, other: &Self) -> bool {
        self.epoch > other.epoch || self == other
    }
}

/// A legacy agent's words about itself in `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Introduction {
    /// The capabilities of its client, as it wrote them.
    pub capabilities: Raw,
    /// Its program.
    pub client: Program,
    /// The revision of the protocol that was agreed upon.
    pub protocol: String,
}

/// How a client introduces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// An agent's knowledge of its lists, which tells whether it is to be told of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lists {
    /// `true` if it has been given its tools, where those tell of servers.
    pub is_given: bool,
    /// `true` if it has been given them as they are now.
    pub is_current: bool,
    /// `true` if it was waited for in vain to list them again.
    pub is_ignored: bool,
    /// The lists that it was given last, where another process may go on with its session.
    pub given: Listings,
}

/// Digests of an agent's lists; `None`: it was not given that one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listings {
    /// Its tools.
    pub tools: Option<String>,
    /// Its resources.
    pub resources: Option<String>,
    /// Its prompts.
    pub prompts: Option<String>,
}

impl Listings {
    /// Returns the digest of a list: the same for the same entries in the same order.
    pub fn digest(entries: &[Raw]) -> String {
        let mut hash = Sha256::new();
        for entry in entries {
            hash.update(entry.as_bytes());
            hash.update(b"\n");
        }
        hex(&hash.finalize()[..8])
    }
}

/// The rest of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rest {
    /// The agent that got the result, by its name.
    pub agent: Option<AgentName>,
    /// The session that it is for; `None`: any of that agent.
    pub session: Option<SessionKey>,
    /// The caller that it is counted for, in words that tell it from others; `None`: nobody counts.
    pub payer: Option<String>,
    /// The text.
    pub text: Arc<str>,
    /// How many bytes of it are given at once.
    pub piece: usize,
}

/// Work that waits. The work itself is live, and with whoever suspended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suspended {
    /// The agent that is asked, by its name.
    pub agent: Option<AgentName>,
    /// The method of its request.
    pub method: String,
}

/// A kind of records: they have the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sessions, which whoever begins them limits.
    Session,
    /// Rests of results.
    Rest,
    /// Tasks.
    Task,
    /// Suspended work, which whoever has the work limits.
    Suspended,
}

/// How many records there may be, and how many bytes of text in them.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// How many.
    pub count: usize,
    /// How many bytes, of all together.
    pub bytes: usize,
}

impl Room {
    /// Any number, where somebody else limits them.
    pub const ENDLESS: Self = Self { count: usize::MAX, bytes: usize::MAX };

    /// Returns the room in which there is as much as in either.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { count: self.count.max(other.count), bytes: self.bytes.max(other.bytes) }
    }
}

impl Kind {
    /// How long such a record can be found; `None`: until it is removed.
    pub const fn lifetime(self) -> Option<Duration> {
        match self {
            Self::Rest => Some(Duration::from_mins(15)),
            Self::Suspended => Some(Duration::from_mins(10)),
            Self::Session | Self::Task => None,
        }
    }

    /// The room for such records of all callers together.
    pub(crate) const fn room(self) -> Room {
        match self {
            Self::Rest => Room { count: 1000, bytes: 64 * 1024 * 1024 },
            Self::Task => Room { count: 100_000, ..Room::ENDLESS },
            Self::Session | Self::Suspended => Room::ENDLESS,
        }
    }
}

impl Key {
    /// The kind of record that is found there.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Session(_) => Kind::Session,
            Self::Rest(_) => Kind::Rest,
            Self::Task(_) => Kind::Task,
            Self::Suspended(_) => Kind::Suspended,
        }
    }
}

/// The text of a record, with its version.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    record: &'a Record,
}

/// A text, of whichever version.
#[derive(Deserialize)]
struct Read<'a> {
    version: u32,
    #[serde(borrow)]
    record: &'a RawValue,
}

impl Record {
    /// Writes it.
    ///
    /// # Errors
    ///
    /// When there is something in it that JSON cannot express, which is a defect.
    pub fn encode(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Written { version: VERSION, record: self })
    }

    /// Reads one that was written by a program that writes them in the same way; `None` for any
    /// other. Members that are not known are passed over.
    pub fn decode(text: &str) -> Option<Self> {
        let read: Read<'_> = serde_json::from_str(text).ok()?;
        (read.version == VERSION).then(|| serde_json::from_str(read.record.get()).ok())?
    }

    /// The caller that it is counted for, among records of its kind.
    pub(crate) fn payer(&self) -> Option<&str> {
        let agent = match self {
            Self::Rest(rest) => return rest.payer.as_deref(),
            Self::Session(session) => &session.agent,
            Self::Task { agent, .. } => agent,
            Self::Suspended(suspended) => &suspended.agent,
        };
        agent.as_ref().map(AgentName::as_str)
    }

    /// The session that it is for, if it is for one alone.
    pub(crate) fn session(&self) -> Option<&SessionKey> {
        match self {
            Self::Rest(rest) => rest.session.as_ref(),
            Self::Session(_) | Self::Task { .. } | Self::Suspended(_) => None,
        }
    }

    /// The bytes of text in it that count.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Rest(rest) => rest.text.len(),
            Self::Session(_) | Self::Task { .. } | Self::Suspended(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
