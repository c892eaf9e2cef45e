//! The package behind a server: which one a launch runs, and the version and bytes of it that are on this
//! machine, from what package managers have written down. Nothing is started and no registry is asked.

use std::path::{Path, PathBuf};

use crate::config::env::EnvSource;
use crate::settings::{Ecosystem, LockedPackage, Package, StdioLaunch, Wanted};

mod npm;
mod python;
#[cfg(test)]
mod tests;

/// The package that a launch runs, as far as that can be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The registry that it is from.
    pub(crate) ecosystem: Ecosystem,
    /// Its name there.
    pub(crate) name: String,
    /// The version that the entry asks for; `None` if it runs what is installed at a place.
    pub(crate) wanted: Option<Wanted>,
    /// The version that would start now without a look at the registry.
    pub(crate) version: Option<String>,
    /// The digest of its bytes: npm's `sha512-…`, `sha256:…` of an image or a distribution, and
    /// `record-sha256:…` of the digests of all files that an installed Python package came with.
    pub(crate) integrity: Option<String>,
    /// The file that says so.
    pub(crate) evidence: Option<PathBuf>,
    /// The reason why the version or its bytes are not known.
    pub(crate) unknown: Option<String>,
    /// `true` if another version may start although nobody changes anything here.
    pub(crate) is_loose: bool,
}

/// Returns the package that a launch runs, read from what is on this machine; `None` if it runs no package
/// that anybody has written down.
pub(crate) fn identify(launch: &StdioLaunch, env: &dyn EnvSource) -> Option<Identity> {
    let vars = Vars { launch, env };
    if let Some(container) = launch.container() {
        return Some(Identity::wanting(&Package::of_image(&container.image)));
    }
    let Some(package) = Package::of(&launch.command, &launch.args) else {
        return npm::by_path(launch).or_else(|| python::by_path(launch));
    };
    let found = match (package.ecosystem, package.runner) {
        (_, _) if matches!(package.wanted, Wanted::Elsewhere(_)) => None,
        (Ecosystem::Npm, "npx" | "npm exec") => npm::fetched(&package, &vars),
        (Ecosystem::PyPi, "uvx") => python::of_uv(&package, &vars),
        (Ecosystem::PyPi, _) => python::of_pipx(&package, &vars),
        _ => None,
    };
    let mut identity = Identity::wanting(&package);
    if let Some(found) = found {
        identity.version = Some(found.version);
        identity.unknown = found.integrity.is_none().then(|| NO_DIGEST.to_owned());
        identity.integrity = found.integrity;
        identity.evidence = Some(found.evidence);
    }
    Some(identity)
}

/// The reason why there is a version and no integrity.
const NO_DIGEST: &str = "nothing on this machine has a digest of it";

impl Identity {
    /// The package as it is asked for, of which nothing is found on this machine.
    fn wanting(package: &Package) -> Self {
        let (version, integrity, unknown) = match &package.wanted {
            Wanted::Version(version) => (Some(version.clone()), None, Some(NO_DIGEST)),
            Wanted::Digest(digest) => (None, Some(digest.clone()), None),
            Wanted::Elsewhere(_) => (None, None, Some("it is from no registry")),
            Wanted::Newest | Wanted::Moving(_) if package.ecosystem == Ecosystem::Image => {
                (None, None, Some("only the engine knows what the tag means; name a digest"))
            }
            Wanted::Newest | Wanted::Moving(_) => {
                (None, None, Some("which version is kept here is not certain, or none is"))
            }
        };
        Self {
            ecosystem: package.ecosystem,
            name: package.name.clone(),
            wanted: Some(package.wanted.clone()),
            version,
            integrity,
            evidence: None,
            unknown: unknown.map(str::to_owned),
            is_loose: package.is_loose(),
        }
    }

    /// The package that is installed at a place, and runs as it is there.
    fn installed(ecosystem: Ecosystem, name: String, found: Found) -> Self {
        Self {
            ecosystem,
            name,
            wanted: None,
            version: Some(found.version),
            unknown: found.integrity.is_none().then(|| NO_DIGEST.to_owned()),
            integrity: found.integrity,
            evidence: Some(found.evidence),
            is_loose: false,
        }
    }

    /// Says how what would start now differs from what was recorded; what either does not know is
    /// no difference.
    pub(crate) fn differs(&self, then: &LockedPackage) -> Option<Differs> {
        if (self.ecosystem, &self.name) != (then.ecosystem, &then.name) {
            return Some(Differs::Package);
        }
        let is_other = |now: &Option<String>, then: &Option<String>| {
            now.as_ref().zip(then.as_ref()).is_some_and(|(now, then)| now != then)
        };
        if is_other(&self.version, &then.version) {
            return Some(Differs::Version);
        }
        let is_comparable = self.is_comparable(then);
        (is_comparable && is_other(&self.integrity, &then.integrity)).then_some({
            // Of an image the digest is all that is known of its version.
            if self.version.is_some() && then.version.is_some() {
                Differs::Bytes
            } else {
                Differs::Version
            }
        })
    }

    /// Returns `false` if both digests are known, and of different kinds.
    pub(crate) fn is_comparable(&self, then: &LockedPackage) -> bool {
        let both = self.integrity.as_deref().zip(then.integrity.as_deref());
        both.is_none_or(|(now, then)| kind(now) == kind(then))
    }
}

/// How a package that would start differs from one that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Differs {
    /// It is another package.
    Package,
    /// It is another version of it.
    Version,
    /// It is the same version, and its bytes are others.
    Bytes,
}

/// Returns the kind of a digest, which stands before it.
fn kind(digest: &str) -> &str {
    digest.rsplit_once([':', '-']).map_or("", |(kind, _)| kind)
}

/// A version that is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    version: String,
    integrity: Option<String>,
    evidence: PathBuf,
}

/// The variables that a launch has.
struct Vars<'a> {
    launch: &'a StdioLaunch,
    env: &'a dyn EnvSource,
}

impl Vars<'_> {
    /// The value of a variable: the entry's own, or the user's if the process is given that.
    fn get(&self, name: &str) -> Option<String> {
        let own = self.launch.env.get(name).cloned();
        let inherited = || self.launch.inherit_env.then(|| self.env.get(name)).flatten();
        own.or_else(inherited).filter(|value| !value.is_empty())
    }

    /// The home folder of the process.
    fn home(&self) -> Option<PathBuf> {
        self.launch.env.get("HOME").map(PathBuf::from).or_else(|| self.env.home())
    }

    /// The folder in which a program keeps what can be fetched again.
    fn cache(&self, variable: &str, program: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from);
        let of_all = || Some(PathBuf::from(self.get("XDG_CACHE_HOME")?).join(program));
        named.or_else(of_all).or_else(|| Some(self.home()?.join(".cache").join(program)))
    }

    /// The folder in which a program keeps what is installed.
    fn data(&self, variable: &str, below: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from);
        let of_all = || Some(PathBuf::from(self.get("XDG_DATA_HOME")?).join(below));
        named.or_else(of_all).or_else(|| Some(self.home()?.join(".local/share").join(below)))
    }
}

/// Returns the folders in a folder, in order.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}

/// Returns the text of a file that a package manager has written, if it is not too long for one.
fn read(file: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 64 << 20;
    let metadata = std::fs::metadata(file).ok()?;
    (metadata.is_file() && metadata.len() <= MAX_BYTES)
        .then(|| std::fs::read_to_string(file).ok())?
}
