//! Repairs malformed entries of a server's lists. Strict clients reject a whole list, and with it
//! all other servers, for one member of the wrong type.
//!
//! The expected shapes are those that the official SDKs check. A malformed optional member is
//! removed; an entry with a malformed required member is an error. The rest of an entry, and every
//! valid entry, keeps its bytes.

mod notes;
mod output_schema;
mod shape;

use crate::catalog::repair::shape::Place;
use mcp_workbench_wire::json::{EditError, RawJson};

pub(super) use crate::catalog::repair::notes::{RepairNotes, is_absent};
pub(super) use crate::catalog::repair::output_schema::without_broken_output_schema;
pub(super) use crate::catalog::repair::shape::{PROMPT, RESOURCE, Shape, TEMPLATE, TOOL};

/// JSON parsers of clients reject a message with more than 200 levels, the list's included.
const MAX_DEPTH: usize = 150;

/// Returns a valid form of an entry with this identifying member, or why there is none. `complete`
/// adds missing members.
pub(super) fn repair(
    entry: &RawJson,
    key: &str,
    shape: &Shape,
    complete: fn(RawJson, &mut RepairNotes) -> Result<RawJson, String>,
    notes: &mut RepairNotes,
) -> Result<RawJson, String> {
    if !entry.has_readable_names() {
        return Err(EditError::UnreadableName.to_string());
    }
    if is_deeper_than(entry.as_bytes(), MAX_DEPTH) {
        return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
    }
    let mut repaired = entry.clone();
    if let Some(paired) = entry.without_unpaired_surrogates() {
        // A changed name would not be the server's.
        if entry.member(key).is_some_and(|key| key.without_unpaired_surrogates().is_some()) {
            return Err(format!("`{key}` is not valid Unicode"));
        }
        notes.push("replaced unpaired surrogates".to_owned());
        repaired = paired;
    }
    repaired = complete(repaired, notes)?;
    let fitted = shape.fit(&repaired, &Place::ROOT, notes);
    let fitted =
        fitted.map_err(|why| if why.starts_with("is ") { format!("it {why}") } else { why });
    Ok(fitted?.unwrap_or(repaired))
}

fn is_deeper_than(json: &[u8], most: usize) -> bool {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
