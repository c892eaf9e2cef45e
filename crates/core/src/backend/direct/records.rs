//! Records of the answers of package managers, so that the next start need not ask them.
//!
//! They are in a folder of the user's cache. Losing them only means that the next start runs the
//! command as written.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use mcp_workbench_os::{OpenMode, check_private_dir, make_private_folder, open_own, read_own};

/// A package is refreshed at most once in this time.
const REFRESH_INTERVAL: Duration = Duration::from_hours(24);
const MAX_RECORD_BYTES: u64 = 16 * 1024;

/// The answer of a package manager for one command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectRecord {
    /// When the package manager last looked for a newer version, in seconds since 1970.
    pub(crate) checked: u64,
    /// For npm, the newest version; for uv, the folder of the environment.
    pub(crate) found: Option<String>,
}

impl DirectRecord {
    /// Returns `true` if it's time to look for a newer version.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let checked = UNIX_EPOCH + Duration::from_secs(self.checked.min(u32::MAX.into()));
        // A time in the future comes from a clock that was wrong.
        now.duration_since(checked).map_or(true, |age| age >= REFRESH_INTERVAL)
    }
}

/// Names the record of one command: a digest, as the command may contain secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordKey(String);

impl RecordKey {
    pub(crate) fn new(parts: &impl Serialize) -> Self {
        let text = serde_json::to_vec(parts).unwrap_or_default();
        Self(hex::encode(&Sha256::digest(text)[..16]))
    }
}

/// The folder of the records; `None` keeps none.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectRecords(Option<PathBuf>);

impl DirectRecords {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// Returns a record. An unreadable one counts as missing.
    pub(crate) fn load(&self, key: &RecordKey) -> Option<DirectRecord> {
        let folder = self.0.as_ref()?;
        check_private_dir(folder).ok()?;
        let text = read_own(&folder.join(&key.0).with_extension("json"), MAX_RECORD_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Locks a record for changes. Returns `None` if another process has locked it, or if the
    /// folder can't be written.
    pub(crate) fn lock(&self, key: &RecordKey) -> Option<RecordLock> {
        let folder = self.0.as_ref()?;
        make_private_folder(folder).ok()?;
        check_private_dir(folder).ok()?;
        let path = folder.join(&key.0);
        let file = open_own(&path.with_extension("lock"), OpenMode::Write).ok()?;
        file.try_lock().ok()?;
        Some(RecordLock { path, _file: file })
    }
}

/// The right to change one record.
pub(crate) struct RecordLock {
    /// Without extension.
    path: PathBuf,
    _file: File,
}

impl RecordLock {
    /// Replaces the record. A failure is logged: the next start runs the command as written.
    pub(crate) fn save(&self, found: Option<String>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = DirectRecord { checked: now.as_secs(), found };
        let write = || {
            let new = self.path.with_extension("new");
            let mut file = open_own(&new, OpenMode::Write)?;
            file.set_len(0)?;
            file.write_all(&serde_json::to_vec(&record)?)?;
            fs::rename(&new, self.path.with_extension("json"))
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "cannot record a cached package");
        }
    }
}
