//! Sandbox settings of server processes.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// How a server process is confined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sandbox {
    #[default]
    Off,
    Process(Confinement),
    Container(Box<Container>),
}

/// A container run by Docker or Podman.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// The image reference, as the engine accepts it.
    pub image: String,
    /// A program name on `PATH` or a path. `None`: `docker`, with `podman` as the fallback.
    pub engine: Option<String>,
    /// Absolute paths mounted read-only.
    pub read: BTreeSet<PathBuf>,
    /// Absolute paths mounted writable.
    pub write: BTreeSet<PathBuf>,
    pub has_network: bool,
}

/// Access of a confined process, in addition to the defaults: its own executable, the system's
/// programs and libraries, and a private home folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Confinement {
    /// Absolute paths that it can read and execute.
    pub read: BTreeSet<PathBuf>,
    /// Absolute paths that it can also write.
    pub write: BTreeSet<PathBuf>,
    /// `true` if it can use the network, including loopback addresses.
    pub has_network: bool,
    /// `true` if it can connect to Unix sockets, such as Docker's and the desktop's.
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
    /// Returns the access rules of a confined process.
    pub fn confinement(&self) -> Option<&Confinement> {
        match self {
            Self::Off | Self::Container(_) => None,
            Self::Process(confinement) => Some(confinement),
        }
    }

    /// Returns the container settings, if it runs in a container.
    pub fn container(&self) -> Option<&Container> {
        match self {
            Self::Off | Self::Process(_) => None,
            Self::Container(container) => Some(container),
        }
    }

    /// Returns the configured paths: readable and writable. `None` if the process isn't confined.
    pub fn granted_paths(&self) -> Option<[&BTreeSet<PathBuf>; 2]> {
        match self {
            Self::Off => None,
            Self::Process(confinement) => Some([&confinement.read, &confinement.write]),
            Self::Container(container) => Some([&container.read, &container.write]),
        }
    }
}
