//! Authenticated encryption of stored values (ChaCha20-Poly1305).
//!
//! A sealed value is a version byte, a random nonce, the ciphertext and its tag. The tag also
//! covers the name of the Redis key, so a value can't be moved to another key. The first key seals
//! and every key opens: rotate by putting a new key first, and remove the old one once no value
//! needs it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

/// Format version; values of other versions are not opened.
const VERSION: u8 = 1;
/// Key length in bytes.
const LENGTH: usize = 32;
/// Maximum number of bytes read from a key file.
const MAX_FILE: u64 = 4096;
/// Upper bound on the bytes that sealing adds.
pub(crate) const SEAL: usize = 64;
/// Labels for deriving the two halves of the listing key.
const LISTINGS: [&[u8]; 2] = [b"listings of mcp-workbench, 1", b"listings of mcp-workbench, 2"];

pub(crate) struct SealingKeys {
    all: Vec<LessSafeKey>,
    of_listings: [u8; 2 * LENGTH],
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.all.len())
    }
}

impl SealingKeys {
    /// Reads one key from each file; returns `None` without files. Files that others can read are
    /// accepted: a mounted secret is often a link to a group-readable file.
    pub(crate) fn read(files: &[PathBuf]) -> Result<Option<Self>, String> {
        let keys = files.iter().map(|file| {
            let wrong = |reason: String| format!("`keys` {}: {reason}", file.display());
            let content = content(file).map_err(|error| wrong(error.to_string()))?;
            key(&content).ok_or_else(|| {
                wrong("expected 32 bytes, e.g. from `openssl rand -base64 32`".to_owned())
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Ok(None) } else { Self::new(&keys).map(Some) }
    }

    /// Fails if `keys` is empty.
    pub(crate) fn new(keys: &[[u8; LENGTH]]) -> Result<Self, String> {
        let unusable = |_| "invalid key".to_owned();
        let all = keys.iter().map(|key| UnboundKey::new(&CHACHA20_POLY1305, key));
        let all = all.map(|key| key.map(LessSafeKey::new).map_err(unusable));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let first = keys.first().ok_or("no key configured")?;
        let made_of = hmac::Key::new(hmac::HMAC_SHA256, first);
        let mut of_listings = [0; 2 * LENGTH];
        for (half, text) in of_listings.chunks_mut(LENGTH).zip(LISTINGS) {
            half.copy_from_slice(hmac::sign(&made_of, text).as_ref());
        }
        Ok(Self { all, of_listings })
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the key for hashing the fingerprints of listings, derived from the first key.
    pub(crate) fn listing_key(&self) -> [u8; 2 * LENGTH] {
        self.of_listings
    }

    /// Seals a value for the Redis key `name`.
    pub(crate) fn seal(&self, name: &str, text: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| "no random numbers available")?;
        let first = self.all.first().ok_or("no key configured")?;
        let mut text = text.to_vec();
        first
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(name),
                &mut text,
            )
            .map_err(|_| "encryption failed")?;
        Ok([&[VERSION], &nonce[..], &text].concat())
    }

    /// Opens the value of the Redis key `name`. Returns `None` if no key opens it, or if it was
    /// sealed for another name.
    pub(crate) fn open(&self, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (version, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>()?;
        if *version != VERSION {
            return None;
        }
        self.all.iter().find_map(|key| {
            let mut text = text.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            key.open_in_place(nonce, Aad::from(name), &mut text).ok().map(|text| text.to_vec())
        })
    }
}

/// Seals a value for the Redis key `name`, if there are keys.
pub(crate) fn protect(keys: Option<&SealingKeys>, name: &str, text: &str) -> Option<Vec<u8>> {
    match keys {
        Some(keys) => keys.seal(name, text.as_bytes()).ok(),
        None => Some(text.as_bytes().to_vec()),
    }
}

/// Returns the text of a value of the Redis key `name`. If there are keys, only sealed values have
/// one.
pub(crate) fn reveal(keys: Option<&SealingKeys>, name: &str, value: Vec<u8>) -> Option<String> {
    let text = match keys {
        Some(keys) => keys.open(name, &value)?,
        None => value,
    };
    String::from_utf8(text).ok()
}

fn content(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Opening a pipe would block forever.
    if !std::fs::metadata(file)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    File::open(file)?.take(MAX_FILE).read_to_end(&mut content)?;
    Ok(content)
}

/// Parses a key file: 32 bytes, raw or as base64, which may have white space around it.
fn key(content: &[u8]) -> Option<[u8; LENGTH]> {
    if let Ok(key) = content.try_into() {
        return Some(key);
    }
    let text = content.trim_ascii();
    let decoded = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    decoded.try_into().ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const ONE: [u8; LENGTH] = [1; LENGTH];
    const OTHER: [u8; LENGTH] = [2; LENGTH];

    fn keys(keys: &[[u8; LENGTH]]) -> SealingKeys {
        SealingKeys::new(keys).unwrap()
    }

    #[test]
    fn opens_only_with_the_right_key_and_name() {
        let sealed = keys(&[ONE]).seal("name", b"token").unwrap();
        assert_eq!(keys(&[ONE]).open("name", &sealed).as_deref(), Some(&b"token"[..]));
        assert_eq!(keys(&[ONE]).open("other", &sealed), None);
        assert_eq!(keys(&[OTHER]).open("name", &sealed), None);
        assert!(!sealed.windows(5).any(|part| part == b"token"));
        assert_ne!(keys(&[ONE]).seal("name", b"token").unwrap(), sealed, "nonces do not repeat");
    }

    #[test]
    fn keys_rotate_without_losing_values() {
        let old = keys(&[ONE]).seal("name", b"token").unwrap();
        let both = keys(&[OTHER, ONE]);
        assert!(both.open("name", &old).is_some());
        let new = both.seal("name", b"token").unwrap();
        assert!(
            keys(&[ONE]).open("name", &new).is_none()
                && keys(&[OTHER]).open("name", &new).is_some()
        );
        assert_ne!(both.listing_key(), keys(&[ONE]).listing_key());
        assert_ne!(both.listing_key()[..LENGTH], both.listing_key()[LENGTH..]);
    }

    #[test]
    fn rejects_modified_and_malformed_values() {
        let keys = keys(&[ONE]);
        let sealed = keys.seal("name", b"token").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(keys.open("name", &changed), None, "byte {at}");
            assert_eq!(keys.open("name", &sealed[..at]), None, "{at} bytes");
        }
        for garbage in
            [&b""[..], b"{}", &[VERSION], &[0; 12], &[VERSION; 29], &vec![VERSION; 1 << 20]]
        {
            assert_eq!(keys.open("name", garbage), None);
        }
        let longer = [&sealed[..], b"x"].concat();
        assert_eq!(keys.open("name", &longer), None);
        let empty = keys.seal("name", b"").unwrap();
        assert_eq!(keys.open("name", &empty), Some(Vec::new()));
    }

    #[test]
    fn key_files_hold_raw_or_base64_bytes() {
        let text = STANDARD.encode(ONE);
        for good in [ONE.to_vec(), text.clone().into_bytes(), format!("\n {text}\r\n").into_bytes()]
        {
            assert_eq!(key(&good), Some(ONE));
        }
        assert_eq!(key(text.trim_end_matches('=').as_bytes()), Some(ONE));
        for wrong in
            [&b""[..], b"hunter2", &ONE[..31], &[1; 33], STANDARD.encode([1; 31]).as_bytes()]
        {
            assert_eq!(key(wrong), None);
        }
    }

    #[test]
    fn key_file_errors_name_the_file_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "hunter2").unwrap();
        let wrong = SealingKeys::read(std::slice::from_ref(&file)).unwrap_err();
        assert!(wrong.contains("openssl rand") && !wrong.contains("hunter2"), "{wrong}");
        let wrong = SealingKeys::read(&[folder.path().to_owned()]).unwrap_err();
        assert!(wrong.contains("not a regular file"), "{wrong}");
        std::fs::write(&file, ONE).unwrap();
        // As Kubernetes mounts secrets.
        let link = folder.path().join("link");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&file, &link).unwrap();
        #[cfg(not(unix))]
        std::fs::copy(&file, &link).unwrap();
        assert_eq!(SealingKeys::read(&[link]).unwrap().map(|keys| keys.count()), Some(1));
        assert!(SealingKeys::read(&[]).unwrap().is_none());
    }
}
