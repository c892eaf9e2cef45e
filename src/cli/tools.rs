//! `list`, `search`, `call`, `task` and `skill`.

pub(crate) mod call;
pub(crate) mod list;
pub(crate) mod search;
pub(crate) mod skill;
pub(crate) mod task;
