//! The command line: global options, help, completion and suggestions.

pub(crate) mod completion;
pub(crate) mod duration;
pub(crate) mod global;
pub(crate) mod help;
pub(crate) mod suggestions;

pub(crate) use global::{GlobalArgs, print_warnings, warn_of_misspelled_agent, with_run_context};
