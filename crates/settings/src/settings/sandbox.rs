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
    /// It is run in a container.
    In(Box<Container>),
}

/// The container that a process is run in, by Docker or Podman.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// The image, as the engine calls it.
    pub image: String,
    /// The engine: a name to find on `PATH`, or a path; `None`: `docker`, or `podman` where there is no
    /// `docker`.
    pub engine: Option<String>,
    /// Files and folders that are put into it, to be read and executed; absolute.
    pub read: BTreeSet<PathBuf>,
    /// Files and folders that are put into it, to be changed, too; absolute.
    pub write: BTreeSet<PathBuf>,
    /// `true` if it may use the network.
    pub has_network: bool,
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
            Self::Off | Self::In(_) => None,
            Self::On(confinement) => Some(confinement),
        }
    }

    /// Returns the container that it is run in, if it is.
    pub fn container(&self) -> Option<&Container> {
        match self {
            Self::Off | Self::On(_) => None,
            Self::In(container) => Some(container),
        }
    }

    /// Returns the files and folders that its entry says it may reach: to read, and to change.
    pub fn named(&self) -> Option<[&BTreeSet<PathBuf>; 2]> {
        match self {
            Self::Off => None,
            Self::On(confinement) => Some([&confinement.read, &confinement.write]),
            Self::In(container) => Some([&container.read, &container.write]),
        }
    }
}
