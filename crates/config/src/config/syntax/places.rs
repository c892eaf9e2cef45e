//! The starting points of the paths in a file.

use std::path::{Path, PathBuf};

use crate::config::env::EnvSource;

/// The starting points of relative paths and of `~`.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// The folder of the file; absolute.
    pub(crate) folder: &'a Path,
    /// Where the home folder comes from.
    pub(crate) env: &'a dyn EnvSource,
}

/// A path as the file has it, in full: `~` is the user's home, and relative paths start at the
/// folder of the file.
pub(crate) fn located_path(path: &str, places: &Places<'_>) -> PathBuf {
    absolute(places.folder, &with_home(path, places))
}

pub(crate) fn with_home(path: &str, places: &Places<'_>) -> String {
    let home = || Some(places.env.home()?.to_string_lossy().into_owned());
    shellexpand::tilde_with_context(path, home).into_owned()
}

/// `path` from `folder` on, without `.` in it; a path that starts at the root stays.
pub(crate) fn absolute(folder: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        return folder.to_owned();
    }
    let joined = folder.join(path);
    std::path::absolute(&joined).unwrap_or(joined)
}
