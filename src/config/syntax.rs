//! How a file is read, whatever its keys are: a located tree of its text, values taken out of that
//! one by one, variables expanded, and what is wrong noted with its place.

pub(crate) mod bounds;
pub(crate) mod document;
pub(crate) mod entries;
pub(crate) mod expand;
pub(crate) mod finding;
pub(crate) mod lookup;
pub(crate) mod places;
pub(crate) mod reader;
