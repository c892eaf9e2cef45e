//! Which server a stored listing is of: a keyed hash of everything that decides what it lists.
//!
//! A listing may depend on a token or a setting as much as on the program, so values of variables,
//! queries and passwords of addresses all go in. None of them can be got out again, nor a guess be
//! tried, without the key, which is random, made once for each store, and readable by its owner
//! alone. Of an account at a server over HTTP its name goes in and not what proves it, for that
//! is renewed; a server that lists something else then is heard as soon as it is connected to.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::backend::Reach;
use crate::settings::{Confinement, Container, Protocol, Reference, Sandbox};

/// How many bytes of the hash are kept.
const LENGTH: usize = 16;

/// The key of a store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; Self::LENGTH]);

impl Key {
    /// The length of a block of SHA-256, as HMAC takes it.
    pub(crate) const LENGTH: usize = 64;
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// The mark that tells servers apart in a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of whatever is reached in this way and spoken to in these revisions.
    pub(crate) fn new(key: &Key, reach: &Reach, protocol: Protocol) -> Self {
        let mut parts = Parts::default();
        parts.text(match protocol {
            Protocol::Auto => "auto",
            Protocol::Legacy => "legacy",
            Protocol::Modern => "modern",
        });
        match reach {
            Reach::Stdio(launch) => {
                parts.text("stdio");
                parts.text(&launch.command);
                parts.count(launch.args.len());
                launch.args.iter().for_each(|arg| parts.text(arg));
                parts.bytes(launch.cwd.as_os_str().as_encoded_bytes());
                // What is inherited changes from shell to shell, so only that it is counts.
                parts.count(usize::from(launch.inherit_env));
                launch.sandbox.iter().for_each(|sandbox| parts.sandbox(sandbox));
                parts.count(launch.env.len());
                for (name, value) in &launch.env {
                    parts.text(name);
                    match launch.referred.get(name) {
                        None => parts.text(value),
                        // What it comes to is renewed, and not everybody asks for it.
                        Some(reference) => parts.reference(reference),
                    }
                }
            }
            Reach::Http(remote) => {
                parts.text("http");
                parts.text(remote.url.as_str());
                parts.text(remote.account.name());
            }
        }
        Self(parts.hash(key))
    }

    /// Reads what [`Self::as_str`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_one = text.len() == 2 * LENGTH && text.bytes().all(is_digit);
        is_one.then(|| Self(text.to_owned()))
    }

    /// It in lower-case hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bytes that are hashed: every part after its length, so that no two lists of parts are alike.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Parts {
    fn bytes(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.extend_from_slice(part);
    }

    fn text(&mut self, part: &str) {
        self.bytes(part.as_bytes());
    }

    fn reference(&mut self, reference: &Reference) {
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
        for paths in sandbox.named().into_iter().flatten() {
            self.count(paths.len());
            for path in paths {
                self.bytes(path.as_os_str().as_encoded_bytes());
            }
        }
        match sandbox {
            Sandbox::Off => {}
            Sandbox::On(Confinement { has_network, has_unix_sockets, .. }) => {
                self.count(usize::from(*has_network));
                self.count(usize::from(*has_unix_sockets));
            }
            Sandbox::In(container) => {
                let Container { image, engine, has_network, .. } = &**container;
                self.text(image);
                self.text(engine.as_deref().unwrap_or_default());
                self.count(usize::from(*has_network));
            }
        }
    }

    fn hash(&self, Key(key): &Key) -> String {
        let mut mac = Hmac::<Sha256>::new(key.into());
        mac.update(&self.0);
        hex(&mac.finalize().into_bytes()[..LENGTH])
    }
}

/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

#[cfg(test)]
mod tests;
