//! Writing a file in one step.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::Path;

use crate::cli::error::Error;
use crate::config::Location;

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
    let written = draft_file(&draft)
        .and_then(|mut file| {
            if let Some(permissions) = strictest(models) {
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

/// A new file that only its owner can read until it gets its permissions.
fn draft_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The permissions that every one of these files grants.
#[cfg(unix)]
fn strictest(files: &[&Path]) -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;

    let modes = files.iter().map(|file| {
        let metadata = fs::metadata(file).ok()?;
        Some(metadata.permissions().mode() & 0o777)
    });
    let mode = modes.reduce(|all, mode| Some(all? & mode?))??;
    Some(Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn strictest(_: &[&Path]) -> Option<Permissions> {
    None
}
