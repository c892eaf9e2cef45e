//! The modules under test, taken as they are out of `crates/wire/src/`: they are private there, and
//! building all that they use with a sanitizer takes minutes.

#[path = "../crates/wire/src"]
mod sources {
    pub mod raw;
}
pub use sources::raw;

#[path = "../crates/wire/src/raw/fuzzing.rs"]
mod raw_fuzzing;

/// What the targets need of `crates/wire/src/wire/`.
#[path = "../crates/wire/src/wire"]
pub mod wire {
    pub mod budget;
    pub mod code;
    pub mod envelope;
    pub(crate) mod fuzzing;
    pub mod line;
}

/// Bytes in pieces, through the line reader and the envelope.
pub fn check_wire(input: &[u8]) {
    wire::fuzzing::check(input);
}

/// Edits of raw JSON text.
pub fn check_raw(input: &[u8]) {
    raw_fuzzing::check(input);
}
