//! Files that commands read and write.

pub(crate) mod atomic_write;
pub(crate) mod config_edit;
pub(crate) mod pasted;
pub(crate) mod project_files;
pub(crate) mod secret_variables;
pub(crate) mod source_files;
