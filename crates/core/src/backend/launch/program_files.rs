//! The files that programs need: the system's, and those installed with a program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Programs, libraries and settings of the system, and machine information.
pub(crate) const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/opt",
    "/proc",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sbin",
    "/snap",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/usr",
    "/dev/random",
    "/dev/urandom",
];

/// Devices that retain nothing written to them.
pub(crate) const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/zero"];

/// Names of program folders with libraries next to them.
const BESIDE_LIBRARIES: &[&str] = &["bin", "sbin", "shims"];

const NOT_WHOLE: &[&str] = &["", ".cargo", ".local"];

/// Files that mark the root of a package.
const PACKAGES: &[&str] = &["package.json", "pyproject.toml"];

/// Returns `true` for devices that every confined server can write to.
pub fn is_device(path: &Path) -> bool {
    DEVICES.iter().any(|known| path == Path::new(known))
}

pub fn is_system_path(path: &Path) -> bool {
    SYSTEM.iter().chain(DEVICES).any(|known| path.starts_with(known))
}

/// Returns the parent of a program folder, which has its libraries, unless that contains much else.
pub(crate) fn install_prefix(folder: &Path, home: Option<&Path>) -> PathBuf {
    let is_beside =
        folder.file_name().is_some_and(|name| BESIDE_LIBRARIES.iter().any(|known| name == *known));
    let above = folder.parent().filter(|above| is_beside && !is_too_much(above, home));
    above.unwrap_or(folder).to_owned()
}

pub(crate) fn is_too_much(folder: &Path, home: Option<&Path>) -> bool {
    let in_home = home.and_then(|home| folder.strip_prefix(home).ok());
    folder.parent().is_none()
        || home.is_some_and(|home| home.starts_with(folder))
        || in_home.is_some_and(|rest| NOT_WHOLE.iter().any(|known| rest == Path::new(known)))
}

/// Returns a program or script, and the package it belongs to. `file` has no links.
pub(crate) fn code(file: &Path, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let folders = || file.ancestors().skip(1).filter(|folder| !is_too_much(folder, home));
    // The outermost `node_modules` has all packages installed with this one.
    let installed = folders().filter(|folder| folder.ends_with("node_modules")).last();
    // Another user's file in a shared folder must not extend the access.
    let is_marker = |marker: &Path| {
        let metadata = marker.symlink_metadata().ok().filter(|_| marker.is_file());
        metadata
            .is_some_and(|it| mcp_workbench_os::check_owner(&it, Some(file), "the package").is_ok())
    };
    let is_package = |folder: &&Path| PACKAGES.iter().any(|name| is_marker(&folder.join(name)));
    let package = folders().find(is_package);
    let prefix = file
        .parent()
        .map(|folder| install_prefix(folder, home))
        .filter(|folder| !is_too_much(folder, home));
    let folders = [installed, package].into_iter().flatten().map(Path::to_owned);
    folders.chain(prefix).chain([file.to_owned()]).collect()
}

#[cfg(test)]
mod tests;
