//! The approval key: an Ed25519 key derived from a passphrase. It is stored nowhere; the
//! configuration has only its salt and its public part.

use argon2::{Algorithm, Argon2, Params, Version};
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::cli::output::CommandError;
use mcp_workbench_core::gateway::PendingCall;
use mcp_workbench_serve::admin::approval_statement;
use mcp_workbench_settings::ApprovalKey;

/// Minimum length of a passphrase, in characters. Agents can read the public part and try out
/// passphrases, so each attempt is expensive and a short passphrase is rejected.
pub(crate) const MIN_PASSPHRASE: usize = 12;
/// Memory for each derivation, in KiB, and passes over it. Part of the format `v1` of the key: a
/// workbench can't lower them.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

/// The key of a passphrase.
pub(crate) struct PassphraseKey {
    pair: Ed25519KeyPair,
    pub(crate) public: ApprovalKey,
}

impl PassphraseKey {
    /// Creates the key of a passphrase with a new salt.
    pub(crate) fn create(passphrase: &str) -> Result<Self, CommandError> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(CommandError::internal)?;
        Self::derive(passphrase, salt)
    }

    /// Returns the key of a passphrase, or an error if it isn't `known`.
    pub(crate) fn unlock(passphrase: &str, known: &ApprovalKey) -> Result<Self, CommandError> {
        let key = Self::derive(passphrase, known.salt)?;
        if key.public == *known { Ok(key) } else { Err(CommandError::failed("wrong passphrase")) }
    }

    fn derive(passphrase: &str, salt: [u8; 16]) -> Result<Self, CommandError> {
        let mut seed = [0; 32];
        let derived = Params::new(MEMORY_KIB, PASSES, 1, Some(seed.len())).and_then(|params| {
            let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            argon.hash_password_into(passphrase.as_bytes(), &salt, &mut seed)
        });
        derived.map_err(|error| {
            CommandError::failed("failed to derive the approval key").with_cause(&error.to_string())
        })?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| {
            CommandError::failed("failed to derive the approval key").with_cause(&error.to_string())
        })?;
        let mut public = ApprovalKey { salt, public: [0; 32] };
        public.public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self { pair, public })
    }

    /// Signs the approval of a call as it was shown. Returns the signature in hex.
    pub(crate) fn approve(&self, call: &PendingCall) -> String {
        hex::encode(self.pair.sign(&approval_statement(call)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // invariant: agent-cannot-approve
    #[test]
    fn key_depends_on_the_passphrase_and_the_salt() {
        let key = PassphraseKey::create("correct horse battery").unwrap();
        assert!(PassphraseKey::unlock("correct horse battery", &key.public).is_ok());
        assert!(PassphraseKey::unlock("correct horse batterx", &key.public).is_err());
        let other = ApprovalKey { salt: [0; 16], ..key.public };
        assert!(PassphraseKey::unlock("correct horse battery", &other).is_err());
    }
}
