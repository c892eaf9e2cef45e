//! The path of the program under test.

use std::env;
use std::ffi::OsString;

/// Returns `MEASURED_PROGRAM`, such as the release binary `target/pgo/mcp-workbench`, or else the
/// program that cargo built with the benchmark.
pub(crate) fn program() -> OsString {
    env::var_os("MEASURED_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_mcp-workbench").into())
}
