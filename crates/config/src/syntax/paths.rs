//! Resolves the paths in a configuration file.

use std::path::{Path, PathBuf};

use crate::env::EnvSource;

/// The base directory and home directory for the paths of one file.
#[derive(Clone, Copy)]
pub(crate) struct PathResolver<'a> {
    /// The directory of the file; absolute.
    pub(crate) base_dir: &'a Path,
    pub(crate) env: &'a dyn EnvSource,
}

/// Resolves a path from a file: `~` is the user's home directory, and relative paths start at the
/// directory of the file.
pub(crate) fn resolve_path(path: &str, paths: &PathResolver<'_>) -> PathBuf {
    join_absolute(paths.base_dir, &expand_tilde(path, paths))
}

pub(crate) fn expand_tilde(path: &str, paths: &PathResolver<'_>) -> String {
    let home = || Some(paths.env.home_dir()?.to_string_lossy().into_owned());
    shellexpand::tilde_with_context(path, home).into_owned()
}

/// Joins `path` to `folder` and removes `.` components. An absolute `path` is returned as it is.
pub(crate) fn join_absolute(folder: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        return folder.to_owned();
    }
    let joined = folder.join(path);
    std::path::absolute(&joined).unwrap_or(joined)
}
