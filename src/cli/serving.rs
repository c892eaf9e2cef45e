//! `serve`, `expose`, `connect` and `reload`.

pub(crate) mod admin_config;
pub(crate) mod connect;
pub(crate) mod expose;
pub(crate) mod reload;
pub(crate) mod serve;
