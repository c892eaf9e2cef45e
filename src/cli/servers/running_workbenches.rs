//! The running workbenches of this user, and requests to reload their configuration.

use std::io;
use std::path::Path;

use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, format_count};
use crate::cli::runtime::block_on;
use mcp_workbench_core::telemetry::process_registry::{self, ProcessRecord};

pub(crate) fn running_workbenches(global: &GlobalArgs) -> Result<Vec<ProcessRecord>, CommandError> {
    process_registry::read_processes(&global.resolve_cache_dir()?)
        .map_err(|error| CommandError::failed("failed to list running workbenches").because(&error))
}

/// Returns the workbenches that serve `file`.
pub(crate) fn serving_workbenches(
    global: &GlobalArgs,
    file: &Path,
) -> Result<Vec<ProcessRecord>, CommandError> {
    let file = file.canonicalize().ok();
    let mut all = running_workbenches(global)?;
    all.retain(|record| {
        let served = record.file.as_deref().unwrap_or(Path::new(&record.config));
        file.is_some() && served.canonicalize().ok() == file
    });
    Ok(all)
}

/// Asks each workbench for an explicit reload.
pub(crate) fn request_reload(all: &[ProcessRecord]) -> Result<Vec<io::Result<()>>, CommandError> {
    block_on(async {
        let mut asked = Vec::new();
        for record in all {
            asked.push(record.process().await.and_then(|process| process.reload()));
        }
        asked
    })
}

/// Asks the workbenches that serve `file` to reload it, and returns a line about it. `None` if there
/// are none.
///
/// A workbench isn't asked if the file has other changes that wait for an explicit reload: an agent
/// may have made them.
pub(crate) fn reload_running(global: &GlobalArgs, file: &Path) -> Option<String> {
    let serving = serving_workbenches(global, file).ok()?.into_iter();
    let (waiting, ready): (Vec<_>, Vec<_>) = serving.partition(|record| record.has_pending_changes);
    let asked = request_reload(&ready).unwrap_or_default();
    let asked = asked.iter().filter(|asked| asked.is_ok()).count();
    outcome(asked, &ready, &waiting)
}

fn outcome(asked: usize, ready: &[ProcessRecord], waiting: &[ProcessRecord]) -> Option<String> {
    let mut lines = Vec::new();
    if asked > 0 {
        let verb = if asked == 1 { "reloads" } else { "reload" };
        lines.push(format!("{} {verb} it now", format_count(asked, "running workbench")));
    }
    let failed = ready.len() - asked;
    if failed > 0 {
        let workbenches = format_count(failed, "running workbench");
        lines.push(format!("warning: cannot signal {workbenches}: restart it to apply the change"));
    }
    if !waiting.is_empty() {
        lines.push(format!(
            "hint: the file has other changes that {} didn't apply yet; run `mcp-workbench reload` \
             to apply all of them",
            format_count(waiting.len(), "running workbench")
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_names_each_case() {
        let record = ProcessRecord::default;
        assert_eq!(outcome(0, &[], &[]), None);
        let said = outcome(1, &[record()], &[]);
        assert_eq!(said.as_deref(), Some("1 running workbench reloads it now"));
        let said = outcome(1, &[record(), record()], &[record()]).unwrap_or_default();
        assert!(said.contains("warning: cannot signal 1 running workbench"), "{said}");
        assert!(said.contains("hint: the file has other changes"), "{said}");
    }
}
