//! Bytes and messages, for everybody above: raw JSON text, and JSON-RPC over pipes and HTTP.

pub mod raw;
pub mod wire;
