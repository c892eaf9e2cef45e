//! The command line: global options, help, completion and suggestions.

pub(crate) mod completion;
pub(crate) mod duration;
pub(crate) mod global;
pub(crate) mod help;
pub(crate) mod suggestions;
