//! Packages that package managers have installed on this machine: their versions and digests. Reads
//! only files of package managers.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use mcp_workbench_os::{open_input, read_input_text};

pub mod npm;
pub mod python;

/// A package larger than this has no digest of its files.
const MAX_TREE_BYTES: u64 = 256 * 1024 * 1024;
const MAX_TREE_FILES: usize = 50_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPackage {
    pub version: String,
    /// The digest of the package: npm's `sha512-…`, `sha256:…` of a Python archive, or
    /// `record-sha256:…`, a digest over the file digests of an installed Python package.
    pub integrity: Option<String>,
    pub evidence: PathBuf,
}

/// Returns the folders directly below a folder, sorted.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}

/// Reads a text file; `None` if that fails.
pub fn read(file: &Path) -> Option<String> {
    read_input_text(file).ok()
}

/// A digest over the paths and contents of files.
#[derive(Default)]
struct TreeDigest {
    hasher: Sha256,
    bytes: u64,
    files: usize,
}

impl TreeDigest {
    /// Adds the files below `root/at`. `None` if a file can't be read or a limit is exceeded.
    fn add(&mut self, root: &Path, at: &Path) -> Option<()> {
        let entries = fs::read_dir(root.join(at)).ok()?;
        let mut names: Vec<_> =
            entries.map(|entry| Some(entry.ok()?.file_name())).collect::<Option<_>>()?;
        names.sort();
        for name in names {
            // The dependencies are other packages.
            if at.as_os_str().is_empty() && name == "node_modules" {
                continue;
            }
            let below = at.join(name);
            let path = root.join(&below);
            let kind = path.symlink_metadata().ok()?.file_type();
            self.files += 1;
            if self.files > MAX_TREE_FILES {
                return None;
            }
            if kind.is_dir() {
                self.add(root, &below)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).ok()?;
                self.line(&below, "link", target.as_os_str().as_encoded_bytes());
            } else if kind.is_file() {
                let sum = self.file(&path)?;
                self.line(&below, "file", &sum);
            } else {
                return None;
            }
        }
        Some(())
    }

    fn file(&mut self, path: &Path) -> Option<[u8; 32]> {
        let (mut file, mut hasher) = (open_input(path).ok()?, Sha256::new());
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = file.read(&mut buffer).ok()?;
            if read == 0 {
                return Some(hasher.finalize().into());
            }
            self.bytes += u64::try_from(read).ok()?;
            if self.bytes > MAX_TREE_BYTES {
                return None;
            }
            hasher.update(&buffer[..read]);
        }
    }

    /// Adds a path and the digest of its content. Lengths keep the fields apart.
    fn line(&mut self, path: &Path, kind: &str, content: &[u8]) {
        // The separator of folders differs between platforms.
        let names: Vec<_> = path.iter().map(std::ffi::OsStr::as_encoded_bytes).collect();
        for part in [names.join(&b'/').as_slice(), kind.as_bytes(), content] {
            self.hasher.update(part.len().to_le_bytes());
            self.hasher.update(part);
        }
    }

    fn finish(self) -> String {
        format!("files-sha256:{}", hex::encode(self.hasher.finalize()))
    }
}
