//! The modules under test, included from `crates/wire/src/` by path: they are private there, and
//! building the crate's dependencies with a sanitizer takes minutes.

#[path = "../crates/wire/src"]
mod sources {
    pub mod json;
}
pub use sources::json;

#[path = "../crates/wire/src/json/fuzzing.rs"]
mod json_fuzzing;

/// The parts of `crates/wire/src/` that the targets need.
#[path = "../crates/wire/src/wire"]
pub mod wire {
    pub mod code;
    pub mod envelope;
    pub(crate) mod fuzzing;
    pub mod line;
    pub mod memory_pool;
}

/// Feeds chunks of bytes through the line reader and the envelope parser.
pub fn check_wire(input: &[u8]) {
    wire::fuzzing::check(input);
}

/// Applies edits to raw JSON text.
pub fn check_json(input: &[u8]) {
    json_fuzzing::check(input);
}
