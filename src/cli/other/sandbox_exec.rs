//! `mcp-workbench cell`: applies a sandbox to this process and executes a server in it. Started
//! only by the launcher.

use std::ffi::OsString;

use crate::cli::output::CommandError;
use mcp_workbench_core::backend::launch::sandbox;
use mcp_workbench_os::{PinnedPath, SandboxRules};

/// Arguments of `cell`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File or folder to allow reading and executing, with its device and inode (repeatable)
    #[arg(long, num_args = 2, value_names = ["PATH", "IDENTITY"])]
    read: Vec<OsString>,
    /// File or folder to allow writing, too (repeatable)
    #[arg(long, num_args = 2, value_names = ["PATH", "IDENTITY"])]
    write: Vec<OsString>,
    /// Environment variable to set for the program only (repeatable)
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true)]
    variable: Vec<OsString>,
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
    let Args { read, write, variable, network, unix_sockets, program, for_program } = args;
    let (Some(read), Some(write)) = (pinned(&read), pinned(&write)) else {
        return CommandError::usage("invalid device or inode");
    };
    let cell = SandboxRules { read, write, has_network: network, has_unix_sockets: unix_sockets };
    let (variables, _) = variable.as_chunks();
    let variables = variables.iter().map(|[name, value]| (&**name, &**value));
    CommandError::usage(sandbox::confine_and_exec(&cell, variables, &program, &for_program))
}

fn pinned(values: &[OsString]) -> Option<Vec<PinnedPath>> {
    let (pairs, _) = values.as_chunks();
    let pinned = pairs
        .iter()
        .map(|[path, identity]| PinnedPath::from_parts(path.into(), identity.to_str()?));
    pinned.collect()
}
