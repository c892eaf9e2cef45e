//! A whole configuration: the file or folder it stands in, whose it is, and what it comes to.

pub mod catalog;
pub(crate) mod check;
pub mod dialect;
pub(crate) mod file;
pub(crate) mod folder;
pub mod foreign_file;
pub(crate) mod loaded;
pub(crate) mod lock;
pub(crate) mod secrets;
pub mod shelf;
pub mod toolman;
pub mod toolman_server;
