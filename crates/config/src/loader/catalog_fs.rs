//! The file access that catalogs need: the disk, or in-memory files in tests.

/// A read-only tree of files. Paths are relative to the catalog folder and use `/`.
pub(crate) trait CatalogFs {
    /// Lists a folder without hidden entries.
    fn list(&self, folder: &str) -> Result<Vec<DirEntry>, String>;

    /// Returns the text of a file, or `None` if it doesn't exist.
    fn read(&self, file: &str) -> Result<Option<String>, String>;
}

#[derive(Clone, Debug)]
pub(crate) struct DirEntry {
    pub(crate) name: String,
    pub(crate) kind: DirEntryKind,
}

#[derive(Clone, Debug)]
pub(crate) enum DirEntryKind {
    Folder,
    File,
    /// An entry that can't be used, with the reason.
    Unusable(String),
}

/// Maximum size of a file in a catalog.
pub const MAX_CATALOG_FILE_BYTES: usize = 4 * 1024 * 1024;
