//! The cell of a confined server: which files it needs to run at all, and its start inside.
//!
//! A process confines itself, before it becomes the server: so what is spawned is our own executable,
//! as `mcp-workbench cell`. Its home is a folder that is kept for the server alone: programs of one
//! server that land in a package cache would be run by others outside of their cells.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::backend::StartFailure;
use crate::backend::launch::environment::ChildEnvironment;
use crate::os::{self, Cell};
use crate::settings::{Confinement, StdioLaunch};

/// The system's own programs, libraries and settings, and what it says of the machine.
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

/// Devices that whatever is written to is gone.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/zero"];

/// Folders of programs, by whose side their libraries are.
const BESIDE_LIBRARIES: &[&str] = &["bin", "sbin", "shims"];

/// Folders of a home that have more in them than programs and their libraries.
const NOT_WHOLE: &[&str] = &["", ".cargo", ".local"];

/// Files by which the folder of a package is known.
const PACKAGES: &[&str] = &["package.json", "pyproject.toml"];

/// Variables that lead into the user's home, where a confined server has none of them.
pub(crate) const OF_THE_HOME: &[&str] = &[
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "TEMP",
    "TMP",
];

/// Returns `true` for what every confined server may reach, because programs need it.
pub fn is_of_the_system(path: &Path) -> bool {
    SYSTEM.iter().chain(DEVICES).any(|known| path.starts_with(known))
}

/// The folder that is a server's home, of those that are kept for confined servers.
pub fn home_of(homes: &Path, server: &str) -> PathBuf {
    // A name may be anything, so it says only which one it is; the rest is for people.
    let digest = Sha256::digest(server.as_bytes());
    let readable = server.chars().filter(char::is_ascii_alphanumeric).take(24);
    let name: String = readable.collect();
    let [a, b, c, d, ..] = digest[..] else { return homes.join(name) };
    homes.join(format!("{name}-{a:02x}{b:02x}{c:02x}{d:02x}"))
}

/// Lists what a confined server may reach: what it needs to run, what its arguments and variables name,
/// and what its confinement adds. `path` is its `PATH`, `home` the user's home, `own` its own.
fn cell(
    launch: &StdioLaunch,
    confinement: &Confinement,
    path: Option<&OsStr>,
    home: Option<&Path>,
    own: &Path,
) -> Cell {
    let mut read: BTreeSet<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    let mut write: BTreeSet<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    write.insert(own.to_owned());
    for folder in path.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute()) {
        read.extend(folder.canonicalize().ok().map(|folder| programs(&folder, home)));
        read.insert(programs(&folder, home));
    }
    if launch.command.contains(std::path::is_separator) {
        code(&launch.cwd.join(&launch.command), home, &mut read);
    }
    // Where the file names none, it is the folder of the file.
    write.extend(launch.has_own_folder.then(|| launch.cwd.clone()));
    for (_, named) in named(launch) {
        if named.is_dir() {
            write.insert(named);
        } else {
            code(&named, home, &mut read);
        }
    }
    read.extend(confinement.read.iter().cloned());
    write.extend(confinement.write.iter().cloned());
    Cell {
        read: read.into_iter().filter(|path| path.exists()).collect(),
        write: write.into_iter().filter(|path| path.exists()).collect(),
        has_network: confinement.has_network,
        has_unix_sockets: confinement.has_unix_sockets,
    }
}

/// The paths that the arguments and variables of an entry name and that exist, each as it is written and
/// as what it leads to.
pub fn named(launch: &StdioLaunch) -> impl Iterator<Item = (&str, PathBuf)> {
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

/// Lists what the server of a launch may reach that is confined like this; `own` is its home.
pub fn of_launch(
    launch: &StdioLaunch,
    confinement: &Confinement,
    environment: &ChildEnvironment,
    own: &Path,
) -> Cell {
    let path = environment.path_for(launch);
    let home = home_for(launch, environment);
    cell(launch, confinement, Some(&path), home.as_deref(), own)
}

/// Returns a folder of programs with its libraries: the one above it, unless that has much else.
fn programs(folder: &Path, home: Option<&Path>) -> PathBuf {
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

/// Lists what the script `file` is run with that an entry names.
pub(crate) fn code_of(
    file: &Path,
    environment: &ChildEnvironment,
    launch: &StdioLaunch,
) -> BTreeSet<PathBuf> {
    let mut read = BTreeSet::new();
    code(file, home_for(launch, environment).as_deref(), &mut read);
    read
}

/// The user's home, as far as the server is to know it.
fn home_for(launch: &StdioLaunch, environment: &ChildEnvironment) -> Option<PathBuf> {
    environment.for_launch(launch).find(|(key, _)| *key == "HOME").map(|(_, home)| home.into())
}

/// Adds a program or a script, and the package that it is of.
fn code(file: &Path, home: Option<&Path>, read: &mut BTreeSet<PathBuf>) {
    let Ok(file) = file.canonicalize() else { return };
    let folders = || file.ancestors().skip(1).filter(|folder| !is_too_much(folder, home));
    // What is installed beside a package is in the outermost of these.
    let installed = folders().filter(|folder| folder.ends_with("node_modules")).last();
    let is_package = |folder: &&Path| PACKAGES.iter().any(|name| folder.join(name).is_file());
    let package = folders().find(is_package);
    read.extend(installed.map(Path::to_owned));
    read.extend(package.map(Path::to_owned));
    read.extend(
        file.parent()
            .map(|folder| programs(folder, home))
            .filter(|folder| !is_too_much(folder, home)),
    );
    read.insert(file);
}

/// Makes the home of a confined server, and its folder for temporary files in it.
pub(crate) fn make_home(own: &Path) -> Result<PathBuf, StartFailure> {
    let temporary = own.join("tmp");
    os::make_private_folder(own).and_then(|()| fs::create_dir_all(&temporary)).map_err(
        |error| {
            StartFailure::new(
                format!("its own home `{}` could not be made: {error}", own.display()),
                "name a folder for what is kept with `--cache-dir`".to_owned(),
            )
        },
    )?;
    Ok(temporary)
}

/// The arguments with which our executable becomes a confined program.
pub(crate) fn arguments<'a>(
    cell: &Cell,
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

/// Confines this process and becomes a program. Returns only if that fails, with what to say.
pub fn enter(cell: &Cell, program: &OsStr, args: &[OsString]) -> String {
    if let Err(reason) = os::confine(cell) {
        return format!("the server could not be confined, so it was not started: {reason}");
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that starts servers")]
    let mut command = std::process::Command::new(program);
    let error = os::become_program(command.args(args));
    format!("`{}` could not be started in its sandbox: {error}", program.to_string_lossy())
}

#[cfg(test)]
mod tests;
