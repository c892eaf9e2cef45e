//! Fingerprints of stored listings: a keyed hash of everything that can change what a server lists.
//!
//! Environment values, query strings and URL passwords are part of the hash, because a listing may
//! depend on a token or setting. Without the key they can neither be recovered nor guessed. The key
//! is random, created once per store and readable only by its owner. An HTTP account contributes
//! only its name, because its credentials are renewed; if they change what the server lists, the
//! next connection finds out.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::backend::ServerTransport;
use mcp_workbench_settings::{Confinement, Container, Protocol, Sandbox, SecretRef};

/// Length of the truncated hash in bytes.
const LENGTH: usize = 16;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreKey(pub(crate) [u8; Self::LENGTH]);

impl StoreKey {
    /// Block size of SHA-256, which HMAC takes as its key size.
    pub(crate) const LENGTH: usize = 64;
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Identifies a server in a listing store, as lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    pub(crate) fn new(key: &StoreKey, reach: &ServerTransport, protocol: Protocol) -> Self {
        let mut parts = FingerprintInput::default();
        parts.text(protocol.word());
        match reach {
            ServerTransport::Stdio(launch) => {
                parts.text("stdio");
                parts.text(&launch.command);
                parts.count(launch.args.len());
                launch.args.iter().for_each(|arg| parts.text(arg));
                parts.bytes(launch.cwd.as_os_str().as_encoded_bytes());
                // The inherited environment varies between shells, so only the flag is hashed.
                parts.count(usize::from(launch.inherit_env));
                launch.sandbox.iter().for_each(|sandbox| parts.sandbox(sandbox));
                parts.count(launch.env.len());
                for (name, value) in &launch.env {
                    parts.text(name);
                    match launch.secret_refs.get(name) {
                        None => parts.text(value),
                        // The secret's value is renewed and not every caller resolves it.
                        Some(reference) => parts.reference(reference),
                    }
                }
            }
            ServerTransport::Http(remote) => {
                parts.text("http");
                parts.text(remote.url.as_str());
                parts.text(remote.account.name());
            }
        }
        Self(parts.hash(key))
    }

    /// Parses a string returned by [`Self::as_str`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_one = text.len() == 2 * LENGTH && text.bytes().all(is_digit);
        is_one.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The hashed bytes. Each part is preceded by its length, so no two lists of parts collide.
#[derive(Default)]
struct FingerprintInput(Vec<u8>);

impl FingerprintInput {
    fn bytes(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.extend_from_slice(part);
    }

    fn text(&mut self, part: &str) {
        self.bytes(part.as_bytes());
    }

    fn reference(&mut self, reference: &SecretRef) {
        let (kind, which) = reference.parts();
        self.text(kind);
        self.count(which.len());
        for part in which {
            self.bytes(part);
        }
    }

    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&(count as u64).to_le_bytes());
    }

    fn sandbox(&mut self, sandbox: &Sandbox) {
        for paths in sandbox.granted_paths().into_iter().flatten() {
            self.count(paths.len());
            for path in paths {
                self.bytes(path.as_os_str().as_encoded_bytes());
            }
        }
        match sandbox {
            Sandbox::Off => {}
            Sandbox::Process(Confinement { has_network, has_unix_sockets, .. }) => {
                self.count(usize::from(*has_network));
                self.count(usize::from(*has_unix_sockets));
            }
            Sandbox::Container(container) => {
                let Container { image, engine, has_network, .. } = &**container;
                self.text(image);
                self.text(engine.as_deref().unwrap_or_default());
                self.count(usize::from(*has_network));
            }
        }
    }

    fn hash(&self, StoreKey(key): &StoreKey) -> String {
        let mut mac = Hmac::<Sha256>::new(key.into());
        mac.update(&self.0);
        hex::encode(&mac.finalize().into_bytes()[..LENGTH])
    }
}

#[cfg(test)]
mod tests;
