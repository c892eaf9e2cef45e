//! Section-independent parsing: a document tree with source locations, typed reading, variable
//! expansion, and findings.

pub(crate) mod checks;
pub mod document;
pub mod finding;
pub(crate) mod key_case;
pub(crate) mod lookup;
pub mod objects;
pub(crate) mod paths;
pub mod reader;
pub(crate) mod renamed;
pub mod section;
pub mod variables;
