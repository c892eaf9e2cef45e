//! Programs that outlive this process: a workbench that several clients share.

use std::process::Stdio;

use crate::backend::StartError;
use crate::backend::launch::capture::CaptureCommand;
use crate::backend::launch::spawn_failure;
use crate::backend::watchdog::LAUNCH_ID_VAR;
use mcp_workbench_os::{lead_group, restore_file_limit};

/// Starts a command that outlives this process, with null streams, and returns its process ID.
///
/// # Errors
///
/// Returns an error if the command can't be started.
pub fn detach(command: &CaptureCommand<'_>) -> Result<u32, StartError> {
    let program = command.words.first().map_or("", String::as_str);
    #[expect(clippy::disallowed_methods, reason = "starts another process of this program")]
    let mut builder = std::process::Command::new(program);
    builder
        .args(command.words.get(1..).unwrap_or_default())
        .env_clear()
        // Without the launch ID of another workbench that started this process, whose cleanup would
        // kill the command.
        .envs(
            command
                .environment
                .iter()
                .filter(|(name, _)| name != LAUNCH_ID_VAR)
                .map(|(n, v)| (n, v)),
        )
        .current_dir(command.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    lead_group(&mut builder);
    restore_file_limit(&mut builder);
    let mut child = builder.spawn().map_err(|error| spawn_failure(program, &error))?;
    let process = child.id();
    // Reap the child if it exits first.
    let waiting = std::thread::Builder::new().name("service".to_owned());
    let _ = waiting.spawn(move || child.wait());
    Ok(process)
}
