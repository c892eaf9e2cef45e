//! Finds the program that `uvx` would run. Only uv knows which of its environments a command uses,
//! so uv is asked after a start (`refresh`), and its answer is recorded.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::backend::direct::records::{DirectRecords, RecordKey};
use crate::backend::direct::{CachedProgram, LaunchVariables, check_program};
use crate::backend::installed_package::npm::is_file_name;
use crate::backend::installed_package::python::distribution;
use mcp_workbench_os::open_input;
use mcp_workbench_settings::{Package, RunnerCommand};

/// The folder of uv's cache that contains environments.
const ARCHIVES: &str = "archive-v0";

type Found = Result<CachedProgram, String>;

/// Returns the key of the command's record, and the cached program or why there is none.
pub(super) fn find(
    command: &RunnerCommand,
    variables: &LaunchVariables<'_>,
    records: &DirectRecords,
) -> (Option<RecordKey>, Found) {
    for name in
        ["UV_NO_CACHE", "UV_ENV_FILE", "UV_ISOLATED", "UV_WORKING_DIRECTORY", "UV_WORKING_DIR"]
    {
        if variables.get(name).is_some() {
            return (None, Err(format!("the variable `{name}` is set")));
        }
    }
    let launch = variables.launch;
    let key = RecordKey::new(&(
        "uv",
        &launch.command,
        &command.options,
        &command.package.spec,
        launch.cwd.to_string_lossy(),
        variables.settings("UV_"),
    ));
    let Some(environment) = records.load(&key).and_then(|record| record.found) else {
        let reason = format!("the environment of `{}` isn't known yet", command.package.spec);
        return (Some(key), Err(reason));
    };
    (Some(key), in_environment(command, Path::new(&environment)))
}

fn in_environment(command: &RunnerCommand, root: &Path) -> Found {
    let RunnerCommand { package: Package { name, .. }, executable, .. } = command;
    let gone = || format!("the environment of `{name}` is no longer in the cache");
    // First lock the cache: uv removes environments only from an unlocked one.
    let cache_lock = lock_cache(root)?;
    if !root.join("pyvenv.cfg").is_file() || !root.join("bin/python").exists() {
        return Err(gone());
    }
    let package = distribution(root, name).ok_or_else(gone)?;
    let Some(program) = executable.as_ref().filter(|program| is_file_name(program)) else {
        return Err(format!("`{name}` doesn't name its program"));
    };
    let path = root.join("bin").join(program);
    check_program(&path)?;
    Ok(CachedProgram { path, package, root: root.to_owned(), cache_lock })
}

/// Returns the lock file of the cache that contains an environment, locked as by `uvx`; `None` for
/// an environment outside the cache, as of an installed tool.
fn lock_cache(root: &Path) -> Result<Option<File>, String> {
    let Some(file) = cache_of(root).map(|cache| cache.join(".lock")) else { return Ok(None) };
    if !file.exists() {
        return Ok(None);
    }
    let file = open_input(&file).map_err(|error| format!("uv's cache can't be locked: {error}"))?;
    file.try_lock_shared().map_err(|_| "uv is changing its cache".to_owned())?;
    Ok(Some(file))
}

fn cache_of(root: &Path) -> Option<PathBuf> {
    let archives = root.parent().filter(|folder| folder.ends_with(ARCHIVES))?;
    archives.parent().map(Path::to_owned)
}
