//! The keys of our files, a file for each section: its shape, which makes the schema too, how it is
//! read, and how it is checked.

pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod category;
pub(crate) mod clients;
pub(crate) mod definitions;
pub mod environment;
pub(crate) mod filter;
pub mod foreign;
pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod llm;
pub(crate) mod macros;
pub(crate) mod misplaced;
pub(crate) mod navigator;
pub mod numbers;
pub mod oauth;
pub(crate) mod policy;
pub mod raw;
pub(crate) mod reference;
pub mod sandbox;
pub(crate) mod schema;
pub(crate) mod search;
pub mod server;
pub(crate) mod shared;
pub mod task_rules;
