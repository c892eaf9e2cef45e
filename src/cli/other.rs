//! `cache`, `man`, and the hidden command that starts a sandboxed server.

pub(crate) mod cache;
pub(crate) mod man;
pub(crate) mod sandbox_exec;
