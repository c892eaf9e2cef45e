//! Tools that write configurations, for their authors: nothing of them runs while agents are served.
//!
//! `import` carries over the servers of other clients, which keep them in `client_files`; `tailor`
//! makes the configuration for one task out of a full one; `edit` adds a server to a file or takes one
//! out; `catalog_files` are the files of a catalog folder; `setup` puts the workbench into clients' files
//! and takes it out again; `service` is the one workbench that they can share.

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
