//! Reads the files to import: the named ones, or else the files of all installed clients.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::authoring::client_files::{FOLDER_ENDINGS, FileKind, FileScope, KnownFile, known_files};
use crate::authoring::import::{SourceFile, has_servers};
use crate::cli::files::pasted;
use crate::cli::files::source_files::{below_home, read_source};
use crate::cli::output::{CommandError, print};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_os::Platform;

#[derive(Debug, Default)]
pub(super) struct ImportSources {
    pub(super) sources: Vec<SourceFile>,
    /// The source files, whose permissions limit the permissions of the written configuration.
    pub(super) permission_sources: Vec<PathBuf>,
    /// Files found in the current folder that the user did not name. Their servers are not started
    /// before the user has seen them.
    pub(super) untrusted: HashSet<String>,
}

pub(super) fn read(named: &[PathBuf], folder: &Path) -> Result<ImportSources, CommandError> {
    if named.is_empty() {
        return known(folder);
    }
    let read = |file: &PathBuf| match file.to_str() {
        Some("-") => pasted::as_file(&pasted::read("-")?, None),
        _ => read_source(file, file),
    };
    let sources = named.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(ImportSources {
        sources,
        permission_sources: named.iter().filter(|file| *file != "-").cloned().collect(),
        untrusted: HashSet::new(),
    })
}

/// Reads the known client files that exist and define servers.
fn known(folder: &Path) -> Result<ImportSources, CommandError> {
    let mut files = ImportSources::default();
    let home = ProcessEnv.home_dir();
    for KnownFile { path, scope, kind, .. } in known_files(Platform::THIS, &ProcessEnv, folder) {
        for path in paths(path, kind) {
            let shown = match path.strip_prefix(folder) {
                Ok(inside) => inside.to_owned(),
                Err(_) => below_home(&path, home.as_deref()),
            };
            let source = match read_source(&shown, &path) {
                Ok(source) => source,
                Err(error) => {
                    print::note(&format!("warning: {error}"));
                    continue;
                }
            };
            if !has_servers(&source) {
                continue;
            }
            if scope == FileScope::Project {
                files.untrusted.insert(source.file.clone());
            }
            files.sources.push(source);
            files.permission_sources.push(path);
        }
    }
    if files.sources.is_empty() {
        let error = CommandError::usage("no installed client has MCP servers");
        return Err(error.with_hint("to import a specific file, run `mcp-workbench import FILE`"));
    }
    Ok(files)
}

fn paths(path: PathBuf, kind: FileKind) -> Vec<PathBuf> {
    match kind {
        FileKind::File => Some(path).filter(|path| path.is_file()).into_iter().collect(),
        FileKind::Folder => {
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
