//! Where the folders and files of a catalog are: the disk, or texts in a test.

/// Where folders and files are; paths start at the folder of the catalog and have `/` in them.
pub(crate) trait Shelf {
    /// Lists a folder, but for what is hidden.
    fn list(&self, folder: &str) -> Result<Vec<Item>, String>;

    /// The text of a file; `None` if there is none.
    fn read(&self, file: &str) -> Result<Option<String>, String>;
}

/// One thing in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// The kind of a thing in a folder.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Folder,
    File,
    /// Something that cannot be used, and why.
    Unusable(String),
}

/// The most bytes of one file.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
