//! Places, and what is told of the logins at them.

use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use url::Url;

use crate::login::keep::Store;
use crate::settings::OAuth;

/// A server that wants a login, and whose login it is. A token that was got for one place is used for no
/// other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The name of its entry.
    pub server: String,
    /// Its address.
    pub url: Url,
    /// The agent whose login it is; `None`: one for all who use this machine's account.
    pub account: Option<String>,
    /// The part of its entry about signing in.
    pub oauth: OAuth,
}

impl Place {
    /// The name under which its login is kept: the same in every process, and found without asking anybody.
    pub(crate) fn key(&self) -> String {
        let mut digest = Sha256::new();
        let account = self.account.as_ref().map(|account| format!("agent {account}"));
        for part in [&self.server, self.url.as_str(), account.as_deref().unwrap_or("all")] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().iter().fold(String::new(), |mut key, byte| {
            let _ = write!(key, "{byte:02x}");
            key
        })
    }
}

/// Where logins are kept.
#[derive(Clone)]
pub enum Keep {
    /// In files of this folder, which nobody else can read.
    Folder(PathBuf),
    /// In a store of the program's.
    In(Arc<dyn Store>),
    /// In memory, until the process ends.
    Memory,
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => f.debug_tuple("Folder").field(folder).finish(),
            Self::In(_) => f.write_str("In"),
            Self::Memory => f.write_str("Memory"),
        }
    }
}

/// Something about a login that others want to hear.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// Somebody has signed in.
    SignedIn(&'a Place),
    /// Its token was renewed.
    Renewed(&'a Place),
    /// The server does not take who asks any more, or never did; this is why.
    Wanted(&'a Place, &'a str),
    /// Somebody has signed out.
    SignedOut(&'a Place),
}

/// How it stands with a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The server has not asked for one.
    NotAsked,
    /// There is one.
    SignedIn {
        /// The authorization server.
        issuer: Option<String>,
        /// The scopes that were granted.
        scopes: Vec<String>,
        /// Until when its token is good; it is renewed where that is possible.
        expires: Option<SystemTime>,
        /// `true` if it can be renewed without anybody.
        is_renewable: bool,
    },
    /// The server wants one.
    Wanted {
        /// Why, in words.
        why: String,
    },
}

/// Where a browser is sent after somebody has agreed.
#[derive(Clone, Debug)]
pub enum Back {
    /// To a listener of our own on this machine, for as long as the login is waited for.
    Listener,
    /// To this address, whose owner hands on what comes there ([`Logins::returned`](crate::login::Logins::returned)).
    At(Url),
}

/// Why a login did not come about.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct Failure {
    /// The reason, without any token.
    pub reason: String,
    /// Advice on what to do about it.
    pub hint: String,
}

impl Failure {
    pub(crate) fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into() }
    }
}
