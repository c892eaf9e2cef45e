//! Serves the gateway to agents: modes, sessions, the admin API, and the stdio frontend.

pub mod admin;
pub mod exposure;
pub mod frontend;
pub mod navigator;
