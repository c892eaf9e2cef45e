//! Public types of the crate: the target, status, events and errors of a login.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use url::Url;

use crate::store::LoginStore;
use mcp_workbench_settings::OAuthConfig;

/// A server that requires a login, and the agent that the login belongs to. A token for one target
/// is never used for another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoginTarget {
    /// The name of the server's entry.
    pub server: String,
    pub url: Url,
    /// The agent with its own login, or `None` for the login shared by all agents. For an exchange,
    /// the digest that identifies the caller.
    pub account: Option<String>,
    /// The OAuth settings of the server's entry.
    pub oauth: OAuthConfig,
}

impl LoginTarget {
    /// The storage key: a digest that is the same in every process.
    pub(crate) fn key(&self) -> String {
        let mut digest = Sha256::new();
        let account = self.account.as_ref().map(|account| format!("agent {account}"));
        for part in [&self.server, self.url.as_str(), account.as_deref().unwrap_or("all")] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        hex::encode(digest.finalize())
    }
}

/// Where logins are stored.
#[derive(Clone)]
pub enum LoginStorage {
    /// In files that only their owner can read.
    Folder(PathBuf),
    Custom(Arc<dyn LoginStore>),
    /// In memory, until the process ends.
    Memory,
}

impl fmt::Debug for LoginStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => f.debug_tuple("Folder").field(folder).finish(),
            Self::Custom(_) => f.write_str("In"),
            Self::Memory => f.write_str("Memory"),
        }
    }
}

/// A login event, as reported to the callback of `LoginRegistry::new`.
#[derive(Clone, Copy, Debug)]
pub enum LoginEvent<'a> {
    SignedIn(&'a LoginTarget),
    /// The token was renewed.
    Renewed(&'a LoginTarget),
    /// The server requires a sign-in. The text is the reason.
    SignInRequired(&'a LoginTarget, &'a str),
    SignedOut(&'a LoginTarget),
    /// The server or its authorization server has reached a limit.
    LimitReached(&'a LoginTarget, LoginLimit),
    /// The login got these secrets, which must not appear in records.
    SecretsLearned(&'a LoginTarget, &'a [String]),
    /// The login has ended, and its secrets are no longer used.
    SecretsDropped(&'a LoginTarget),
}

/// A limit for servers that require sign-in, and their authorization servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginLimit {
    DiscoveryRequests,
    Scopes,
}

/// The status of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInStatus {
    /// The server hasn't required a sign-in.
    NotAsked,
    SignedIn {
        issuer: Option<String>,
        scopes: Vec<String>,
        /// Expiry of the access token, if known. A renewable login outlives it.
        expires: Option<SystemTime>,
        /// `true` if there is a refresh token.
        is_renewable: bool,
    },
    SignInRequired {
        why: String,
    },
}

/// The redirect URI of a login.
#[derive(Clone, Debug)]
pub enum RedirectTarget {
    /// A loopback listener that runs while the login is pending.
    Listener,
    /// This URL. Its owner passes callbacks to
    /// [`LoginRegistry::complete_callback`](crate::LoginRegistry::complete_callback).
    External(Url),
}

/// Why a login failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct LoginError {
    /// The reason, without tokens.
    pub reason: String,
    /// How to fix it.
    pub hint: String,
    /// `true` if the server doesn't require a sign-in.
    pub is_not_required: bool,
}

impl LoginError {
    pub fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into(), is_not_required: false }
    }
}
