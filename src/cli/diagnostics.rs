//! Remarks on configurations and definitions, for several commands.

pub(crate) mod config_remarks;
pub(crate) mod definition_remarks;
pub(crate) mod unmatched_rules;
pub(crate) mod unpinned_packages;
pub(crate) mod writable_config;
