//! The memory of a setup: the journal, and copies of the files as they were. All of it is for its
//! owner alone, for clients keep secrets in their files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::authoring::setup::journal::{Journal, VERSION};
use crate::cli::error::Error;
use crate::cli::replace;
use crate::cli::setup::clients::read;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::{ChosenBy, Location};
use crate::name::PROGRAM;
use crate::os::make_private_folder;

/// The folder of a setup, within the user's folder for what programs remember.
pub(super) fn folder() -> Result<PathBuf, Error> {
    let state = ProcessEnv.state();
    let state = state.ok_or_else(|| {
        Error::wrong("nobody knows where the user's own files are").hint("set `HOME`")
    })?;
    Ok(state.join(PROGRAM).join("setup"))
}

fn journal_file() -> Result<PathBuf, Error> {
    Ok(folder()?.join("journal.json"))
}

/// Reads the journal of the setups that have not been undone.
pub(super) fn journal() -> Result<Option<Journal>, Error> {
    let path = journal_file()?;
    let broken = |why: &str| {
        Error::failed(format!("the journal of the setup cannot be read: `{}`", path.display()))
            .because(why)
            .hint("the files as they were are in the folder `before` beside it")
    };
    let Some(text) = read(&path).map_err(|why| broken(&why))? else { return Ok(None) };
    let journal: Journal = serde_json::from_str(&text).map_err(|e| broken(&e.to_string()))?;
    if journal.version == VERSION {
        Ok(Some(journal))
    } else {
        Err(broken(&format!("it has version {}, not {VERSION}", journal.version)))
    }
}

/// Writes the journal in one step.
pub(super) fn write(journal: &Journal) -> Result<(), Error> {
    let path = journal_file()?;
    let text = serde_json::to_string_pretty(journal).map_err(Error::internal)?;
    private(&path, &text)
}

/// Puts the journal of what has been undone aside, with the copies, in place of the one before.
pub(super) fn retire() -> Result<(), Error> {
    let folder = folder()?;
    let undone = folder.join("undone");
    // There may be none, and the next ones are still the latest.
    let _ = fs::remove_dir_all(&undone);
    let _ = fs::rename(folder.join("before"), &undone);
    fs::rename(journal_file()?, folder.join("undone.json")).map_err(Error::internal)
}

/// Keeps a copy of a file as it was; the first one that there is stays.
pub(super) fn back_up(file: &Path, text: &str) -> Result<(), Error> {
    let path = copy_of(file)?;
    if path.exists() { Ok(()) } else { private(&path, text) }
}

/// Where the copy of a file as it was is kept.
pub(super) fn copy_of(file: &Path) -> Result<PathBuf, Error> {
    let name: String = file.display().to_string();
    let name = name.trim_start_matches(['/', '\\']).replace(['/', '\\', ':'], "%");
    Ok(folder()?.join("before").join(name))
}

/// Writes a file that nobody but its owner can read, in one step.
fn private(path: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        make_private_folder(folder).map_err(|error| {
            Error::failed(format!("cannot make the folder `{}`", folder.display()))
                .because(&error.to_string())
        })?;
    }
    replace::file(&location(path), text, &[])
}

/// A file of ours or of a client, to be written.
pub(super) fn location(path: &Path) -> Location {
    Location { shown: path.to_owned(), path: path.to_owned(), chosen_by: ChosenBy::Default }
}

/// Writes a file in one step, with the permissions that it has, unless it is another than was read.
pub(super) fn put(path: &Path, before: Option<&str>, text: &str) -> Result<(), String> {
    check(path, before)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let models: &[&Path] = if before.is_some() { &[path] } else { &[] };
    replace::file(&location(path), text, models).map_err(Error::cause)
}

/// Like [`put`], for nobody but its owner to read from now on.
pub(super) fn put_private(path: &Path, before: Option<&str>, text: &str) -> Result<(), String> {
    check(path, before)?;
    private(path, text).map_err(Error::cause)
}

/// Like [`put`], for a file with something secret in it: nobody but its owner can read it from now on.
pub(super) fn put_secret(path: &Path, before: Option<&str>, text: &str) -> Result<(), String> {
    check(path, before)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    replace::file(&location(path), text, &[]).map_err(Error::cause)
}

fn check(path: &Path, before: Option<&str>) -> Result<(), String> {
    if read(path)?.as_deref() == before {
        Ok(())
    } else {
        Err("somebody else has changed it meanwhile".to_owned())
    }
}
