//! Invariants of edits on raw JSON text. The fuzz target `json` (see `fuzz/`) searches for
//! violations, and a test replays its corpus.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{EditError, Member, RawJson, array, object};

/// Reads a JSON value, a key and a value for that key from the first three lines, and checks each
/// edit of the first value.
pub(crate) fn check(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let Some(whole) = lines.next().and_then(raw) else { return };
    let key = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let value = lines.next().and_then(raw).unwrap_or_else(|| RawJson::encode(&1.0));

    check_names(&whole);
    let Some(members) = whole.members() else {
        check_unreadable(&whole, &key, &value);
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
    check_json(&array([&whole, &value, &same]));

    let others = |edited: &RawJson| -> Option<Vec<Member>> {
        let members = edited.members()?.into_iter();
        Some(members.filter(|(name, _)| *name != key).collect())
    };
    let was_there = members.iter().filter(|(name, _)| *name == key).count();

    let first = edited(whole.with_first(&[(&key, &value)])).members();
    let mut expected = vec![(key.clone().into_owned().into(), value.clone())];
    expected.extend(members.clone());
    assert_eq!(first, Some(expected));
    assert_eq!(edited(whole.with_first(&[])), whole);
    let last = edited(whole.with_last(&[(&key, &value)]));
    let mut last = last.members().unwrap_or_default();
    assert_eq!(last.pop(), Some((key.clone().into_owned().into(), value.clone())));
    assert_eq!(last, members);

    // One member is left, so that parsers that use the first and the last agree.
    let set = edited(whole.with_member(&key, &value));
    assert_eq!(others(&set), others(&whole));
    let own = set.members().unwrap_or_default();
    let own: Vec<_> = own.iter().filter(|(name, _)| *name == key).collect();
    assert!(matches!(own[..], [(_, set)] if *set == value), "{set:?}");
    assert_eq!(set.member(&key), Some(value.clone()));
    if let Ok(Value::Object(parsed)) = set.parse() {
        assert_eq!(parsed.get(&*key), value.parse().ok().as_ref(), "the last member differs");
    }

    let without = edited(whole.without_member(&key));
    assert_eq!(without.members(), others(&whole));
    assert_eq!(edited(without.without_member(&key)), without);
    assert_eq!(was_there == 0, without == whole);
    assert_eq!(edited(whole.without_members(&[&*key, &*key])), without);
}

/// Checks that no edit of a value that isn't an object, or whose names can't be read, returns it.
fn check_unreadable(whole: &RawJson, key: &str, value: &RawJson) {
    let is_object = whole.as_bytes().starts_with(b"{");
    let why = if is_object { EditError::UnreadableName } else { EditError::NotAnObject };
    assert!(!is_object || !whole.has_readable_names(), "{whole:?}");
    assert_eq!(whole.with_member(key, value), Err(why));
    assert_eq!(whole.without_member(key), Err(why));
    assert_eq!(whole.without_members(&[key]), Err(why));
    match whole.with_first(&[(key, value)]) {
        Ok(first) => {
            check_json(&first);
            assert_eq!(first.member(key).as_ref(), Some(value));
        }
        Err(why) => assert!(!is_object, "{why}"),
    }
    assert_eq!(whole.with_last(&[(key, value)]).is_ok(), is_object);
    match (whole.items(), whole.with_item(value)) {
        (Some(mut items), Ok(longer)) => {
            items.push(value.clone());
            assert_eq!(longer.items(), Some(items));
        }
        (None, Err(EditError::NotAnArray)) => {}
        other => panic!("{other:?}"),
    }
}

/// Compares the search for unreadable names with a search of the parsed value.
fn check_names(whole: &RawJson) {
    fn are_readable(value: &RawJson) -> bool {
        match value.as_bytes().first() {
            Some(b'{') => value
                .members()
                .is_some_and(|members| members.iter().all(|(_, value)| are_readable(value))),
            Some(b'[') => value.items().is_some_and(|items| items.iter().all(are_readable)),
            _ => true,
        }
    }

    assert_eq!(whole.has_readable_names(), are_readable(whole), "{whole:?}");
    let is_string = whole.as_bytes().starts_with(b"\"");
    assert_eq!(whole.decode_string_lossy().is_some(), is_string, "{whole:?}");
}

fn raw(text: &[u8]) -> Option<RawJson> {
    let text = Bytes::copy_from_slice(text);
    let value: &RawValue = serde_json::from_slice(&text).ok()?;
    Some(RawJson::from_borrowed(&text, value))
}

fn edited(edited: Result<RawJson, EditError>) -> RawJson {
    let edited = edited.expect("an object with readable names can be edited");
    check_json(&edited);
    edited
}

fn check_json(edited: &RawJson) {
    assert!(serde_json::from_slice::<&RawValue>(edited.as_bytes()).is_ok(), "{edited:?}");
}

#[cfg(test)]
pub(crate) mod tests;
