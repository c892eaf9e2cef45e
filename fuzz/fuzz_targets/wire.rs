//! Looks for bytes that break what `check` in `crates/wire/src/wire/fuzzing.rs` says.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mcp_workbench_fuzz::check_wire(input));
