//! `serve`, `expose`, `connect` and `reload`.

pub(crate) mod admin_config;
pub(crate) mod connect;
mod desktop_notification;
pub(crate) mod expose;
pub(crate) mod otlp;
pub(crate) mod reload;
pub(crate) mod reload_source;
pub(crate) mod serve;
pub(crate) mod serve_loaded;
pub(crate) mod serving_args;
