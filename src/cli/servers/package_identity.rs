//! Identifies the package that a launch runs, with the version and digest on this machine. It reads
//! only files of package managers: no process is started, no registry queried.

use std::path::{Path, PathBuf};

use mcp_workbench_config::env::EnvSource;
use mcp_workbench_core::backend::installed_package::InstalledPackage;
use mcp_workbench_core::backend::installed_package::npm::contents_digest;
use mcp_workbench_settings::{Ecosystem, LockedPackage, Package, StdioLaunch, VersionRequest};

mod npm;
mod python;
#[cfg(test)]
mod tests;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageIdentity {
    pub(crate) ecosystem: Ecosystem,
    pub(crate) name: String,
    /// The requested version; `None` if the launch runs an installed copy by path.
    pub(crate) requested: Option<VersionRequest>,
    /// The version that would start now without a registry lookup.
    pub(crate) version: Option<String>,
    /// The digest of the package: npm's `sha512-…`, `sha256:…` of an image or a Python archive, or
    /// `record-sha256:…`, a digest over the file digests of an installed Python package.
    pub(crate) integrity: Option<String>,
    /// The digest of the installed files, if `integrity` is one of the downloaded archive.
    pub(crate) contents: Option<String>,
    pub(crate) evidence: Option<PathBuf>,
    pub(crate) unknown_reason: Option<String>,
    /// `true` if another version can start without a local change.
    pub(crate) is_unpinned: bool,
}

/// Returns the package that a launch runs, or `None` if it runs no known package.
pub(crate) fn identify(launch: &StdioLaunch, env: &dyn EnvSource) -> Option<PackageIdentity> {
    let vars = LaunchEnv { launch, env };
    if let Some(container) = launch.container() {
        return Some(PackageIdentity::from_package(&Package::of_image(&container.image)));
    }
    let Some(package) = Package::of(&launch.command, &launch.args) else {
        return npm::by_path(launch).or_else(|| python::by_path(launch));
    };
    let found = match (package.ecosystem, package.runner) {
        (_, _) if matches!(package.requested, VersionRequest::NotFromRegistry(_)) => None,
        (Ecosystem::Npm, "npx" | "npm exec") => npm::find_npx_package(&package, &vars),
        (Ecosystem::PyPi, "uvx") => python::find_uv_tool(&package, &vars),
        (Ecosystem::PyPi, _) => python::find_pipx_package(&package, &vars),
        _ => None,
    };
    let mut identity = PackageIdentity::from_package(&package);
    if let Some(found) = found {
        identity.version = Some(found.version);
        identity.unknown_reason = found.integrity.is_none().then(|| NO_DIGEST.to_owned());
        identity.integrity = found.integrity;
        identity.contents = contents(package.ecosystem, &package.name, &found.evidence);
        identity.evidence = Some(found.evidence);
    }
    Some(identity)
}

const NO_DIGEST: &str = "no digest found on this machine";

impl PackageIdentity {
    /// The requested package, with no local copy found.
    fn from_package(package: &Package) -> Self {
        let (version, integrity, unknown) = match &package.requested {
            VersionRequest::Version(version) => (Some(version.clone()), None, Some(NO_DIGEST)),
            VersionRequest::Digest(digest) => (None, Some(digest.clone()), None),
            VersionRequest::NotFromRegistry(_) => (None, None, Some("not from a registry")),
            VersionRequest::Latest | VersionRequest::Floating(_)
                if package.ecosystem == Ecosystem::Image =>
            {
                (None, None, Some("only the container engine can resolve the tag; use a digest"))
            }
            VersionRequest::Latest | VersionRequest::Floating(_) => {
                (None, None, Some("no cached version found, or several"))
            }
        };
        Self {
            ecosystem: package.ecosystem,
            name: package.name.clone(),
            requested: Some(package.requested.clone()),
            version,
            integrity,
            contents: None,
            evidence: None,
            unknown_reason: unknown.map(str::to_owned),
            is_unpinned: package.is_unpinned(),
        }
    }

    /// The package that is installed at a path, and runs from there.
    fn from_installed(ecosystem: Ecosystem, name: String, found: InstalledPackage) -> Self {
        Self {
            ecosystem,
            contents: contents(ecosystem, &name, &found.evidence),
            name,
            requested: None,
            version: Some(found.version),
            unknown_reason: found.integrity.is_none().then(|| NO_DIGEST.to_owned()),
            integrity: found.integrity,
            evidence: Some(found.evidence),
            is_unpinned: false,
        }
    }

    /// Compares the package that would start now with the recorded one. Facts that either side
    /// lacks are not compared.
    pub(crate) fn compare(&self, then: &LockedPackage) -> Option<PackageDifference> {
        if (self.ecosystem, &self.name) != (then.ecosystem, &then.name) {
            return Some(PackageDifference::Package);
        }
        let is_other = |now: &Option<String>, then: &Option<String>| {
            now.as_ref().zip(then.as_ref()).is_some_and(|(now, then)| now != then)
        };
        if is_other(&self.version, &then.version) {
            return Some(PackageDifference::Version);
        }
        let is_comparable = self.is_comparable(then);
        let has_other_digest = is_comparable && is_other(&self.integrity, &then.integrity);
        (has_other_digest || is_other(&self.contents, &then.contents)).then_some({
            // The digest of an image is also its version.
            if self.version.is_some() && then.version.is_some() {
                PackageDifference::Bytes
            } else {
                PackageDifference::Version
            }
        })
    }

    /// Returns `false` if both digests are known but are of different kinds.
    pub(crate) fn is_comparable(&self, then: &LockedPackage) -> bool {
        let both = self.integrity.as_deref().zip(then.integrity.as_deref());
        both.is_none_or(|(now, then)| kind(now) == kind(then))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackageDifference {
    Package,
    Version,
    /// The same version with a different digest.
    Bytes,
}

/// Returns the prefix of a digest that names its algorithm.
fn kind(digest: &str) -> &str {
    digest.rsplit_once([':', '-']).map_or("", |(kind, _)| kind)
}

/// Returns the digest of the files of an npm package. The digest of a Python package covers those.
fn contents(ecosystem: Ecosystem, name: &str, evidence: &Path) -> Option<String> {
    if ecosystem != Ecosystem::Npm {
        return None;
    }
    let mut folders = evidence.ancestors().skip(1);
    let folder = folders.find(|folder| folder.join("node_modules").join(name).is_dir())?;
    contents_digest(folder, name)
}

struct LaunchEnv<'a> {
    launch: &'a StdioLaunch,
    env: &'a dyn EnvSource,
}

impl LaunchEnv<'_> {
    /// Returns the variable from the server's entry, or else from the user's environment if the
    /// launch inherits it. Empty values count as unset.
    fn get(&self, name: &str) -> Option<String> {
        let own = self.launch.env.get(name).cloned();
        let inherited = || self.launch.inherit_env.then(|| self.env.get(name)).flatten();
        own.or_else(inherited).filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<PathBuf> {
        self.launch.env.get("HOME").map(PathBuf::from).or_else(|| self.env.home_dir())
    }

    /// The cache folder of `program`, which `variable` overrides.
    fn cache(&self, variable: &str, program: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from);
        let of_all = || Some(PathBuf::from(self.get("XDG_CACHE_HOME")?).join(program));
        named.or_else(of_all).or_else(|| Some(self.home()?.join(".cache").join(program)))
    }

    /// The data folder `below` the user's data home, which `variable` overrides.
    fn data(&self, variable: &str, below: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from);
        let of_all = || Some(PathBuf::from(self.get("XDG_DATA_HOME")?).join(below));
        named.or_else(of_all).or_else(|| Some(self.home()?.join(".local/share").join(below)))
    }
}
