//! The tools that were used according to the audit log, for requests of any viewer.
//!
//! Only one request at a time reads the log, and only its last part. The result is reused while the
//! files are unchanged, and otherwise for ten times as long as reading them took.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::admin::protocol::AdminError;
use mcp_workbench_core::telemetry::stats::{self, AuditSummary, StatsBuilder};
use mcp_workbench_names::ToolId;

/// Maximum number of bytes that are read. Older records are ignored.
const MAX_BYTES: u64 = 128 * 1024 * 1024;
/// A result is reused for this many times as long as reading took.
const REUSE: u32 = 10;

#[derive(Default)]
pub(crate) struct AuditUsage(Mutex<Option<Reading>>);

struct Reading {
    files: Vec<FileVersion>,
    until: Instant,
    used: Arc<UsedTools>,
}

#[derive(PartialEq, Eq)]
struct FileVersion {
    path: PathBuf,
    length: u64,
    changed: Option<SystemTime>,
}

/// The used tools, and the time of the oldest record that was read.
#[derive(Default)]
pub(crate) struct UsedTools {
    /// In milliseconds since the Unix epoch.
    pub(crate) since: u64,
    tools: HashSet<(String, String, String)>,
}

impl UsedTools {
    fn new(summary: &AuditSummary) -> Self {
        let tools = summary.used_tools();
        Self {
            since: stats::parse_unix_millis(&summary.from).unwrap_or_default(),
            tools: tools
                .map(|tool| (tool.toolbox.clone(), tool.server.clone(), tool.name.clone()))
                .collect(),
        }
    }

    pub(crate) fn contains(&self, tool: &ToolId) -> bool {
        let (toolbox, server) = (tool.toolbox.to_string(), tool.server.to_string());
        self.tools.contains(&(toolbox, server, tool.tool.clone()))
    }
}

impl AuditUsage {
    /// Returns the tools used according to this audit log.
    pub(crate) async fn used(&self, audit: PathBuf) -> Result<Arc<UsedTools>, AdminError> {
        let mut last = self.0.lock().await;
        let known = last.take();
        let reading = spawn_blocking(move || read(known, &audit, Instant::now(), read_files));
        let reading = reading.await.map_err(|error| AdminError::failed(error.to_string()))?;
        let reading = reading.map_err(|error| {
            AdminError::failed(format!("failed to read the audit log: {error}"))
        })?;
        Ok(Arc::clone(&last.insert(reading).used))
    }
}

fn read_files(files: &[PathBuf]) -> std::io::Result<UsedTools> {
    let read = StatsBuilder::read_last(files, None, MAX_BYTES)?;
    Ok(UsedTools::new(&read.finish()))
}

/// Returns `known` if it is still valid at `now`, or the result of `work` with the files.
fn read(
    known: Option<Reading>,
    audit: &Path,
    now: Instant,
    work: impl FnOnce(&[PathBuf]) -> std::io::Result<UsedTools>,
) -> std::io::Result<Reading> {
    let paths = stats::audit_files(audit);
    let files: Vec<_> = paths.iter().map(FileVersion::of).collect();
    if let Some(known) = known
        && (known.files == files || (now < known.until && known.is_of(audit)))
    {
        return Ok(known);
    }
    let began = Instant::now();
    let used = Arc::new(work(&paths)?);
    let pause: Duration = began.elapsed().saturating_mul(REUSE);
    Ok(Reading { files, until: now + pause, used })
}

impl Reading {
    fn is_of(&self, audit: &Path) -> bool {
        self.files.last().is_some_and(|file| file.path == audit)
    }
}

impl FileVersion {
    fn of(path: &PathBuf) -> Self {
        let found = fs::metadata(path).ok();
        Self {
            path: path.clone(),
            length: found.as_ref().map_or(0, fs::Metadata::len),
            changed: found.and_then(|found| found.modified().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use mcp_workbench_names::{ServerName, ToolboxName};

    fn line(tool: &str) -> String {
        format!(
            "{{\"time\":\"2026-01-02T03:04:05Z\",\"kind\":\"call\",\"toolbox\":\"dev\",\
             \"server\":\"git\",\"tool\":\"{tool}\",\"outcome\":\"ok\",\"decision\":\"allowed\"}}\n"
        )
    }

    fn tool(name: &str) -> ToolId {
        let (toolbox, server) = (ToolboxName::new("dev"), ServerName::new("git"));
        ToolId { toolbox, server, tool: name.to_owned() }
    }

    #[tokio::test]
    async fn calls_are_found_and_new_ones_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.jsonl");
        let usage = AuditUsage::default();
        assert!(!usage.used(audit.clone()).await.unwrap().contains(&tool("push")));
        fs::write(&audit, line("push")).unwrap();
        let used = usage.used(audit.clone()).await.unwrap();
        assert!(used.contains(&tool("push")) && !used.contains(&tool("pull")));
        assert_eq!(used.since, 1_767_323_045_000);
    }

    #[test]
    fn log_is_read_again_only_if_it_changed_and_not_too_often() {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.jsonl");
        fs::write(&audit, line("push")).unwrap();
        let now = Instant::now();
        let first = read(None, &audit, now, read_files).unwrap();
        let unread = |_: &[PathBuf]| panic!("must not be read");
        let far = now + Duration::from_hours(1);
        let known = read(Some(first), &audit, far, unread).unwrap();
        fs::write(&audit, line("push") + &line("pull")).unwrap();
        let known = read(Some(Reading { until: far, ..known }), &audit, now, unread).unwrap();
        assert!(!known.used.contains(&tool("pull")));
        let again = read(Some(known), &audit, far, read_files).unwrap();
        assert!(again.used.contains(&tool("pull")));
        // Another configured file is read at once.
        let other = folder.path().join("other.jsonl");
        fs::write(&other, line("fetch")).unwrap();
        let other = read(Some(Reading { until: far, ..again }), &other, now, read_files).unwrap();
        assert!(other.used.contains(&tool("fetch")));
    }
}
