//! `add`, `remove`, `check`, `catalog` and `tailor`.

pub(crate) mod add;
pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod remove;
pub(crate) mod tailor;
