//! Access rules of a sandboxed process.

use std::path::PathBuf;

/// The files and sockets that a sandboxed process and its children may reach.
///
/// Landlock does not hide metadata: file names, sizes, timestamps, the process list and command
/// lines stay visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxRules {
    /// Files, and folders with their contents, that it may read and execute. Missing paths are
    /// ignored.
    pub read: Vec<PathBuf>,
    /// Files, and folders with their contents, that it may read, execute, change, create and
    /// remove. Missing paths are ignored.
    pub write: Vec<PathBuf>,
    /// Allows IP sockets, including those to addresses of this machine.
    pub has_network: bool,
    /// Allows Unix sockets. A process that listens on one may act on the sandboxed process's
    /// behalf.
    pub has_unix_sockets: bool,
}
