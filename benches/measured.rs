//! The program that is measured.

use std::env;
use std::ffi::OsString;

/// The program at `MEASURED_PROGRAM`, such as the one that is handed out (`target/pgo/mcp-workbench`), or the one
/// that was built with the benchmark.
pub(crate) fn program() -> OsString {
    env::var_os("MEASURED_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_mcp-workbench").into())
}
