//! Names of what there is, for everybody above.

pub mod name;
