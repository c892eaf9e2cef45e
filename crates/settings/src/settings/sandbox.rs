//! The reach of the process of a server.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The choice whether the process of a server is confined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sandbox {
    /// It may do whatever the user may.
    #[default]
    Off,
    /// It may reach what it needs to run, and this.
    On(Confinement),
}

/// The reach of a confined process, beside what programs need to run: its own program, the system's
/// programs and libraries, and a home folder that is made for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Confinement {
    /// Files and folders that it may read and execute; absolute.
    pub read: BTreeSet<PathBuf>,
    /// Files and folders that it may change, too; absolute.
    pub write: BTreeSet<PathBuf>,
    /// `true` if it may use the network, this machine's own addresses included.
    pub has_network: bool,
    /// `true` if it may connect to sockets in the file system, such as those of Docker and of the desktop.
    pub has_unix_sockets: bool,
}

impl Default for Confinement {
    fn default() -> Self {
        Self {
            read: BTreeSet::new(),
            write: BTreeSet::new(),
            has_network: true,
            has_unix_sockets: false,
        }
    }
}

impl Sandbox {
    /// Returns what it may reach, if it is confined.
    pub fn confinement(&self) -> Option<&Confinement> {
        match self {
            Self::Off => None,
            Self::On(confinement) => Some(confinement),
        }
    }
}
