//! The part of an environment that a child gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::os::{DEFAULT_PATH, is_program};
use crate::settings::StdioLaunch;

/// The bytes of a script's first line that the kernel looks at.
const MAX_FIRST_LINE: u64 = 256;

/// The variables of ours that every child gets, where they are set: what programs need to find
/// their way, and nothing that could be a secret.
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

/// How variables of ours begin that programs need which run containers.
const OF_ENGINES: &[&str] = &["DOCKER_", "CONTAINER_", "CONTAINERS_", "SSH_AUTH_SOCK"];

/// The environment of whoever wants a server, of which its process gets a part.
#[derive(Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// In an order that does not depend on where they come from.
    all: BTreeMap<OsString, OsString>,
}

impl fmt::Debug for ChildEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any value may be a secret.
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl ChildEnvironment {
    /// Takes the whole environment; what of it a child gets depends on its launch.
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

    /// Lists what a program gets that runs containers.
    pub(crate) fn for_engine(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.all.iter().filter(|(key, _)| key.to_str().is_some_and(is_for_engine))
    }

    /// Returns where the program of a launch is looked for.
    pub(crate) fn path_for(&self, launch: &StdioLaunch) -> OsString {
        let own = launch.env.get("PATH").map(OsString::from);
        let ours = || self.for_launch(launch).find(|(key, _)| *key == "PATH");
        let path = own.or_else(|| ours().map(|(_, path)| path.clone()));
        path.unwrap_or_else(|| DEFAULT_PATH.into())
    }

    /// Returns where the program is looked for that runs containers.
    pub(crate) fn path_for_engine(&self) -> OsString {
        self.all.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| DEFAULT_PATH.into())
    }
}

/// Returns `true` for variables of ours that every server gets.
pub fn is_passed_on(key: &str) -> bool {
    PASSED_ON.iter().any(|name| key.eq_ignore_ascii_case(name))
}

/// Returns `true` for variables of ours that programs get which run containers.
pub(crate) fn is_for_engine(key: &str) -> bool {
    is_passed_on(key) || OF_ENGINES.iter().any(|start| key.starts_with(start))
}

/// Looks for a program in the folders of `path`, as the system does that starts it in `cwd`.
///
/// # Errors
///
/// Why it could not be started: there is none, or it may not be executed.
pub(crate) fn find(command: &str, cwd: &Path, path: &OsStr) -> Result<PathBuf, io::ErrorKind> {
    let program = |path: PathBuf| is_program(&path).map(|()| path);
    if command.contains(std::path::MAIN_SEPARATOR) {
        return program(cwd.join(command));
    }
    let found = std::env::split_paths(path).map(|folder| program(cwd.join(folder).join(command)));
    // What may not be executed counts only where nothing else is found.
    let best = found.reduce(|first, next| match (&first, &next) {
        (Ok(_), _) | (Err(io::ErrorKind::PermissionDenied), Err(_)) => first,
        _ => next,
    });
    best.unwrap_or_else(|| Ok(command.into()))
}

/// Returns the program that a script wants to be run by (`#!/usr/bin/python3`), if that is not there. The system
/// says of such a script that it is not there itself.
pub(crate) fn absent_interpreter(script: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let interpreter = str::from_utf8(line).ok()?.split_ascii_whitespace().next()?;
    // One that is not written as a whole path is looked for in the folder that the script is started in.
    let path = Path::new(interpreter);
    (path.is_absolute() && !path.exists()).then(|| interpreter.to_owned())
}
