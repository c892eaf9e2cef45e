//! What was repaired in an entry.

use mcp_workbench_wire::json::RawJson;

/// Maximum number of repairs that are described for one entry.
const MAX_NOTES: usize = 5;

/// The changes to an entry. They quote no text of the server.
#[derive(Debug, Default)]
pub struct RepairNotes(Vec<String>);

impl RepairNotes {
    pub(in crate::catalog) fn push(&mut self, note: String) {
        match self.0.len() {
            0..MAX_NOTES => self.0.push(note),
            MAX_NOTES => self.0.push("…".to_owned()),
            _ => {}
        }
    }

    /// Returns `None` if nothing was changed.
    pub(in crate::catalog) fn describe(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("; "))
    }
}

/// Returns `true` for an absent member and for `null`.
pub(in crate::catalog) fn is_absent(value: Option<&RawJson>) -> bool {
    value.is_none_or(|value| value.as_bytes() == b"null")
}
