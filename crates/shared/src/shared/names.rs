//! The names of keys: a prefix, what kind of thing is there, and a hash of what leads to it.
//!
//! The id of a session is a credential, and so are other ways to a record: none is in a key as it is.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::state::{Key, SessionKey};

/// The bytes of a hash that are in a key.
const HASH: usize = 16;

/// Makes the names of keys.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

/// The kinds of records whose number is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelved {
    /// Rests of results.
    Rest,
    /// Tasks.
    Task,
}

impl Shelved {
    fn word(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Task => "task",
        }
    }

    /// The kind of record at this key, and the hash that it goes by.
    pub(crate) fn of(key: &Key) -> Option<(Self, String)> {
        match key {
            Key::Rest(name) => Some((Self::Rest, hash(name))),
            Key::Task(name) => Some((Self::Task, hash(name))),
            Key::Session(_) | Key::Suspended(_) => None,
        }
    }
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The key of a session.
    pub(crate) fn session(&self, session: &SessionKey) -> String {
        format!("{}session:{}", self.prefix, session_hash(session))
    }

    /// The key of a record that goes by this hash.
    pub(crate) fn record(&self, kind: Shelved, hash: &str) -> String {
        format!("{}{}:{hash}", self.prefix, kind.word())
    }

    /// The key of the list of all records of a kind.
    pub(crate) fn all(&self, kind: Shelved) -> String {
        format!("{}{}-list:all", self.prefix, kind.word())
    }

    /// The key of the list of those that a caller has, by its hash.
    pub(crate) fn payers(&self, kind: Shelved, payer: &str) -> String {
        format!("{}{}-list:of-{payer}", self.prefix, kind.word())
    }

    /// The key of the list of those that are for a session, by its hash.
    pub(crate) fn sessions(&self, kind: Shelved, session: &str) -> String {
        format!("{}{}-list:for-{session}", self.prefix, kind.word())
    }

    /// The key of a count.
    pub(crate) fn count(&self, subject: &str) -> String {
        format!("{}rate:{}", self.prefix, hash(subject))
    }

    /// The key of a login.
    pub(crate) fn login(&self, login: &str) -> String {
        format!("{}login:{}", self.prefix, hash(login))
    }

    /// The key of the lock on a login.
    pub(crate) fn login_lock(&self, login: &str) -> String {
        format!("{}login-lock:{}", self.prefix, hash(login))
    }

    /// The key of the set of all logins.
    pub(crate) fn logins(&self) -> String {
        format!("{}login-list:all", self.prefix)
    }

    /// The key of a sign-in under way, by what its answer will say.
    pub(crate) fn sign_in(&self, state: &str) -> String {
        format!("{}sign-in:{}", self.prefix, hash(state))
    }

    /// The key of a listing.
    pub(crate) fn listing(&self, fingerprint: &str) -> String {
        self.listing_of(&hash(fingerprint))
    }

    /// The key of the listing that goes by this hash.
    pub(crate) fn listing_of(&self, hash: &str) -> String {
        format!("{}listing:{hash}", self.prefix)
    }

    /// The key of the list of all listings.
    pub(crate) fn listings(&self) -> String {
        format!("{}listing-list:all", self.prefix)
    }

    /// A key to try out the store with.
    pub(crate) fn trial(&self, name: &str) -> String {
        format!("{}trial:{name}", self.prefix)
    }
}

/// The hash that a session goes by.
pub(crate) fn session_hash(session: &SessionKey) -> String {
    hash(&serde_json::to_string(session).unwrap_or_default())
}

/// The hash that something goes by.
pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text)[..HASH])
}

/// These bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
