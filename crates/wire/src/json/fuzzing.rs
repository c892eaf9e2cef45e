//! Invariants of edits on raw JSON text. The fuzz target `json` (see `fuzz/`) searches for
//! violations, and a test replays its corpus.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{Member, RawJson, array, object};

/// Reads a JSON value, a key and a value for that key from the first three lines, and checks each
/// edit of the first value.
pub(crate) fn check(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let Some(whole) = lines.next().and_then(raw) else { return };
    let key = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let value = lines.next().and_then(raw).unwrap_or_else(|| RawJson::encode(&1.0));

    let Some(members) = whole.members() else {
        // A key that isn't valid Unicode (half of a surrogate pair) can't be decoded.
        let text = whole.as_str();
        assert!(!text.starts_with('{') || text.contains("\\u") || text.contains("\\U"), "{text}");
        assert_eq!(whole.with_member(&key, &value), None);
        assert_eq!(whole.without_member(&key), None);
        check_json(whole.with_first(&[(&key, &value)]).as_ref());
        return;
    };
    let inside = whole.as_bytes().as_ptr_range();
    for (_, member) in &members {
        let member = member.as_bytes().as_ptr_range();
        assert!(inside.start <= member.start && member.end <= inside.end, "a member was copied");
    }
    let same = object(members.iter().map(|(name, value)| (&**name, value)));
    assert_eq!(same.members().as_ref(), Some(&members));
    if let (Ok(same), Ok(whole)) = (same.parse::<Value>(), whole.parse::<Value>()) {
        assert_eq!(same, whole);
    }
    check_json(Some(&array([&whole, &value, &same])));

    let others = |edited: &RawJson| -> Option<Vec<Member>> {
        let members = edited.members()?.into_iter();
        Some(members.filter(|(name, _)| *name != key).collect())
    };
    let was_there = members.iter().filter(|(name, _)| *name == key).count();

    let first = whole.with_first(&[(&key, &value)]).and_then(|first| first.members());
    let mut expected = vec![(key.clone().into_owned().into(), value.clone())];
    expected.extend(members.clone());
    assert_eq!(first, Some(expected));
    assert_eq!(whole.with_first(&[]).as_ref(), Some(&whole));

    let Some(set) = whole.with_member(&key, &value) else { panic!("it is an object") };
    assert_eq!(others(&set), others(&whole));
    let own = set.members().unwrap_or_default();
    let own: Vec<_> = own.iter().filter(|(name, _)| *name == key).collect();
    assert_eq!(own.len(), was_there.max(1));
    assert!(own.iter().all(|(_, set)| *set == value));

    let Some(without) = whole.without_member(&key) else { panic!("it is an object") };
    assert_eq!(without.members(), others(&whole));
    assert_eq!(without.without_member(&key).as_ref(), Some(&without));
    assert_eq!(was_there == 0, without == whole);
}

fn raw(text: &[u8]) -> Option<RawJson> {
    let text = Bytes::copy_from_slice(text);
    let value: &RawValue = serde_json::from_slice(&text).ok()?;
    Some(RawJson::from_borrowed(&text, value))
}

/// Checks that an edit, if it succeeded, left valid JSON.
fn check_json(edited: Option<&RawJson>) {
    let is_json = |text: &RawJson| serde_json::from_slice::<&RawValue>(text.as_bytes()).is_ok();
    assert!(edited.is_none_or(is_json), "{edited:?}");
}

#[cfg(test)]
pub(crate) mod tests;
