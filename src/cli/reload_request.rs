//! Asks running workbenches to apply a configuration that a command has just written.

use std::path::Path;

use crate::cli::units::format_count;
use crate::cli::{GlobalArgs, block_on};
use crate::telemetry::process_registry::{self, ProcessRecord};

/// Asks the workbenches that serve `file` to reload it, and returns a line about it. `None` if there
/// are none.
///
/// A workbench isn't asked if the file has other changes that wait for an explicit reload: an agent
/// may have made them.
pub(crate) fn reload_running(global: &GlobalArgs, file: &Path) -> Option<String> {
    let file = file.canonicalize().ok()?;
    let records = process_registry::read_processes(&global.resolve_cache_dir().ok()?).ok()?;
    let is_same = |config: &str| Path::new(config).canonicalize().is_ok_and(|path| path == file);
    let serving = records.into_iter().filter(|record| is_same(&record.config));
    let (waiting, ready): (Vec<_>, Vec<_>) = serving.partition(|record| record.has_pending_changes);
    let asked = block_on(async {
        let mut asked = 0;
        for record in &ready {
            let signal = record.process().await.and_then(|process| process.reload());
            asked += usize::from(signal.is_ok());
        }
        asked
    });
    outcome(asked.unwrap_or_default(), &ready, &waiting)
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
