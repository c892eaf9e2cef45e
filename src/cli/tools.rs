//! `list`, `search`, `call` and `task`.

pub(crate) mod call;
pub(crate) mod list;
pub(crate) mod search;
pub(crate) mod task;
