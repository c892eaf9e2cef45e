//! `mcp-workbench cell`: applies a sandbox to this process and executes a server in it. Started
//! only by the launcher.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::backend::launch::sandbox;
use crate::cli::error::CommandError;
use crate::os::SandboxRules;

/// Arguments of `cell`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File or folder to allow reading and executing (repeatable)
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// File or folder to allow writing, too (repeatable)
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Allow network access
    #[arg(long)]
    network: bool,
    /// Allow connecting to Unix sockets in the file system
    #[arg(long)]
    unix_sockets: bool,
    /// Program to execute
    #[arg(value_name = "PROGRAM")]
    program: OsString,
    /// Arguments of the program
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    for_program: Vec<OsString>,
}

/// Enters the sandbox and executes the program. Returns only on failure.
pub(crate) fn run(args: Args) -> CommandError {
    let Args { read, write, network, unix_sockets, program, for_program } = args;
    let cell = SandboxRules { read, write, has_network: network, has_unix_sockets: unix_sockets };
    CommandError::usage(sandbox::confine_and_exec(&cell, &program, &for_program))
}
