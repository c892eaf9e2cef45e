//! Writing a file in one step.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::cli::error::Error;
use crate::config::Location;
use crate::os::{private, strictest_permissions};

/// Writes a configuration in one step: a reader sees the old text or the new one. The file is
/// no more open to others than each of `models`, whose secrets it may now hold.
pub(crate) fn file(target: &Location, text: &str, models: &[&Path]) -> Result<(), Error> {
    let failed = |error: io::Error| {
        let message = format!("cannot write `{}`", target.shown.display());
        Error::failed(message).because(&error.to_string())
    };
    // A link stays one: what it leads to is replaced.
    let path = fs::canonicalize(&target.path).unwrap_or_else(|_| target.path.clone());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    // Only its owner can read it until it gets its permissions.
    let written = private(OpenOptions::new().write(true).create_new(true))
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
        // What cannot be written may not be there either.
        let _ = fs::remove_file(&draft);
        failed(error)
    })
}
