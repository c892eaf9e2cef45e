//! Sandbox of a confined server: the files it can access, and its start.
//!
//! A process confines itself before it executes the server, so the launcher spawns this program's
//! own executable first. Each server has its own home folder. In a shared package cache, a confined
//! server could plant programs that other servers run outside its sandbox.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::backend::StartError;
use crate::backend::launch::environment::ChildEnvironment;
use crate::os::{self, SandboxRules};
use crate::settings::{Confinement, StdioLaunch};

/// Programs, libraries and settings of the system, and machine information.
const SYSTEM: &[&str] = &[
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
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/zero"];

/// Names of program folders with libraries next to them.
const BESIDE_LIBRARIES: &[&str] = &["bin", "sbin", "shims"];

const NOT_WHOLE: &[&str] = &["", ".cargo", ".local"];

/// Files that mark the root of a package.
const PACKAGES: &[&str] = &["package.json", "pyproject.toml"];

/// Variables that point into the user's home, which a confined server doesn't get.
pub(crate) const OF_THE_HOME: &[&str] = &[
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "TEMP",
    "TMP",
];

pub fn is_system_path(path: &Path) -> bool {
    SYSTEM.iter().chain(DEVICES).any(|known| path.starts_with(known))
}

pub fn home_of(homes: &Path, server: &str) -> PathBuf {
    // Names may contain anything, so only the digest is unique; the rest is for people.
    let digest = Sha256::digest(server.as_bytes());
    let readable = server.chars().filter(char::is_ascii_alphanumeric).take(24);
    let name: String = readable.collect();
    let [a, b, c, d, ..] = digest[..] else { return homes.join(name) };
    homes.join(format!("{name}-{a:02x}{b:02x}{c:02x}{d:02x}"))
}

/// Returns the rules for a server: system and program files, paths in its arguments and variables,
/// and configured extras. `path` is its `PATH`, `home` the user's home, `own` the server's home.
fn sandbox_rules(
    launch: &StdioLaunch,
    confinement: &Confinement,
    path: Option<&OsStr>,
    home: Option<&Path>,
    own: &Path,
) -> SandboxRules {
    let mut read: BTreeSet<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    let mut write: BTreeSet<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    write.insert(own.to_owned());
    for folder in path.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute()) {
        read.extend(folder.canonicalize().ok().map(|folder| install_prefix(&folder, home)));
        read.insert(install_prefix(&folder, home));
    }
    if launch.command.contains(std::path::is_separator) {
        code(&launch.cwd.join(&launch.command), home, &mut read);
    }
    // The default `cwd` is the configuration's folder, and grants no access.
    write.extend(launch.has_own_folder.then(|| launch.cwd.clone()));
    for (_, named) in referenced_paths(launch) {
        if named.is_dir() {
            write.insert(named);
        } else {
            code(&named, home, &mut read);
        }
    }
    read.extend(confinement.read.iter().cloned());
    write.extend(confinement.write.iter().cloned());
    SandboxRules {
        read: read.into_iter().filter(|path| path.exists()).collect(),
        write: write.into_iter().filter(|path| path.exists()).collect(),
        has_network: confinement.has_network,
        has_unix_sockets: confinement.has_unix_sockets,
    }
}

/// Returns the existing paths in arguments and variables, each as written and canonicalized.
pub fn referenced_paths(launch: &StdioLaunch) -> impl Iterator<Item = (&str, PathBuf)> {
    let values = launch.env.values().flat_map(|value| value.split(':'));
    // As in `--root=/srv`.
    let arguments = launch.args.iter().map(|argument| {
        let value = argument.strip_prefix('-').and_then(|option| option.split_once('='));
        value.map_or(argument.as_str(), |(_, value)| value)
    });
    let is_path = |text: &&str| text.contains(['/', '\\']) || matches!(*text, "." | "..");
    arguments
        .chain(values)
        .filter(is_path)
        .filter_map(|text| Some((text, launch.cwd.join(text).canonicalize().ok()?)))
}

pub fn of_launch(
    launch: &StdioLaunch,
    confinement: &Confinement,
    environment: &ChildEnvironment,
    own: &Path,
) -> SandboxRules {
    let path = environment.path_for(launch);
    let home = home_for(launch, environment);
    sandbox_rules(launch, confinement, Some(&path), home.as_deref(), own)
}

/// Returns the parent of a program folder, which has its libraries, unless that contains much else.
fn install_prefix(folder: &Path, home: Option<&Path>) -> PathBuf {
    let is_beside =
        folder.file_name().is_some_and(|name| BESIDE_LIBRARIES.iter().any(|known| name == *known));
    let above = folder.parent().filter(|above| is_beside && !is_too_much(above, home));
    above.unwrap_or(folder).to_owned()
}

fn is_too_much(folder: &Path, home: Option<&Path>) -> bool {
    let in_home = home.and_then(|home| folder.strip_prefix(home).ok());
    folder.parent().is_none()
        || home.is_some_and(|home| home.starts_with(folder))
        || in_home.is_some_and(|rest| NOT_WHOLE.iter().any(|known| rest == Path::new(known)))
}

/// Returns the paths that running the script `file` needs.
pub(crate) fn code_of(
    file: &Path,
    environment: &ChildEnvironment,
    launch: &StdioLaunch,
) -> BTreeSet<PathBuf> {
    let mut read = BTreeSet::new();
    code(file, home_for(launch, environment).as_deref(), &mut read);
    read
}

fn home_for(launch: &StdioLaunch, environment: &ChildEnvironment) -> Option<PathBuf> {
    environment.for_launch(launch).find(|(key, _)| *key == "HOME").map(|(_, home)| home.into())
}

/// Adds a program or script and the package it belongs to.
fn code(file: &Path, home: Option<&Path>, read: &mut BTreeSet<PathBuf>) {
    let Ok(file) = file.canonicalize() else { return };
    let folders = || file.ancestors().skip(1).filter(|folder| !is_too_much(folder, home));
    // The outermost `node_modules` has all packages installed with this one.
    let installed = folders().filter(|folder| folder.ends_with("node_modules")).last();
    let is_package = |folder: &&Path| PACKAGES.iter().any(|name| folder.join(name).is_file());
    let package = folders().find(is_package);
    read.extend(installed.map(Path::to_owned));
    read.extend(package.map(Path::to_owned));
    read.extend(
        file.parent()
            .map(|folder| install_prefix(folder, home))
            .filter(|folder| !is_too_much(folder, home)),
    );
    read.insert(file);
}

/// Creates the home of a confined server and returns its temporary folder.
pub(crate) fn make_home(own: &Path) -> Result<PathBuf, StartError> {
    let temporary = own.join("tmp");
    os::make_private_folder(own).and_then(|()| fs::create_dir_all(&temporary)).map_err(
        |error| {
            StartError::new(
                format!("failed to create its home folder `{}`: {error}", own.display()),
                "choose another folder with `--cache-dir`".to_owned(),
            )
        },
    )?;
    Ok(temporary)
}

/// Returns the arguments that make this executable confine itself and run `program`.
pub(crate) fn arguments<'a>(
    cell: &SandboxRules,
    program: &'a OsStr,
    args: impl IntoIterator<Item = &'a OsStr>,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["cell".into()];
    let paths = [("--read", &cell.read), ("--write", &cell.write)];
    for (option, paths) in paths {
        all.extend(paths.iter().flat_map(|path| [option.into(), path.clone().into_os_string()]));
    }
    all.extend(cell.has_network.then(|| "--network".into()));
    all.extend(cell.has_unix_sockets.then(|| "--unix-sockets".into()));
    all.extend(["--".into(), program.to_owned()]);
    all.extend(args.into_iter().map(OsStr::to_owned));
    all
}

/// Confines this process and executes `program`. Returns only on failure, with a message.
pub fn confine_and_exec(cell: &SandboxRules, program: &OsStr, args: &[OsString]) -> String {
    if let Err(reason) = os::enter_sandbox(cell) {
        return format!("server not started: cannot enter the sandbox: {reason}");
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that starts servers")]
    let mut command = std::process::Command::new(program);
    let error = os::exec(command.args(args));
    format!("failed to start `{}` in its sandbox: {error}", program.to_string_lossy())
}

#[cfg(test)]
mod tests;
