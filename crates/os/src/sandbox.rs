//! Access rules of a sandboxed process.

use std::io;
use std::path::{Path, PathBuf};

use crate::native;

/// The files and sockets that a sandboxed process and its children may reach.
///
/// Landlock does not hide metadata: file names, sizes, timestamps, the process list and command
/// lines stay visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxRules {
    /// Files, and folders with their contents, that it may read and execute. Missing paths are
    /// ignored.
    pub read: Vec<PinnedPath>,
    /// Files, and folders with their contents, that it may read, execute, change, create and
    /// remove. Missing paths are ignored.
    pub write: Vec<PinnedPath>,
    /// Allows IP sockets, including those to addresses of this machine.
    pub has_network: bool,
    /// Allows Unix sockets. A process that listens on one may act on the sandboxed process's
    /// behalf.
    pub has_unix_sockets: bool,
}

/// An absolute path without links, and the file or folder that it led to when it was pinned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinnedPath {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl PinnedPath {
    /// Pins the file or folder at an absolute path.
    ///
    /// # Errors
    ///
    /// Returns an error if the path doesn't exist, or if any part of it is a symbolic link.
    pub fn new(path: &Path) -> io::Result<Self> {
        let (device, inode) = native::identity_of(path)?;
        Ok(Self { path: path.to_owned(), device, inode })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Returns the identity for [`Self::from_parts`].
    pub fn identity_text(&self) -> String {
        format!("{}:{}", self.device, self.inode)
    }

    /// Returns the pinned path with this identity; `None` if the text isn't an identity.
    pub fn from_parts(path: PathBuf, identity: &str) -> Option<Self> {
        let (device, inode) = identity.split_once(':')?;
        Some(Self { path, device: device.parse().ok()?, inode: inode.parse().ok()? })
    }
}
