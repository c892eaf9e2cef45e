//! Atomic file replacement.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::cli::error::CommandError;
use crate::config::ConfigLocation;
use crate::os::{set_private_mode, strictest_permissions};

/// Replaces a configuration file atomically. Its permissions are the strictest of all `models`,
/// whose secrets it can contain.
pub(crate) fn write_atomically(
    target: &ConfigLocation,
    text: &str,
    models: &[&Path],
) -> Result<(), CommandError> {
    let failed = |error: io::Error| {
        let message = format!("cannot write `{}`", target.display_path.display());
        CommandError::failed(message).with_cause(&error.to_string())
    };
    // Replace the target of a symlink and keep the link.
    let path = fs::canonicalize(&target.path).unwrap_or_else(|_| target.path.clone());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    // Created private, before it gets its final permissions.
    let written = set_private_mode(OpenOptions::new().write(true).create_new(true))
        .open(&draft)
        .and_then(|mut file| {
            if let Some(permissions) = strictest_permissions(models) {
                file.set_permissions(permissions)?;
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&draft, &path));
    written.map_err(|error| {
        // The temporary file may not exist, depending on the step that failed.
        let _ = fs::remove_file(&draft);
        failed(error)
    })
}
