//! Finds, checks and writes the configuration file for `add` and `remove`.

use std::io;
use std::path::{Path, PathBuf};

use crate::authoring::edit::EditError;
use crate::cli::args::GlobalArgs;
use crate::cli::files::atomic_write;
use crate::cli::output::{CommandError, did_you_mean, print, redact_config, unified_diff};
use crate::cli::runtime::current_folder;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_config::{ConfigLocation, LoadError};
use mcp_workbench_os::{MAX_INPUT_BYTES, read_input};

pub(crate) struct EditTarget {
    pub(crate) location: ConfigLocation,
    /// `None` if the file doesn't exist.
    pub(crate) text: Option<String>,
}

impl EditTarget {
    /// Finds and reads the active configuration, or the user's own.
    pub(crate) fn find(global: &GlobalArgs, is_user: bool) -> Result<Self, CommandError> {
        let folder = current_folder()?;
        let location = if is_user {
            mcp_workbench_config::user_file(&ProcessEnv).ok_or_else(|| {
                CommandError::usage("cannot locate the user configuration: HOME is not set")
            })?
        } else {
            mcp_workbench_config::discover(global.config.clone(), &ProcessEnv, &folder)
        };
        if location.path.is_dir() {
            let shown = location.display_path.display();
            let message = format!("`{shown}` is a catalog folder, which this command cannot edit");
            return Err(CommandError::usage(message).with_hint("edit its files by hand"));
        }
        let text = match read_input(&location.path, MAX_INPUT_BYTES) {
            Ok(bytes) => {
                Some(String::from_utf8(bytes).map_err(|error| unreadable(&location, &error))?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&location, &error)),
        };
        Ok(Self { location, text })
    }

    /// Rejects an edit that would break a valid configuration. A file that was already invalid can
    /// still be edited.
    pub(crate) fn check(&self, text: &str, before: &str) -> Result<(), CommandError> {
        let folder = self.location.path.parent().unwrap_or(Path::new("/"));
        let parse = |text| {
            mcp_workbench_config::parse(text, &self.location.display_path, folder, &ProcessEnv)
        };
        match parse(text) {
            Err(report) if parse(before).is_ok() || self.text.is_none() => Err(
                CommandError::failed("not changed: the result would not be a valid configuration")
                    .with_cause(&LoadError::Invalid(report).to_string()),
            ),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Writes the file atomically, unless it has changed since it was read.
    pub(crate) fn write(&self, text: &str) -> Result<(), CommandError> {
        let path: &Path = &self.location.path;
        let now = match read_input(path, MAX_INPUT_BYTES) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&self.location, &error)),
        };
        if now.as_deref() != self.text.as_ref().map(String::as_bytes) {
            let file = self.location.display_path.display();
            return Err(CommandError::failed(format!("`{file}` changed on disk in the meantime"))
                .with_hint("run the command again"));
        }
        let models: Vec<&Path> = self.text.iter().map(|_| path).collect();
        atomic_write::write_atomically(&self.location, text, &models)
    }

    pub(crate) fn unwritable(&self, error: &io::Error) -> CommandError {
        CommandError::failed(format!("cannot write `{}`", self.location.display_path.display()))
            .because(error)
    }
}

fn unreadable(location: &ConfigLocation, error: &impl std::error::Error) -> CommandError {
    CommandError::usage(format!("cannot read `{}`", location.display_path.display())).because(error)
}

pub(crate) fn edit_error(error: EditError, target: &EditTarget) -> CommandError {
    let file = target.location.display_path.display();
    match error {
        EditError::Syntax(report) => CommandError::invalid_config(report),
        EditError::NotEditable { ref file, ref owner } => {
            let shown = PathBuf::from(file);
            let shown = shown.file_name().unwrap_or_default().display();
            CommandError::usage(format!("`{shown}` is {owner}, which this command cannot edit"))
                .with_hint("edit it by hand, or convert it with `mcp-workbench import FILE`")
        }
        EditError::ServerExists { server, toolbox } => CommandError::usage(format!(
            "toolbox `{toolbox}` in `{file}` already has a server `{server}`"
        ))
        .with_hint(format!("choose another name, or run `mcp-workbench remove {server}` first")),
        EditError::ServerNotFound { ref wanted, ref nearest } => {
            let error = CommandError::usage(format!("no server `{wanted}` in `{file}`"));
            did_you_mean(nearest, ", ").into_iter().fold(error, CommandError::with_hint)
        }
        EditError::Ambiguous { .. } => {
            CommandError::usage(error.to_string()).with_hint("choose one with `--toolbox`")
        }
        EditError::StandaloneServer(ref name) => CommandError::usage(error.to_string())
            .with_hint(format!("choose a toolbox other than `{name}`, or omit `--toolbox`")),
        EditError::NotAnObject(_) | EditError::RoundTripFailed => {
            CommandError::usage(format!("cannot edit `{file}`: {error}"))
                .with_hint("edit it by hand")
        }
    }
}

/// Prints a change as a diff, without the secrets in it.
pub(crate) fn print_diff(file: &Path, before: &str, after: &str) -> Result<(), CommandError> {
    let name = file.display().to_string();
    let diff = unified_diff(before, after, [&name, &name]);
    print::text_unredacted(&redact_config(&[before, after], &diff))
}
