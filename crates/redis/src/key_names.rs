//! Names of Redis keys: a prefix, the kind of value, and a hash of its identity.
//!
//! Session IDs and the names of other records are credentials, so a key contains only their hash.

use sha2::{Digest, Sha256};

use mcp_workbench_core::state::{RecordKey, SessionKey};

/// Number of hash bytes in a key.
const HASH: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct KeyNames {
    prefix: String,
}

/// The kinds of records with a bounded number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundedKind {
    /// The remainder of a truncated result.
    Rest,
    Task,
}

impl BoundedKind {
    fn word(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Task => "task",
        }
    }

    /// Returns the kind of the record at this key, and the hash for its Redis key.
    pub(crate) fn of(key: &RecordKey) -> Option<(Self, String)> {
        match key {
            RecordKey::Rest(name) => Some((Self::Rest, hash(name))),
            RecordKey::Task(name) => Some((Self::Task, hash(name))),
            RecordKey::Session(_) | RecordKey::Suspended(_) => None,
        }
    }
}

impl KeyNames {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(crate) fn session(&self, session: &SessionKey) -> String {
        format!("{}session:{}", self.prefix, session_hash(session))
    }

    /// Returns the key of the record with this hash.
    pub(crate) fn record(&self, kind: BoundedKind, hash: &str) -> String {
        format!("{}{}:{hash}", self.prefix, kind.word())
    }

    pub(crate) fn index_of_all(&self, kind: BoundedKind) -> String {
        format!("{}{}-list:all", self.prefix, kind.word())
    }

    /// Returns the key of the index of an owner's records. `owner` is a hash.
    pub(crate) fn index_of_owner(&self, kind: BoundedKind, owner: &str) -> String {
        format!("{}{}-list:of-{owner}", self.prefix, kind.word())
    }

    /// Returns the key of the index of a session's records. `session` is a hash.
    pub(crate) fn index_of_session(&self, kind: BoundedKind, session: &str) -> String {
        format!("{}{}-list:for-{session}", self.prefix, kind.word())
    }

    pub(crate) fn count(&self, subject: &str) -> String {
        format!("{}rate:{}", self.prefix, hash(subject))
    }

    pub(crate) fn login(&self, login: &str) -> String {
        format!("{}login:{}", self.prefix, hash(login))
    }

    pub(crate) fn login_lock(&self, login: &str) -> String {
        format!("{}login-lock:{}", self.prefix, hash(login))
    }

    pub(crate) fn logins(&self) -> String {
        format!("{}login-list:all", self.prefix)
    }

    /// Returns the key of a pending sign-in, by its OAuth `state`.
    pub(crate) fn sign_in(&self, state: &str) -> String {
        format!("{}sign-in:{}", self.prefix, hash(state))
    }

    pub(crate) fn listing(&self, fingerprint: &str) -> String {
        self.listing_of(&hash(fingerprint))
    }

    pub(crate) fn listing_of(&self, hash: &str) -> String {
        format!("{}listing:{hash}", self.prefix)
    }

    pub(crate) fn listings(&self) -> String {
        format!("{}listing-list:all", self.prefix)
    }

    /// Returns a key for probing the store.
    pub(crate) fn probe(&self, name: &str) -> String {
        format!("{}trial:{name}", self.prefix)
    }
}

pub(crate) fn session_hash(session: &SessionKey) -> String {
    hash(&serde_json::to_string(session).unwrap_or_default())
}

pub(crate) fn hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..HASH])
}
