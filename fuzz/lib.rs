//! The modules under test, taken as they are out of `src/`: they are private there, and building the
//! whole program with a sanitizer takes minutes.

#[path = "../src"]
mod sources {
    pub mod raw;
}
pub use sources::raw;

#[path = "../src/raw/fuzzing.rs"]
mod raw_fuzzing;

/// What the targets need of `src/wire/`.
#[path = "../src/wire"]
pub mod wire {
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
