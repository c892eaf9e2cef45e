//! The `mcp-workbench` executable; the program itself is in the library.

use std::process::ExitCode;

use mcp_workbench_os::os::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    mcp_workbench::cli::run()
}
