//! Commands that write configuration files. None of this runs while agents are served.
//!
//! - `import` converts the servers of other clients, whose files are listed in `client_files`.
//! - `tailor` derives the configuration for one task from a full one.
//! - `edit` adds a server to a configuration or removes one.
//! - `catalog_files` renders the files of a catalog.
//! - `setup` puts the workbench into clients' files and takes it out again.
//! - `service` describes the background workbench that clients can share.

pub mod catalog_files;
pub mod client_files;
pub mod edit;
pub mod import;
pub mod references;
pub mod service;
pub mod setup;
pub mod tailor;
#[cfg(test)]
mod tests;
