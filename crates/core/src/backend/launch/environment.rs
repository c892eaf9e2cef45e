//! The environment variables that a child process gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use mcp_workbench_os::{DEFAULT_PATH, check_executable};
use mcp_workbench_settings::StdioLaunch;

/// Bytes of a script's first line that the kernel reads.
const MAX_FIRST_LINE: u64 = 256;

/// Variables that every child inherits: programs need them, and none is a secret.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMFILES",
    "PATHEXT",
    "COMSPEC",
    "WINDIR",
];

/// Prefixes of variables that container engines need.
const OF_ENGINES: &[&str] = &["DOCKER_", "CONTAINER_", "CONTAINERS_", "SSH_AUTH_SOCK"];

/// The environment of a client. Each server process gets a part of it.
#[derive(Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    all: BTreeMap<OsString, OsString>,
}

impl fmt::Debug for ChildEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any value may be a secret.
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl ChildEnvironment {
    pub fn new(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { all: all.into_iter().collect() }
    }

    pub(crate) fn for_launch<'a>(
        &'a self,
        launch: &'a StdioLaunch,
    ) -> impl Iterator<Item = (&'a OsString, &'a OsString)> {
        self.all.iter().filter(move |(key, _)| {
            let is_withheld = key.to_str().is_some_and(|key| launch.withheld.contains(key));
            !is_withheld && (launch.inherit_env || key.to_str().is_some_and(is_passed_on))
        })
    }

    pub(crate) fn for_engine(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.all.iter().filter(|(key, _)| key.to_str().is_some_and(is_for_engine))
    }

    pub(crate) fn path_for(&self, launch: &StdioLaunch) -> OsString {
        let own = launch.env.get("PATH").map(OsString::from);
        let ours = || self.for_launch(launch).find(|(key, _)| *key == "PATH");
        let path = own.or_else(|| ours().map(|(_, path)| path.clone()));
        path.unwrap_or_else(|| DEFAULT_PATH.into())
    }

    pub(crate) fn path_for_engine(&self) -> OsString {
        self.all.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| DEFAULT_PATH.into())
    }
}

pub fn is_passed_on(key: &str) -> bool {
    PASSED_ON.iter().any(|name| key.eq_ignore_ascii_case(name))
}

pub(crate) fn is_for_engine(key: &str) -> bool {
    is_passed_on(key) || OF_ENGINES.iter().any(|start| key.starts_with(start))
}

/// Returns `true` for variables that the dynamic linker reads: they can make any program load code.
/// They must reach only programs in a sandbox, because a server may be able to change that code.
pub(crate) fn is_for_linker(key: &str) -> bool {
    ["DYLD_", "GLIBC_", "LD_", "NIX_LD"].iter().any(|start| key.starts_with(start))
}

/// Finds a program in the folders of `path`, as the system does for a process started in `cwd`.
///
/// # Errors
///
/// `NotFound`, or `PermissionDenied` if the file isn't executable.
pub(crate) fn find(command: &str, cwd: &Path, path: &OsStr) -> Result<PathBuf, io::ErrorKind> {
    let program = |path: PathBuf| check_executable(&path).map(|()| path);
    if command.contains(std::path::MAIN_SEPARATOR) {
        return program(cwd.join(command));
    }
    let found = std::env::split_paths(path).map(|folder| program(cwd.join(folder).join(command)));
    // A file that isn't executable counts only if no folder has the program.
    let best = found.reduce(|first, next| match (&first, &next) {
        (Ok(_), _) | (Err(io::ErrorKind::PermissionDenied), Err(_)) => first,
        _ => next,
    });
    best.unwrap_or_else(|| Ok(command.into()))
}

/// Returns the interpreter of a script (`#!/usr/bin/python3`) if it is missing. The system then
/// reports that the script itself is missing.
pub(crate) fn absent_interpreter(script: &Path) -> Option<String> {
    let line = first_line(script)?;
    let interpreter =
        str::from_utf8(line.strip_prefix(b"#!")?).ok()?.split_ascii_whitespace().next()?;
    // A relative path is resolved in the folder that the script starts in.
    let path = Path::new(interpreter);
    (path.is_absolute() && !path.exists()).then(|| interpreter.to_owned())
}

/// Returns the start of a file up to the first line break, at most 256 bytes.
pub(crate) fn first_line(file: &Path) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut start).ok()?;
    start.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec)
}
