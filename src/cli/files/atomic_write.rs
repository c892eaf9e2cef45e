//! Atomic file replacement.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::cli::output::CommandError;
use mcp_workbench_config::ConfigLocation;
use mcp_workbench_os::{check_replaceable, strictest_permissions};

/// Replaces a configuration file atomically. Its permissions are the strictest of all `models`,
/// whose secrets it can contain.
pub(crate) fn write_atomically(
    target: &ConfigLocation,
    text: &str,
    models: &[&Path],
) -> Result<(), CommandError> {
    let failed = |error: io::Error| {
        let message = format!("cannot write `{}`", target.display_path.display());
        CommandError::failed(message).because(&error)
    };
    // Replace the target of a symlink and keep the link.
    let path = fs::canonicalize(&target.path).unwrap_or_else(|_| target.path.clone());
    check_replaceable(&path).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    // Created private, before it gets its final permissions.
    let draft =
        tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".new").tempfile_in(folder);
    let mut draft = draft.map_err(failed)?;
    let file = draft.as_file_mut();
    let written = match strictest_permissions(models) {
        Some(permissions) => file.set_permissions(permissions),
        None => Ok(()),
    };
    let written =
        written.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| file.sync_all());
    written.and_then(|()| Ok(draft.persist(&path)?)).map(|_| ()).map_err(failed)
}
