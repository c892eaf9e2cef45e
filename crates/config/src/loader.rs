//! Configuration loading: locating files, detecting their dialect, and validation.

pub mod catalog;
pub mod catalog_fs;
pub mod client_file;
pub mod dialect_detection;
pub(crate) mod disk;
pub(crate) mod file;
pub(crate) mod input_problem;
pub(crate) mod loaded_config;
pub(crate) mod lockfile;
pub(crate) mod project;
pub(crate) mod secrets_env;
pub mod toolman;
pub mod toolman_server;
pub(crate) mod validation;
