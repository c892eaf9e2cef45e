//! `approvals`, `auth`, `token`, `policy`, `explain`, `trust` and `lock`, and the lock file.

pub(crate) mod access_diff;
pub(crate) mod approvals;
pub(crate) mod auth;
pub(crate) mod explain;
pub(crate) mod lock;
pub(crate) mod locking;
pub(crate) mod policy;
pub(crate) mod token;
pub(crate) mod trust;
