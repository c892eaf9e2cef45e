//! Programs that are started to outlive us: a workbench that several clients are to share.

use std::process::Stdio;

use crate::backend::StartFailure;
use crate::backend::guard::MARK;
use crate::backend::launch::printed::Printing;
use crate::backend::launch::spawn_failure;
use crate::os::{keep_file_limit, lead_group};

/// Starts a command that goes on when we end, without streams, and returns its process.
///
/// # Errors
///
/// When it cannot be started.
pub fn detach(command: &Printing<'_>) -> Result<u32, StartFailure> {
    let program = command.words.first().map_or("", String::as_str);
    #[expect(clippy::disallowed_methods, reason = "a launcher of ourselves")]
    let mut builder = std::process::Command::new(program);
    builder
        .args(command.words.get(1..).unwrap_or_default())
        .env_clear()
        // What a workbench has started that has started us is not to end with that.
        .envs(command.environment.iter().filter(|(name, _)| name != MARK).map(|(n, v)| (n, v)))
        .current_dir(command.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    lead_group(&mut builder);
    keep_file_limit(&mut builder);
    let mut child = builder.spawn().map_err(|error| spawn_failure(program, &error))?;
    let process = child.id();
    // Where it ends before us, somebody has to take note.
    let waiting = std::thread::Builder::new().name("service".to_owned());
    let _ = waiting.spawn(move || child.wait());
    Ok(process)
}
