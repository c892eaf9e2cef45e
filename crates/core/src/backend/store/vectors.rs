//! The vectors of a model for texts, on disk. Each model has one file of hashes of texts, and a
//! vector for each. Whatever cannot be read is as good as not there.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::backend::store::fingerprint::hex;
use crate::backend::store::{ABANDONED, Store, UNFINISHED, absent_is_fine, is_absent, open};
use crate::catalog::rank::Vector;
use crate::os::{check_owner, make_private_folder};

/// The folder of vectors in that of the cache.
pub(super) const FOLDER: &str = "vectors";
/// The ending of the names of files.
const EXTENSION: &str = "vectors";
/// How a file begins; the checksum of the rest follows, and the end of the line.
const MAGIC: &str = "mcp-workbench-vectors 1 ";
/// The most bytes of one file, and the most files; the oldest go.
const MAX_FILE: usize = 64 * 1024 * 1024;
const MAX_FILES: usize = 4;

/// The hash of a text.
pub(crate) type TextKey = [u8; 16];
/// The vectors of texts, by the texts' hashes.
pub(crate) type KnownTexts = HashMap<TextKey, Arc<Vector>>;

/// The hash of a text.
pub(crate) fn text_key(text: &str) -> TextKey {
    let mut key = TextKey::default();
    key.copy_from_slice(&Sha256::digest(text)[..size_of::<TextKey>()]);
    key
}

impl Store {
    /// The vectors of a model, which is named by what it is and where.
    pub(crate) fn vectors(&self, model: &str) -> KnownTexts {
        let known = read(&self.vectors, &self.vectors_of(model));
        known.unwrap_or_else(|error| {
            tracing::debug!(%error, "stored vectors are ignored");
            KnownTexts::new()
        })
    }

    /// Keeps what is known from a model, beside what other processes have kept of it.
    pub(crate) fn keep_vectors(&self, model: &str, known: &KnownTexts) -> io::Result<()> {
        make_private_folder(&self.vectors)?;
        let others = self.vectors(model);
        let others = others.iter().filter(|(key, _)| !known.contains_key(*key));
        let body = encode(known.iter().chain(others));
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.vectors)?;
        writeln!(file, "{MAGIC}{}", hex(&Sha256::digest(&body)))?;
        file.write_all(&body)?;
        file.persist(self.vectors_of(model))?;
        self.prune_vectors()
    }

    /// Removes all of it, and the folder if nothing else is in it.
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
        let name = hex(&text_key(model));
        self.vectors.join(format!("{name}.{EXTENSION}"))
    }

    /// The files that are ours, when they were last written, and whether they are finished.
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
            // Others may be removing files, too.
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

/// How many numbers a vector has, and then each text's hash with its vector; those of other lengths
/// are left out, and so is what would be too long.
fn encode<'a>(texts: impl Iterator<Item = (&'a TextKey, &'a Arc<Vector>)>) -> Vec<u8> {
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
    let file = match open(path) {
        Err(error) if is_absent(&error) => return Ok(KnownTexts::new()),
        file => file?,
    };
    check_owner(folder)?;
    let mut text = Vec::new();
    file.take(MAX_FILE as u64).read_to_end(&mut text)?;
    decode(&text).ok_or_else(|| io::Error::other("the file is damaged"))
}

/// The texts of a file: whole and as it was written, or not at all.
fn decode(text: &[u8]) -> Option<KnownTexts> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (line, body) = (&text[..end], &text[end + 1..]);
    let checksum = line.strip_prefix(MAGIC.as_bytes())?;
    if checksum != hex(&Sha256::digest(body)).as_bytes() {
        return None;
    }
    let Some((dimensions, body)) = body.split_first_chunk() else {
        return body.is_empty().then(KnownTexts::new);
    };
    let length = size_of::<TextKey>() + u32::from_le_bytes(*dimensions) as usize;
    let texts = body.chunks_exact(length);
    let texts = texts.filter_map(|text| {
        let (key, vector) = text.split_first_chunk()?;
        Some((*key, Arc::new(Vector::from_bytes(vector))))
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
        let of = |(text, vector): &(&str, [f32; 2])| (text_key(text), Arc::new(Vector::of(vector)));
        texts.iter().map(of).collect()
    }

    #[test]
    fn what_a_model_made_of_texts_is_known_to_every_process() {
        let cache = TempDir::new().unwrap();
        let (one, other) = (Store::new(cache.path()), Store::new(cache.path()));
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
    fn the_oldest_go_and_damaged_ones_are_not_believed() {
        let cache = TempDir::new().unwrap();
        let store = Store::new(cache.path());
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
    fn they_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;

        let cache = TempDir::new().unwrap();
        let store = Store::new(cache.path());
        store.keep_vectors("m", &known(&[("a", [1.0, 0.0])])).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.vectors), 0o700);
        assert_eq!(mode(&store.vectors_of("m")), 0o600);
        fs::set_permissions(&store.vectors, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(store.vectors("m").is_empty(), "others could have written them");
    }

    proptest! {
        #[test]
        fn no_file_is_too_strange(body in vec(any::<u8>(), 0..80)) {
            decode(&body);
            let mut text = format!("{MAGIC}{}\n", hex(&Sha256::digest(&body))).into_bytes();
            text.extend_from_slice(&body);
            prop_assert!(decode(&text).is_none_or(|known| known.len() < 5));
        }
    }
}
