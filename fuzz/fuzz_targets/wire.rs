//! Fuzzes the properties that `check` in `crates/wire/src/fuzzing.rs` asserts.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mcp_workbench_fuzz::check_wire(input));
