//! Keys, and what is sealed with them (ChaCha20-Poly1305): nobody reads it without a key, changes it, or puts it
//! under another name.
//!
//! A sealed text is a byte for the version, a random nonce, the text in cipher and its mark, which also covers the
//! name in the store that it is under. The first key seals. All of them open, so that a new one is put first
//! and the old one is taken out when nothing of it is left.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

/// The version that is written. Nothing of another one is opened.
const VERSION: u8 = 1;
/// The bytes of a key.
const LENGTH: usize = 32;
/// The most bytes of a file with a key that are read.
const MAX_FILE: u64 = 4096;
/// The texts that a key for something else is made of.
const LISTINGS: [&[u8]; 2] = [b"listings of mcp-workbench, 1", b"listings of mcp-workbench, 2"];

/// The keys.
pub(crate) struct Keys {
    all: Vec<LessSafeKey>,
    of_listings: [u8; 2 * LENGTH],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.all.len())
    }
}

impl Keys {
    /// Reads files with a key each; `None`: there are none. Others may be able to read them: a mounted secret is often
    /// a link to a file of a group.
    pub(crate) fn read(files: &[PathBuf]) -> Result<Option<Self>, String> {
        let keys = files.iter().map(|file| {
            let wrong = |reason: String| format!("`keys` {}: {reason}", file.display());
            let content = content(file).map_err(|error| wrong(error.to_string()))?;
            key(&content).ok_or_else(|| {
                wrong("expected 32 bytes, such as `openssl rand -base64 32` prints".to_owned())
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Ok(None) } else { Self::new(&keys).map(Some) }
    }

    /// These keys, of which there is one at least.
    pub(crate) fn new(keys: &[[u8; LENGTH]]) -> Result<Self, String> {
        let unusable = |_| "a key cannot be used".to_owned();
        let all = keys.iter().map(|key| UnboundKey::new(&CHACHA20_POLY1305, key));
        let all = all.map(|key| key.map(LessSafeKey::new).map_err(unusable));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let first = keys.first().ok_or("there is no key")?;
        let made_of = hmac::Key::new(hmac::HMAC_SHA256, first);
        let mut of_listings = [0; 2 * LENGTH];
        for (half, text) in of_listings.chunks_mut(LENGTH).zip(LISTINGS) {
            half.copy_from_slice(hmac::sign(&made_of, text).as_ref());
        }
        Ok(Self { all, of_listings })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The key of what tells listings apart, which tells nothing of the others.
    pub(crate) fn of_listings(&self) -> [u8; 2 * LENGTH] {
        self.of_listings
    }

    /// Seals a text that is to be under this name.
    pub(crate) fn seal(&self, name: &str, text: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| "there are no random numbers")?;
        let first = self.all.first().ok_or("there is no key")?;
        let mut text = text.to_vec();
        first
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(name),
                &mut text,
            )
            .map_err(|_| "it cannot be sealed")?;
        Ok([&[VERSION], &nonce[..], &text].concat())
    }

    /// Opens what is under this name; `None`: it was sealed with none of the keys, or was not put there by whoever
    /// sealed it.
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

fn content(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // A pipe would be waited for without end.
    if !std::fs::metadata(file)?.is_file() {
        return Err(std::io::Error::other("this is no file"));
    }
    File::open(file)?.take(MAX_FILE).read_to_end(&mut content)?;
    Ok(content)
}

/// The key in a file: 32 bytes, or base64 of them with or without white space around it.
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

    fn keys(keys: &[[u8; LENGTH]]) -> Keys {
        Keys::new(keys).unwrap()
    }

    #[test]
    fn only_a_key_opens_and_only_under_its_name() {
        let sealed = keys(&[ONE]).seal("name", b"token").unwrap();
        assert_eq!(keys(&[ONE]).open("name", &sealed).as_deref(), Some(&b"token"[..]));
        assert_eq!(keys(&[ONE]).open("other", &sealed), None);
        assert_eq!(keys(&[OTHER]).open("name", &sealed), None);
        assert!(!sealed.windows(5).any(|part| part == b"token"));
        assert_ne!(keys(&[ONE]).seal("name", b"token").unwrap(), sealed, "no nonce comes twice");
    }

    #[test]
    fn a_key_is_replaced_while_all_goes_on() {
        let old = keys(&[ONE]).seal("name", b"token").unwrap();
        let both = keys(&[OTHER, ONE]);
        assert!(both.open("name", &old).is_some());
        let new = both.seal("name", b"token").unwrap();
        assert!(
            keys(&[ONE]).open("name", &new).is_none()
                && keys(&[OTHER]).open("name", &new).is_some()
        );
        assert_ne!(both.of_listings(), keys(&[ONE]).of_listings());
        assert_ne!(both.of_listings()[..LENGTH], both.of_listings()[LENGTH..]);
    }

    #[test]
    fn whatever_was_changed_or_is_no_seal_is_not_opened() {
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
    fn a_file_has_32_bytes_as_they_are_or_in_base64() {
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
    fn a_file_that_cannot_be_used_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "hunter2").unwrap();
        let wrong = Keys::read(std::slice::from_ref(&file)).unwrap_err();
        assert!(wrong.contains("openssl rand") && !wrong.contains("hunter2"), "{wrong}");
        let wrong = Keys::read(&[folder.path().to_owned()]).unwrap_err();
        assert!(wrong.contains("this is no file"), "{wrong}");
        std::fs::write(&file, ONE).unwrap();
        // As Kubernetes mounts it.
        let link = folder.path().join("link");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&file, &link).unwrap();
        #[cfg(not(unix))]
        std::fs::copy(&file, &link).unwrap();
        assert_eq!(Keys::read(&[link]).unwrap().map(|keys| keys.count()), Some(1));
        assert!(Keys::read(&[]).unwrap().is_none());
    }
}
