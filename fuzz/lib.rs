//! The modules under test, included from `crates/wire/src/` by path: they are private there, and
//! building the crate's dependencies with a sanitizer takes minutes.

#[path = "../crates/wire/src"]
mod sources {
    pub mod code;
    pub mod envelope;
    pub(crate) mod fuzzing;
    pub mod json;
    pub mod line;
    pub mod memory_pool;
}
pub use sources::{code, envelope, json, line, memory_pool};

#[path = "../crates/wire/src/json/fuzzing.rs"]
mod json_fuzzing;

/// Feeds chunks of bytes through the line reader and the envelope parser.
pub fn check_wire(input: &[u8]) {
    sources::fuzzing::check(input);
}

/// Applies edits to raw JSON text.
pub fn check_json(input: &[u8]) {
    json_fuzzing::check(input);
}
