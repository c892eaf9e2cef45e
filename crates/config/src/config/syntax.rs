//! How a file is read, whatever its keys are: a located tree of its text, values taken out of that
//! one by one, variables expanded, and what is wrong noted with its place.

pub(crate) mod checks;
pub mod document;
pub mod entries;
pub mod expand;
pub mod finding;
pub(crate) mod lookup;
pub(crate) mod places;
pub mod reader;
pub mod section;
