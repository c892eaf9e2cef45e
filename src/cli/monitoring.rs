//! `top`, `ps`, `logs`, `stats` and `dashboard`.

pub(crate) mod dashboard;
pub(crate) mod logs;
pub(crate) mod ps;
pub(crate) mod stats;
pub(crate) mod top;
pub(crate) mod unused_tools;
