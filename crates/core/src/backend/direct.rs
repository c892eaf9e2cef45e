//! Starts the servers of `npx` and `uvx` from the package manager's cache, without the package
//! manager.
//!
//! A direct start runs the program that the command would run without a registry lookup. Anything
//! that could make the command run something else is a reason to run it as written. If
//! `workbench.lock` records the package, the cached files are compared with it first.
//!
//! A package without an exact version is refreshed by its package manager, after a start and at
//! most once a day. The new version is installed next to the old one, so that no file changes under
//! a running server.

mod npm;
mod records;
mod refresh;
#[cfg(test)]
mod tests;
mod uv;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::installed_package::{self, InstalledPackage};
use crate::backend::launch::{ChildEnvironment, first_line, missing_interpreter};
use crate::backend::{BackendSpec, ReviewedPackage, ServerTransport, StartError};
use mcp_workbench_os::{Platform, check_executable};
use mcp_workbench_settings::{
    Ecosystem, RunnerCommand, Sandbox, StdioLaunch, UnusualCommand, VersionRequest,
};

pub(crate) use crate::backend::direct::records::DirectRecords;
pub(crate) use crate::backend::direct::refresh::{FollowUp, run_follow_up};

/// How to start a server.
pub(crate) struct StartPlan {
    /// The launch, with its command replaced if the server starts directly.
    pub(crate) launch: StdioLaunch,
    pub(crate) method: StartMethod,
    /// Keeps the package manager from removing the files of the server while it runs.
    pub(crate) cache_lock: Option<File>,
    /// Work to do after the start.
    pub(crate) follow_up: Option<FollowUp>,
}

/// Whether a server starts directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartMethod {
    /// The command isn't `npx` or `uvx`.
    OwnProgram,
    /// The reason why the command runs as written.
    AsWritten(String),
    /// The program starts from the cache.
    Direct(DirectProgram),
}

/// A program in the cache of a package manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectProgram {
    pub path: PathBuf,
    /// The package and its version, such as `a-server@1.2.3`.
    pub package: String,
}

/// A program and the package that it belongs to.
struct CachedProgram {
    path: PathBuf,
    package: InstalledPackage,
    /// The folder with the `node_modules` of the package, or its Python environment.
    root: PathBuf,
    cache_lock: Option<File>,
}

/// Returns how a server would start now; `None` for one over HTTP.
pub(crate) fn start_method(
    spec: &BackendSpec,
    records: &DirectRecords,
) -> Option<Result<StartMethod, StartError>> {
    let ServerTransport::Stdio(launch) = &spec.reach else { return None };
    let plan = plan(launch, &spec.environment, spec.reviewed.as_ref(), records);
    Some(plan.map(|plan| plan.method))
}

pub(crate) fn plan(
    launch: &StdioLaunch,
    environment: &Arc<ChildEnvironment>,
    reviewed: Option<&ReviewedPackage>,
    records: &DirectRecords,
) -> Result<StartPlan, StartError> {
    let as_written = |method, follow_up| StartPlan {
        launch: launch.clone(),
        method,
        cache_lock: None,
        follow_up,
    };
    let command = match RunnerCommand::parse(&launch.command, &launch.args) {
        None => return Ok(as_written(StartMethod::OwnProgram, None)),
        Some(Err(UnusualCommand(reason))) => {
            return Ok(as_written(StartMethod::AsWritten(reason), None));
        }
        Some(Ok(command)) => command,
    };
    if let Some(reason) = excluding_setting(launch) {
        return Ok(as_written(StartMethod::AsWritten(reason.to_owned()), None));
    }
    let variables = LaunchVariables { launch, environment };
    let (key, found) = match command.package.ecosystem {
        Ecosystem::Npm => npm::find(&command, &variables, reviewed, records),
        Ecosystem::PyPi | Ecosystem::Image => uv::find(&command, &variables, records),
    };
    let found = match found {
        Ok(found) => found,
        Err(reason) => {
            let follow_up = FollowUp::after_runner(&command, key, launch, environment);
            return Ok(as_written(StartMethod::AsWritten(reason), follow_up));
        }
    };
    match reviewed.and_then(|reviewed| Some((reviewed, difference(&command, &found, reviewed)?))) {
        None => {}
        // As without a cache: the definitions of another version are compared with the lock.
        Some((reviewed, Difference::Version(reason))) if reviewed.is_enforced => {
            let follow_up = FollowUp::after_runner(&command, key, launch, environment);
            return Ok(as_written(StartMethod::AsWritten(reason), follow_up));
        }
        Some((_, Difference::Version(reason))) => tracing::debug!(reason, "not as in the lock"),
        Some((reviewed, Difference::Files(reason))) => {
            let failure = not_reviewed(&command, &found.root, &reason, reviewed);
            if reviewed.is_enforced {
                return Err(failure);
            }
            let hint = &failure.hint;
            tracing::warn!(hint, "{failure}");
        }
    }
    let package = format!("{}@{}", command.package.name, found.package.version);
    let follow_up = FollowUp::after_direct_start(&command, key, launch, environment, reviewed);
    let method = StartMethod::Direct(DirectProgram { path: found.path.clone(), package });
    let mut launch = launch.clone();
    if let Some(path) = path_with(&found.path, &variables) {
        launch.env.insert("PATH".to_owned(), path);
    }
    launch.command = found.path.to_string_lossy().into_owned();
    launch.args = command.args;
    Ok(StartPlan { launch, method, cache_lock: found.cache_lock, follow_up })
}

/// Returns the part of an entry that requires the command as written.
fn excluding_setting(launch: &StdioLaunch) -> Option<&'static str> {
    if !launch.starts_directly {
        return Some("`direct` is `false`");
    }
    match &launch.sandbox {
        Some(Sandbox::Process(_)) => Some("it runs in a sandbox, which has a cache of its own"),
        Some(Sandbox::Container(_)) => Some("it runs in a container"),
        None | Some(Sandbox::Off) if Platform::THIS == Platform::Windows => {
            Some("Windows starts the programs of packages through scripts")
        }
        None | Some(Sandbox::Off) => None,
    }
}

/// Returns `PATH` with the folder of the program first, as package runners set it.
fn path_with(program: &Path, variables: &LaunchVariables<'_>) -> Option<String> {
    let path = variables.environment.path_for(variables.launch);
    let folders = program.parent().map(Path::to_owned).into_iter();
    let joined = std::env::join_paths(folders.chain(std::env::split_paths(&path))).ok()?;
    joined.into_string().ok()
}

/// How a cached package differs from the reviewed one.
enum Difference {
    /// Another package or version.
    Version(String),
    /// Other files of the same version.
    Files(String),
}

/// Compares a cached package with the reviewed one. Facts that either side lacks are not compared.
fn difference(
    command: &RunnerCommand,
    found: &CachedProgram,
    reviewed: &ReviewedPackage,
) -> Option<Difference> {
    let (package, locked) = (&command.package, &reviewed.package);
    if (package.ecosystem, &package.name) != (locked.ecosystem, &locked.name) {
        let reason = format!("the lock has the package `{}`", locked.name);
        return Some(Difference::Version(reason));
    }
    let InstalledPackage { version, integrity, .. } = &found.package;
    if let Some(locked) = locked.version.as_ref().filter(|locked| *locked != version) {
        let reason =
            format!("version {version} of `{}` is cached, the lock has {locked}", package.name);
        return Some(Difference::Version(reason));
    }
    let kind = |digest: &str| digest.rsplit_once(['-', ':']).map(|(kind, _)| kind.to_owned());
    if let Some((now, then)) = integrity.as_ref().zip(locked.integrity.as_ref())
        && kind(now) == kind(then)
        && now != then
    {
        return Some(Difference::Files("its digest is another one".to_owned()));
    }
    if package.ecosystem == Ecosystem::PyPi {
        // The digest covers `RECORD`, which lists the digests of the files.
        integrity.as_ref().filter(|digest| digest.starts_with("record-"))?;
        let file = installed_package::python::changed_file(&found.root, &package.name)?;
        return Some(Difference::Files(format!("`{}` was changed", file.display())));
    }
    let then = locked.contents.as_ref()?;
    let now = installed_package::npm::contents_digest(&found.root, &package.name);
    let is_same = now.as_ref() == Some(then);
    (!is_same).then(|| Difference::Files("its files were changed".to_owned()))
}

fn not_reviewed(
    command: &RunnerCommand,
    root: &Path,
    difference: &str,
    reviewed: &ReviewedPackage,
) -> StartError {
    let name = &command.package.name;
    // uv links the same file into several environments, so its unpacked archive may have changed.
    let clean = match command.package.ecosystem {
        Ecosystem::Npm => String::new(),
        Ecosystem::PyPi | Ecosystem::Image => format!("run `uv cache clean {name}` and "),
    };
    StartError::new(
        format!("the cached package `{name}` differs from `workbench.lock`: {difference}"),
        format!(
            "review it and run `{}`; to download it again, {clean}delete `{}`",
            reviewed.accept_command,
            root.display()
        ),
    )
}

/// Checks that the system can start a file: a script whose interpreter exists, or a native program.
fn check_program(path: &Path) -> Result<(), String> {
    let shown = path.display();
    check_executable(path).map_err(|_| format!("`{shown}` is missing or not executable"))?;
    if let Some(interpreter) = missing_interpreter(path) {
        return Err(format!("`{shown}` needs `{interpreter}`, which does not exist"));
    }
    let line = first_line(path).ok_or_else(|| format!("`{shown}` can't be read"))?;
    let is_script = line.starts_with(b"#!") && !line.contains(&b'\r');
    // A text without `#!` needs a shell, which package runners have.
    let is_native = line.iter().take(8).any(|byte| !byte.is_ascii() || *byte == 0);
    if is_script || is_native { Ok(()) } else { Err(format!("`{shown}` needs a shell")) }
}

/// The variables that a child process would get.
struct LaunchVariables<'a> {
    launch: &'a StdioLaunch,
    environment: &'a ChildEnvironment,
}

impl LaunchVariables<'_> {
    /// Returns a variable. Empty values count as unset.
    fn get(&self, name: &str) -> Option<String> {
        self.all().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns the variables with UTF-8 names and values that aren't empty.
    fn all(&self) -> impl Iterator<Item = (&str, String)> {
        let own = self.launch.env.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let inherited = self.environment.for_launch(self.launch).filter_map(|(key, value)| {
            let (key, value) = (key.to_str()?, value.to_str()?);
            let is_own = self.launch.env.contains_key(key);
            (!is_own).then(|| (key, value.to_owned()))
        });
        own.chain(inherited).filter(|(_, value)| !value.is_empty())
    }

    /// Returns the variables that change what a package manager does, for comparing launches.
    fn settings(&self, prefix: &str) -> Vec<(String, String)> {
        let is_setting = |key: &str| {
            matches!(key, "HOME" | "PATH" | "VIRTUAL_ENV")
                || [prefix, "XDG_", "PYTHON"].iter().any(|start| key.starts_with(start))
        };
        let some = self.all().filter(|(key, _)| is_setting(key));
        let mut some: Vec<_> = some.map(|(key, value)| (key.to_owned(), value)).collect();
        some.sort();
        some
    }

    fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }
}

/// Returns `true` if the requested version can change without an edit.
fn can_change(command: &RunnerCommand) -> bool {
    !matches!(command.package.requested, VersionRequest::Version(_))
}
