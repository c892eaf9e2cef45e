//! The executable: hands its arguments to the library and leaves with its answer.

use std::process::ExitCode;

use mcp_workbench_os::os::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    mcp_workbench::cli::run()
}
