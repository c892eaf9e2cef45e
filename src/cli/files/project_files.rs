//! Finds the project file of a folder, and keeps records of the project files that the user trusts.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::files::atomic_write;
use crate::cli::output::{CommandError, print};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::{
    ConfigLocation, ConfigOrigin, InputProblem, LoadError, LoadedConfig, ProjectFile,
};
use mcp_workbench_names::PROGRAM;
use mcp_workbench_os::{make_private_folder, read_input, read_own};

/// The name of a project file.
pub(crate) const PROJECT_FILE: &str = ".mcp-workbench.json";

/// Maximum size of a project file.
const MAX_PROJECT_BYTES: u64 = 1024 * 1024;
/// Maximum size of a record: JSON can escape each byte as six.
const MAX_RECORD_BYTES: u64 = 7 * MAX_PROJECT_BYTES;

/// The project files at or above a folder.
#[derive(Clone, Debug)]
pub(crate) struct ProjectFiles {
    /// The folders whose file could apply, nearest first.
    candidates: Vec<PathBuf>,
    /// All folders that contain the folder, the root first.
    ancestors: Vec<PathBuf>,
    records: Option<TrustRecords>,
}

impl ProjectFiles {
    pub(crate) fn around(folder: &Path, env: &dyn EnvSource) -> Self {
        let folder = canonical(folder);
        let home = env.home_dir().map(|home| canonical(&home));
        let mut ancestors: Vec<PathBuf> = folder.ancestors().map(Path::to_owned).collect();
        ancestors.reverse();
        Self {
            candidates: project_folders(&folder, home.as_deref()),
            ancestors,
            records: TrustRecords::of_user(env),
        }
    }

    /// Returns the paths whose creation or change could change the project.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        self.candidates.iter().map(|folder| folder.join(PROJECT_FILE)).collect()
    }

    /// Returns the path and text of the file that applies: the nearest one.
    pub(crate) fn current(&self) -> Result<Option<(PathBuf, String)>, LoadError> {
        for path in self.candidates() {
            if let Some(text) = read_project_file(&path)? {
                return Ok(Some((path, text)));
            }
        }
        Ok(None)
    }

    /// Reads the file that applies, and those that the user trusted.
    pub(crate) fn read(&self) -> Result<Vec<ProjectFile>, LoadError> {
        let mut current = self.current()?;
        let mut files = Vec::new();
        let mut nearest = None;
        for folder in &self.ancestors {
            let path = folder.join(PROJECT_FILE);
            let text = current.take_if(|(current, _)| *current == path).map(|(_, text)| text);
            let trusted = match &self.records {
                Some(records) => records.read(&path)?.map(|record| record.text),
                None => None,
            };
            if text.is_none() && trusted.is_none() {
                continue;
            }
            let is_gone = text.is_none()
                && self.candidates.contains(folder)
                && path.symlink_metadata().is_err();
            let is_current = text.is_some();
            let file = ProjectFile { path, text, trusted, is_gone };
            if is_current { nearest = Some(file) } else { files.push(file) }
        }
        files.extend(nearest);
        Ok(files)
    }

    /// Reads the project file at `path`. `None` if it doesn't exist.
    pub(crate) fn read_one(path: &Path) -> Result<Option<String>, LoadError> {
        read_project_file(path)
    }

    /// Lays the files over a configuration.
    pub(crate) fn lay_over(&self, mut loaded: LoadedConfig) -> Result<LoadedConfig, LoadError> {
        loaded.lay_over(&self.read()?, &ProcessEnv).map_err(LoadError::Invalid)?;
        Ok(loaded)
    }
}

fn canonical(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Returns the folders whose project file could apply to `folder`, nearest first: up to the root of
/// the repository, or only the folder itself outside of one. The home folder and `/` belong to no
/// project.
fn project_folders(folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let is_project = |folder: &&Path| Some(*folder) != home && folder.parent().is_some();
    let inside: Vec<&Path> = folder.ancestors().take_while(is_project).collect();
    let root = inside.iter().position(|folder| folder.join(".git").exists());
    let count = root.map_or(1, |root| root + 1);
    inside.into_iter().take(count).map(Path::to_owned).collect()
}

/// Reads a project file. `None` if it doesn't exist; a broken link is an error.
fn read_project_file(path: &Path) -> Result<Option<String>, LoadError> {
    let bytes = match read_input(path, MAX_PROJECT_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(path, error.to_string(), None)),
    };
    let invalid = |_| {
        let reason = "it is not valid UTF-8".to_owned();
        unreadable(path, reason, Some("save the file as UTF-8"))
    };
    String::from_utf8(bytes).map(Some).map_err(invalid)
}

fn unreadable(path: &Path, reason: String, hint: Option<&'static str>) -> LoadError {
    LoadError::Unreadable { location: location(path), problem: InputProblem { reason, hint } }
}

fn location(path: &Path) -> ConfigLocation {
    ConfigLocation {
        display_path: path.to_owned(),
        path: path.to_owned(),
        chosen_by: ConfigOrigin::Default,
    }
}

/// The project files that the user trusts, one record each in the state folder.
#[derive(Clone, Debug)]
pub(crate) struct TrustRecords(PathBuf);

/// A project file as the user trusted it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TrustRecord {
    /// The canonical path.
    pub(crate) path: String,
    /// SHA-256 of the text.
    pub(crate) digest: String,
    /// The whole text. Its rules apply even if the file changes.
    pub(crate) text: String,
}

impl TrustRecord {
    pub(crate) fn new(path: &Path, text: String) -> Self {
        Self { path: path.to_string_lossy().into_owned(), digest: digest(text.as_bytes()), text }
    }

    fn is_intact(&self, path: &Path) -> bool {
        *self.path == path.to_string_lossy() && self.digest == digest(self.text.as_bytes())
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl TrustRecords {
    /// Returns `None` if the state folder is unknown: nothing can be trusted then.
    pub(crate) fn of_user(env: &dyn EnvSource) -> Option<Self> {
        Some(Self(env.state_dir()?.join(PROGRAM).join("projects")))
    }

    fn file(&self, path: &Path) -> PathBuf {
        let name = hex::encode(Sha256::digest(path.as_os_str().as_encoded_bytes()));
        self.0.join(format!("{name}.json"))
    }

    /// Returns the record of the project file at `path`.
    ///
    /// # Errors
    ///
    /// Returns an error if the record is damaged: its rules would be lost.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<TrustRecord>, LoadError> {
        let file = self.file(path);
        let damaged = |reason: String| {
            unreadable(&file, reason, Some("delete it, and run `mcp-workbench trust` again"))
        };
        let bytes = match read_own(&file, MAX_RECORD_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(damaged(error.to_string())),
        };
        let record: TrustRecord =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if record.is_intact(path) {
            Ok(Some(record))
        } else {
            Err(damaged("the record of a trusted project is damaged".to_owned()))
        }
    }

    pub(crate) fn write(&self, path: &Path, record: &TrustRecord) -> Result<(), CommandError> {
        make_private_folder(&self.0).map_err(|error| {
            CommandError::failed(format!("cannot create the folder `{}`", self.0.display()))
                .because(&error)
        })?;
        let text = print::pretty_json(record)?;
        atomic_write::write_atomically(&location(&self.file(path)), &text, &[])
    }

    /// Removes the record of the project file at `path`. Returns `false` if there is none.
    pub(crate) fn remove(&self, path: &Path) -> Result<bool, CommandError> {
        let file = self.file(path);
        match fs::remove_file(&file) {
            Ok(()) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => {
                let message = format!("cannot remove `{}`", file.display());
                Err(CommandError::failed(message).because(&error))
            }
        }
    }

    /// Returns all intact records, sorted by path.
    pub(crate) fn all(&self) -> Result<Vec<TrustRecord>, CommandError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => {
                let message = format!("cannot read `{}`", self.0.display());
                return Err(CommandError::failed(message).because(&error));
            }
        };
        let files = entries.filter_map(Result::ok).map(|entry| entry.path());
        let files = files.filter(|file| file.extension() == Some(OsStr::new("json")));
        let records = files.filter_map(|file| {
            let bytes = read_own(&file, MAX_RECORD_BYTES).ok()?;
            let record: TrustRecord = serde_json::from_slice(&bytes).ok()?;
            let path = PathBuf::from(&record.path);
            (record.is_intact(&path) && self.file(&path) == file).then_some(record)
        });
        let mut records: Vec<TrustRecord> = records.collect();
        records.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(records)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn names(folders: &[PathBuf], root: &Path) -> Vec<String> {
        let inside = folders.iter().map(|folder| folder.strip_prefix(root).unwrap());
        inside.map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn project_files_are_searched_up_to_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = &canonical(folder.path());
        fs::create_dir_all(root.join("home/repo/.git")).unwrap();
        fs::create_dir_all(root.join("home/repo/a/b")).unwrap();
        let home = root.join("home");
        let found = |at: &str| names(&project_folders(&root.join(at), Some(&home)), root);
        assert_eq!(found("home/repo/a/b"), ["home/repo/a/b", "home/repo/a", "home/repo"]);
        assert_eq!(found("home/repo"), ["home/repo"]);
        assert_eq!(found("home/loose/a"), ["home/loose/a"], "no repository");
        assert_eq!(found("home"), [""; 0]);
        assert!(project_folders(Path::new("/"), None).is_empty());
        // The home folder of a dotfiles repository isn't a project either.
        fs::create_dir_all(home.join(".git")).unwrap();
        assert_eq!(found("home/loose/a"), ["home/loose/a"]);
    }

    #[test]
    fn record_belongs_to_one_path_and_text() {
        let folder = tempfile::tempdir().unwrap();
        let records = TrustRecords(folder.path().join("projects"));
        let (path, other) = (Path::new("/p/.mcp-workbench.json"), Path::new("/q/x.json"));
        assert!(records.read(path).unwrap().is_none() && records.all().unwrap().is_empty());
        records.write(path, &TrustRecord::new(path, "{}".to_owned())).unwrap();
        assert_eq!(records.read(path).unwrap().unwrap().text, "{}");
        assert!(records.read(other).unwrap().is_none());
        assert_eq!(records.all().unwrap().len(), 1);
        // A record can't be moved to another project, and its text can't be changed.
        fs::copy(records.file(path), records.file(other)).unwrap();
        assert!(records.read(other).is_err());
        let text = fs::read_to_string(records.file(path)).unwrap().replace("{}", "{ }");
        fs::write(records.file(path), text).unwrap();
        assert!(records.read(path).is_err());
        assert!(records.all().unwrap().is_empty());
        assert!(records.remove(path).unwrap() && !records.remove(path).unwrap());
    }
}
