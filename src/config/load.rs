//! A whole configuration: the file or folder it stands in, whose it is, and what it comes to.

pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod dialect;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod foreign_file;
pub(crate) mod loaded;
pub(crate) mod shelf;
pub(crate) mod toolman;
pub(crate) mod toolman_server;
