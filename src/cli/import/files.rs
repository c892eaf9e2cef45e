//! The files to import from: those that are named, or those that clients have here.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::authoring::client_files::{FOLDER_ENDINGS, Kind, KnownFile, Scope, known_files};
use crate::authoring::import::{Source, has_servers};
use crate::cli::error::Error;
use crate::cli::print;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::os::Platform;

/// Files that have servers in them.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) sources: Vec<Source>,
    /// Where they are, each of which a configuration may be as open as and no more.
    pub(super) models: Vec<PathBuf>,
    /// Files of the folder that we are in and that nobody has named: what they say is not run before
    /// somebody has seen it.
    pub(super) unasked: HashSet<String>,
}

/// Reads the files that are named; without any, those that clients have here.
pub(super) fn read(named: &[PathBuf], folder: &Path) -> Result<Files, Error> {
    if named.is_empty() {
        return known(folder);
    }
    let sources = named.iter().map(|file| source(file, file)).collect::<Result<Vec<_>, _>>()?;
    Ok(Files { sources, models: named.to_vec(), unasked: HashSet::new() })
}

/// Reads one file.
pub(super) fn source(shown: &Path, path: &Path) -> Result<Source, Error> {
    let text = fs::read_to_string(path).map_err(|error| {
        let error = Error::usage(format!("cannot read `{}`", shown.display()), &error);
        error.hint("correct the path; nothing was written")
    })?;
    Ok(Source { file: shown.display().to_string(), text })
}

/// Reads the files of all clients that are known, as far as they are there and have servers in them.
fn known(folder: &Path) -> Result<Files, Error> {
    let mut files = Files::default();
    let home = ProcessEnv.home();
    for KnownFile { path, scope, kind, .. } in known_files(Platform::THIS, &ProcessEnv, folder) {
        for path in paths(path, kind) {
            let shown = shown(&path, home.as_deref(), folder);
            let source = match source(&shown, &path) {
                Ok(source) => source,
                Err(error) => {
                    print::note(&format!("warning: {error}"));
                    continue;
                }
            };
            if !has_servers(&source) {
                continue;
            }
            if scope == Scope::Project {
                files.unasked.insert(source.file.clone());
            }
            files.sources.push(source);
            files.models.push(path);
        }
    }
    if files.sources.is_empty() {
        let error = Error::wrong("no client here has servers in a file that is known");
        return Err(error.hint("name the file: `mcp-workbench import FILE`"));
    }
    Ok(files)
}

/// The file, or the files in the folder, that are there.
fn paths(path: PathBuf, kind: Kind) -> Vec<PathBuf> {
    match kind {
        Kind::File => Some(path).filter(|path| path.is_file()).into_iter().collect(),
        Kind::Folder => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let is_wanted = |path: &PathBuf| {
                let ending = path.extension().and_then(|ending| ending.to_str());
                ending.is_some_and(|ending| FOLDER_ENDINGS.contains(&ending)) && path.is_file()
            };
            let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_wanted).collect();
            paths.sort();
            paths
        }
    }
}

/// A path as a person would write it.
fn shown(path: &Path, home: Option<&Path>, folder: &Path) -> PathBuf {
    if let Ok(rest) = path.strip_prefix(folder) {
        return rest.to_owned();
    }
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest),
        None => path.to_owned(),
    }
}
