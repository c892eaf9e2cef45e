//! Section-independent parsing: a document tree with source locations, typed reading, variable
//! expansion, and findings.

pub(crate) mod checks;
pub mod document;
pub mod finding;
pub(crate) mod lookup;
pub mod objects;
pub(crate) mod paths;
pub mod reader;
pub mod section;
pub mod variables;
