//! The file that `add` and `remove` change: which one, how it is written, what is said of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use similar::TextDiff;

use crate::authoring::edit::EditError;
use crate::cli::error::Error;
use crate::cli::{Global, replace};
use crate::config::env::ProcessEnv;
use crate::config::{self, LoadError, Location};

/// How many lines stand around what changes.
const CONTEXT: usize = 3;

/// A file that is to be changed.
pub(crate) struct Target {
    pub(crate) location: Location,
    /// Its content; `None`: there is no such file.
    pub(crate) text: Option<String>,
}

impl Target {
    /// Finds the file that would be served, or the user's own, and reads it.
    pub(crate) fn find(global: &Global, is_user: bool) -> Result<Self, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let location = if is_user {
            config::user_file(&ProcessEnv)
                .ok_or_else(|| Error::wrong("nobody knows where the user's own file would be"))?
        } else {
            config::find(global.config.clone(), &ProcessEnv, &folder)
        };
        if location.path.is_dir() {
            let shown = location.shown.display();
            let message = format!("`{shown}` is a catalog folder, which is not changed here");
            return Err(Error::wrong(message).hint("add a folder for the server by hand"));
        }
        let text = match fs::read(&location.path) {
            Ok(bytes) => {
                Some(String::from_utf8(bytes).map_err(|error| unreadable(&location, &error))?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&location, &error)),
        };
        Ok(Self { location, text })
    }

    /// Finds out whether a text can be used as the configuration, if the one before could.
    pub(crate) fn check(&self, text: &str, before: &str) -> Result<(), Error> {
        let folder = self.location.path.parent().unwrap_or(Path::new("/"));
        let parse = |text| config::parse(text, &self.location.shown, folder, &ProcessEnv);
        match parse(text) {
            Err(report) if parse(before).is_ok() || self.text.is_none() => {
                Err(Error::failed("nothing was changed, for the configuration could not be used")
                    .because(&LoadError::Invalid(report).to_string()))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Writes the file in one step, unless somebody else has changed it meanwhile.
    pub(crate) fn write(&self, text: &str) -> Result<(), Error> {
        let path: &Path = &self.location.path;
        let now = match fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&self.location, &error)),
        };
        if now.as_deref() != self.text.as_ref().map(String::as_bytes) {
            let file = self.location.shown.display();
            return Err(Error::failed(format!("`{file}` was changed by somebody else meanwhile"))
                .hint("try again"));
        }
        let models: Vec<&Path> = self.text.iter().map(|_| path).collect();
        replace::file(&self.location, text, &models)
    }

    /// The error of a file that cannot be written.
    pub(crate) fn unwritable(&self, error: &io::Error) -> Error {
        Error::failed(format!("cannot write `{}`", self.location.shown.display()))
            .because(&error.to_string())
    }
}

fn unreadable(location: &Location, error: &impl std::error::Error) -> Error {
    Error::usage(format!("cannot read `{}`", location.shown.display()), error)
}

/// Says why a file was not changed, and what to do.
pub(crate) fn explain(error: EditError, target: &Target) -> Error {
    let file = target.location.shown.display();
    match error {
        EditError::Broken(report) => Error::config(LoadError::Invalid(report)),
        EditError::NotOurs { ref file, ref owner } => {
            let shown = PathBuf::from(file);
            let shown = shown.file_name().unwrap_or_default().display();
            Error::wrong(format!("`{shown}` is {owner}, which is not changed here"))
                .hint("edit it by hand, or `mcp-workbench import` makes a configuration of it")
        }
        EditError::AlreadyThere { ref server, .. } => Error::wrong(format!("{error}, in `{file}`"))
            .hint(format!("choose another name, or `mcp-workbench remove {server}` first")),
        EditError::NotThere { ref wanted, ref nearest } if nearest.is_empty() => {
            Error::wrong(format!("there is no server `{wanted}` in `{file}`"))
        }
        EditError::NotThere { ref wanted, ref nearest } => {
            let near: Vec<_> = nearest.iter().map(|name| format!("`{name}`")).collect();
            Error::wrong(format!("there is no server `{wanted}` in `{file}`"))
                .hint(format!("did you mean {}?", near.join(", ")))
        }
        EditError::Several { .. } => {
            Error::wrong(error.to_string()).hint("name one with `--toolbox`")
        }
        EditError::Alone(ref name) => Error::wrong(error.to_string())
            .hint(format!("choose another toolbox than `{name}`, or none")),
        EditError::NoObject(_) | EditError::Odd => {
            Error::wrong(format!("`{file}` cannot be changed: {error}")).hint("edit it by hand")
        }
    }
}

/// Returns the lines that differ between two texts.
pub(crate) fn difference(file: &Path, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let file = file.display().to_string();
    let text = diff.unified_diff().context_radius(CONTEXT).header(&file, &file).to_string();
    text.trim_end().to_owned()
}
