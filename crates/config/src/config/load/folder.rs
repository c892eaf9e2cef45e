//! The folder of a catalog on the disk.
//!
//! Beside `file`, the one file of this module that touches the disk.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::config::load::shelf::{Item, Kind, MAX_BYTES, Shelf};

/// The most things in one folder that are looked at.
const MAX_ITEMS: usize = 20_001;

/// The folder of a catalog.
pub(crate) struct Disk {
    root: PathBuf,
}

impl Disk {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns `true` if there is a folder.
    pub(crate) fn is_there(&self) -> bool {
        self.root.is_dir()
    }
}

impl Shelf for Disk {
    fn list(&self, folder: &str) -> Result<Vec<Item>, String> {
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
                None => Kind::Unusable("ignored: its name is not UTF-8 text".to_owned()),
            };
            items.push(Item { name: shown.into_owned(), kind });
        }
        Ok(items)
    }

    fn read(&self, file: &str) -> Result<Option<String>, String> {
        let path = self.root.join(file);
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => return Err("it is no file".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(_) | Err(_) => {}
        }
        let mut bytes = Vec::new();
        let opened = fs::File::open(&path).map_err(|error| reason(&error))?;
        let most = MAX_BYTES as u64 + 1;
        opened.take(most).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
        if bytes.len() > MAX_BYTES {
            return Err("it has more than 4 MiB".to_owned());
        }
        String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".to_owned())
    }
}

/// The kind of thing that stands at `path`, which is in the folder `here`; links are followed.
fn kind(path: &Path, here: &Path) -> Kind {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) => return Kind::Unusable(format!("cannot be read: {}", reason(&error))),
    };
    if found.is_dir() {
        match path.canonicalize() {
            Ok(target) if here.starts_with(&target) => {
                Kind::Unusable("ignored: it leads back to a folder that it is in".to_owned())
            }
            Ok(_) => Kind::Folder,
            Err(error) => Kind::Unusable(format!("cannot be read: {}", reason(&error))),
        }
    } else if found.is_file() {
        Kind::File
    } else {
        Kind::Unusable("ignored: it is neither a file nor a folder".to_owned())
    }
}

/// An error in the words of the operating system, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
