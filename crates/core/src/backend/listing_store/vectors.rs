//! On-disk cache of embedding vectors: one file per model, keyed by text hash. Unreadable files
//! count as missing.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::backend::listing_store::{
    ABANDONED, ListingStore, UNFINISHED, absent_is_fine, is_absent,
};
use crate::catalog::rank::QuantizedVector;
use mcp_workbench_os::{check_private_dir, make_private_folder, read_own};

/// Subfolder of the cache folder.
pub(super) const FOLDER: &str = "vectors";
const EXTENSION: &str = "vectors";
/// Start of the header line, which ends with the checksum of the body.
const MAGIC: &str = "mcp-workbench-vectors 1 ";
/// Maximum size of a file in bytes, and number of files; the oldest are evicted.
const MAX_FILE: usize = 64 * 1024 * 1024;
const MAX_FILES: usize = 4;

/// Truncated SHA-256 of a text.
pub(crate) type TextKey = [u8; 16];
pub(crate) type KnownTexts = HashMap<TextKey, Arc<QuantizedVector>>;

pub(crate) fn text_key(text: &str) -> TextKey {
    let mut key = TextKey::default();
    key.copy_from_slice(&Sha256::digest(text)[..size_of::<TextKey>()]);
    key
}

impl ListingStore {
    /// Returns the cached vectors of a model; `model` identifies the model and its endpoint.
    pub(crate) fn vectors(&self, model: &str) -> KnownTexts {
        let known = read(&self.vectors, &self.vectors_of(model));
        known.unwrap_or_else(|error| {
            tracing::debug!(%error, "ignored cached vectors");
            KnownTexts::new()
        })
    }

    /// Saves vectors of a model, merged with those that other processes have saved.
    pub(crate) fn keep_vectors(&self, model: &str, known: &KnownTexts) -> io::Result<()> {
        make_private_folder(&self.vectors)?;
        let others = self.vectors(model);
        let others = others.iter().filter(|(key, _)| !known.contains_key(*key));
        let body = encode(known.iter().chain(others));
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.vectors)?;
        writeln!(file, "{MAGIC}{}", hex::encode(Sha256::digest(&body)))?;
        file.write_all(&body)?;
        file.persist(self.vectors_of(model))?;
        self.prune_vectors()
    }

    pub(super) fn clear_vectors(&self) -> io::Result<()> {
        for (path, ..) in self.vector_files()? {
            absent_is_fine(fs::remove_file(path))?;
        }
        match fs::remove_dir(&self.vectors) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => absent_is_fine(removed),
        }
    }

    fn vectors_of(&self, model: &str) -> PathBuf {
        let name = hex::encode(text_key(model));
        self.vectors.join(format!("{name}.{EXTENSION}"))
    }

    /// Returns each vector file with its modification time and whether it is complete.
    fn vector_files(&self) -> io::Result<Vec<(PathBuf, SystemTime, bool)>> {
        let folder = match fs::read_dir(&self.vectors) {
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            folder => folder?,
        };
        let mut files = Vec::new();
        for file in folder {
            let path = file?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_finished = name.ends_with(&format!(".{EXTENSION}"));
            // Another process may have removed it.
            if let Ok(metadata) = path.metadata()
                && (is_finished || name.starts_with(UNFINISHED))
            {
                files.push((path, metadata.modified()?, is_finished));
            }
        }
        Ok(files)
    }

    fn prune_vectors(&self) -> io::Result<()> {
        let mut files = self.vector_files()?;
        files.sort_by_key(|(_, time, _)| std::cmp::Reverse(*time));
        let mut finished = 0;
        for (path, time, is_finished) in files {
            finished += usize::from(is_finished);
            let is_abandoned = time.elapsed().is_ok_and(|age| age > ABANDONED);
            if if is_finished { finished > MAX_FILES } else { is_abandoned } {
                absent_is_fine(fs::remove_file(path))?;
            }
        }
        Ok(())
    }
}

/// Encodes the vector length, then each text hash with its vector. Vectors of another length than
/// the first and vectors beyond `MAX_FILE` are dropped.
fn encode<'a>(texts: impl Iterator<Item = (&'a TextKey, &'a Arc<QuantizedVector>)>) -> Vec<u8> {
    let mut body = Vec::new();
    let mut dimensions = None;
    for (key, vector) in texts {
        let own = vector.dimensions();
        if body.is_empty() {
            body.extend_from_slice(&u32::try_from(own).unwrap_or_default().to_le_bytes());
        }
        let is_alike = *dimensions.get_or_insert(own) == own;
        if is_alike && body.len() + size_of::<TextKey>() + own <= MAX_FILE - 256 {
            body.extend_from_slice(key);
            body.extend(vector.bytes());
        }
    }
    body
}

fn read(folder: &Path, path: &Path) -> io::Result<KnownTexts> {
    let text = match read_own(path, MAX_FILE as u64) {
        Err(error) if is_absent(&error) => return Ok(KnownTexts::new()),
        text => text?,
    };
    check_private_dir(folder)?;
    decode(&text).ok_or_else(|| io::Error::other("the file is damaged"))
}

fn decode(text: &[u8]) -> Option<KnownTexts> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (line, body) = (&text[..end], &text[end + 1..]);
    let checksum = line.strip_prefix(MAGIC.as_bytes())?;
    if checksum != hex::encode(Sha256::digest(body)).as_bytes() {
        return None;
    }
    let Some((dimensions, body)) = body.split_first_chunk() else {
        return body.is_empty().then(KnownTexts::new);
    };
    let length = size_of::<TextKey>() + u32::from_le_bytes(*dimensions) as usize;
    let texts = body.chunks_exact(length);
    let texts = texts.filter_map(|text| {
        let (key, vector) = text.split_first_chunk()?;
        Some((*key, Arc::new(QuantizedVector::from_bytes(vector))))
    });
    Some(texts.collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{collection::vec, prelude::any, prop_assert, proptest};
    use tempfile::TempDir;

    use super::*;

    fn known(texts: &[(&str, [f32; 2])]) -> KnownTexts {
        let of = |(text, vector): &(&str, [f32; 2])| {
            (text_key(text), Arc::new(QuantizedVector::of(vector)))
        };
        texts.iter().map(of).collect()
    }

    #[test]
    fn vectors_are_shared_and_merged_between_processes() {
        let cache = TempDir::new().unwrap();
        let (one, other) = (ListingStore::new(cache.path()), ListingStore::new(cache.path()));
        assert!(one.vectors("m").is_empty() && !cache.path().join(FOLDER).exists());
        one.keep_vectors("m", &known(&[("a", [1.0, 0.0]), ("b", [0.5, 1.0])])).unwrap();
        other.keep_vectors("m", &known(&[("a", [0.0, 1.0]), ("c", [1.0, 1.0])])).unwrap();
        let all = known(&[("a", [0.0, 1.0]), ("b", [0.5, 1.0]), ("c", [1.0, 1.0])]);
        assert_eq!(one.vectors("m"), all);
        assert!(one.vectors("n").is_empty());
        assert_eq!(one.clear().unwrap(), 0);
        assert!(!cache.path().join(FOLDER).exists());
    }

    #[test]
    fn oldest_files_are_evicted_and_damaged_ones_ignored() {
        let cache = TempDir::new().unwrap();
        let store = ListingStore::new(cache.path());
        let some = known(&[("a", [1.0, 0.0])]);
        for model in ["1", "2", "3", "4", "5"] {
            store.keep_vectors(model, &some).unwrap();
        }
        assert_eq!(store.vector_files().unwrap().len(), MAX_FILES);
        let path = store.vectors_of("5");
        let mut text = fs::read(&path).unwrap();
        *text.last_mut().unwrap() ^= 1;
        fs::write(&path, &text).unwrap();
        assert!(store.vectors("5").is_empty());
        store.keep_vectors("5", &some).unwrap();
        assert_eq!(store.vectors("5"), some);
    }

    #[cfg(unix)]
    #[test]
    fn vector_files_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt;

        let cache = TempDir::new().unwrap();
        let store = ListingStore::new(cache.path());
        store.keep_vectors("m", &known(&[("a", [1.0, 0.0])])).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.vectors), 0o700);
        assert_eq!(mode(&store.vectors_of("m")), 0o600);
        fs::set_permissions(&store.vectors, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(store.vectors("m").is_empty(), "a folder writable by others is not trusted");
    }

    proptest! {
        #[test]
        fn decode_never_panics(body in vec(any::<u8>(), 0..80)) {
            decode(&body);
            let mut text = format!("{MAGIC}{}\n", hex::encode(Sha256::digest(&body))).into_bytes();
            text.extend_from_slice(&body);
            prop_assert!(decode(&text).is_none_or(|known| known.len() < 5));
        }
    }
}
