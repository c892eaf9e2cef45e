//! The executable: hands its arguments to the library and leaves with its answer.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_workbench::cli::run()
}
