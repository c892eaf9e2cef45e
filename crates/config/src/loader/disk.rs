//! Access to a catalog folder on disk. Only this module and `file` access the file system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::loader::catalog_fs::{CatalogFs, DirEntry, DirEntryKind, MAX_CATALOG_FILE_BYTES};
use mcp_workbench_os::read_input;

/// Maximum number of entries read from one folder: one more than the catalog's limit, to detect
/// excess.
const MAX_ITEMS: usize = 20_001;

pub(crate) struct DiskFs {
    root: PathBuf,
}

impl DiskFs {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.root.is_dir()
    }
}

impl CatalogFs for DiskFs {
    fn list(&self, folder: &str) -> Result<Vec<DirEntry>, String> {
        let path = self.root.join(folder);
        let here = path.canonicalize().map_err(|error| reason(&error))?;
        let mut items = Vec::new();
        for entry in fs::read_dir(&path).map_err(|error| reason(&error))?.take(MAX_ITEMS) {
            let entry = entry.map_err(|error| reason(&error))?;
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            if shown.starts_with('.') {
                continue;
            }
            let kind = match name.to_str() {
                Some(_) => kind(&entry.path(), &here),
                None => DirEntryKind::Unusable("ignored: its name is not valid UTF-8".to_owned()),
            };
            items.push(DirEntry { name: shown.into_owned(), kind });
        }
        Ok(items)
    }

    fn read(&self, file: &str) -> Result<Option<String>, String> {
        let bytes = match read_input(&self.root.join(file), MAX_CATALOG_FILE_BYTES as u64) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(reason(&error)),
        };
        String::from_utf8(bytes).map(Some).map_err(|_| "not valid UTF-8".to_owned())
    }
}

/// Returns the kind of the entry `path` of folder `here`. Follows symbolic links, but rejects those
/// to a parent folder, which would be walked forever.
fn kind(path: &Path, here: &Path) -> DirEntryKind {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) => return DirEntryKind::Unusable(format!("failed to read: {}", reason(&error))),
    };
    if found.is_dir() {
        match path.canonicalize() {
            Ok(target) if here.starts_with(&target) => {
                DirEntryKind::Unusable("ignored: a symbolic link to a parent folder".to_owned())
            }
            Ok(_) => DirEntryKind::Folder,
            Err(error) => DirEntryKind::Unusable(format!("failed to read: {}", reason(&error))),
        }
    } else if found.is_file() {
        DirEntryKind::File
    } else {
        DirEntryKind::Unusable("ignored: neither a file nor a folder".to_owned())
    }
}

/// The error message. Messages of the system lose their `(os error N)` and capital letters.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((message, _)) => message.to_lowercase(),
        None => text,
    }
}
