//! Core of the gateway: server backends, their catalogs, access policy and the `Gateway` type.

pub mod backend;
pub mod catalog;
pub mod gateway;
pub mod llm;
pub mod policy;
pub mod state;
pub mod telemetry;
pub mod toolbox;
