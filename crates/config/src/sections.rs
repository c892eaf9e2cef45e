//! The sections of a native configuration file, one module each: the raw shape (which also
//! generates the JSON Schema), its parsing, and its validation.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod category;
pub mod client_keys;
pub(crate) mod clients;
pub(crate) mod drift_policy;
pub mod environment;
pub mod exchange;
pub(crate) mod filter;
pub(crate) mod http;
pub(crate) mod key_hints;
pub(crate) mod limits;
pub(crate) mod llm;
pub(crate) mod macros;
pub(crate) mod navigator;
pub mod oauth;
pub mod pasted_command;
pub(crate) mod policy;
pub(crate) mod project;
pub mod ranges;
pub mod root;
pub mod sandbox;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod secret_ref;
pub mod server;
pub(crate) mod shared_store;
pub mod task_rules;
