//! Fuzzes the properties that `check` in `crates/wire/src/json/fuzzing.rs` asserts.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mcp_workbench_fuzz::check_json(input));
