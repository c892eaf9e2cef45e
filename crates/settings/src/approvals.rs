//! Approval of calls outside the client (`approvals`).

use std::fmt;
use std::time::Duration;

use crate::defaults;

const VERSION: &str = "v1";
const SALT_BYTES: usize = 16;
const PUBLIC_BYTES: usize = 32;

/// Settings of the approval queue (`approvals`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApprovalConfig {
    /// Who confirms a call first.
    pub first: FirstAsked,
    /// How long a call waits in the queue.
    pub timeout: Duration,
    /// `true` to show a desktop notification for a waiting call.
    pub notifies: bool,
    /// Verifies approvals of the user at this machine; `None` if there can't be any.
    pub key: Option<ApprovalKey>,
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        Self {
            first: FirstAsked::default(),
            timeout: Duration::from_millis(defaults::APPROVAL_TIMEOUT_MS),
            notifies: true,
            key: None,
        }
    }
}

/// Who confirms a call first (`approvals.askFirst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FirstAsked {
    /// The user of the client; the queue only if the client can't ask.
    #[default]
    Client,
    /// The operators of the queue. The client isn't asked.
    Operator,
}

impl FirstAsked {
    pub const ALL: [Self; 2] = [Self::Client, Self::Operator];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
        }
    }
}

/// The public part of an approval key: the salt of its passphrase, and the Ed25519 key that
/// verifies its signatures. Neither is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApprovalKey {
    pub salt: [u8; SALT_BYTES],
    pub public: [u8; PUBLIC_BYTES],
}

impl ApprovalKey {
    /// Parses the text that [`fmt::Display`] writes; `None` if it isn't one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(':');
        let (version, salt, public) = (parts.next()?, parts.next()?, parts.next()?);
        if version != VERSION || parts.next().is_some() {
            return None;
        }
        let mut key = Self { salt: [0; SALT_BYTES], public: [0; PUBLIC_BYTES] };
        hex::decode_to_slice(salt, &mut key.salt).ok()?;
        hex::decode_to_slice(public, &mut key.public).ok()?;
        Some(key)
    }
}

impl fmt::Display for ApprovalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}", hex::encode(self.salt), hex::encode(self.public))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn key_is_read_as_it_is_written() {
        let key = ApprovalKey { salt: [1; SALT_BYTES], public: [0xab; PUBLIC_BYTES] };
        let text = key.to_string();
        assert_eq!(ApprovalKey::parse(&text), Some(key));
        let other_version = text.replacen("v1", "v2", 1);
        for wrong in
            ["", "v1", "v1::", &text[..text.len() - 1], &format!("{text}:"), &other_version]
        {
            assert_eq!(ApprovalKey::parse(wrong), None, "{wrong}");
        }
    }
}
