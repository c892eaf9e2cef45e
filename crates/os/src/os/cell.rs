//! The reach of a confined process.

use std::path::PathBuf;

/// The files and sockets that a confined process may reach, and those that it starts; nothing else is
/// there for it but what every process can see: names, sizes and dates of files, the list of processes
/// and their command lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Files, and folders with all in them, that it may read and execute. What does not exist is left
    /// out.
    pub read: Vec<PathBuf>,
    /// Files, and folders with all in them, that it may read, execute, change, create and remove. What
    /// does not exist is left out.
    pub write: Vec<PathBuf>,
    /// `true` if it may use the network, which includes this machine's own addresses.
    pub has_network: bool,
    /// `true` if it may talk to other processes through sockets in the file system, which those that
    /// listen at one may do anything for.
    pub has_unix_sockets: bool,
}
