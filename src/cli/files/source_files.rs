//! Files that the user names, and their paths in messages.

use std::path::{Path, PathBuf};

use crate::authoring::import::SourceFile;
use crate::cli::output::CommandError;
use mcp_workbench_os::read_input_text;

/// Reads a file for a command that writes another one.
pub(crate) fn read_source(shown: &Path, path: &Path) -> Result<SourceFile, CommandError> {
    let text = read_input_text(path).map_err(|error| {
        CommandError::usage(format!("cannot read `{}`", shown.display()))
            .because(&error)
            .with_hint("nothing was written; check the path")
    })?;
    Ok(SourceFile { file: shown.display().to_string(), text })
}

/// Shortens a path below the home folder to `~/…`.
pub(crate) fn below_home(path: &Path, home: Option<&Path>) -> PathBuf {
    let inside = home.and_then(|home| path.strip_prefix(home).ok());
    inside.map_or_else(|| path.to_owned(), |inside| Path::new("~").join(inside))
}
