//! The `mcp-workbench` executable; the program itself is in the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    mcp_workbench::cli::run()
}
