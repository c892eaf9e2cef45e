//! Outlines: recorded positions of the members of an object and its nested objects.
//!
//! The parameters of a request are scanned once, when its message is read. Routing, `_meta` and
//! argument checks then use the outline instead of a scan each. An outline has a fixed size. An
//! object with more members has none and is scanned on each access.

use std::ops::Range;
use std::sync::Arc;

use crate::json::scan::{self, Cursor, EscapedKey, JsonEntry, JsonSyntaxError, StringHint};

/// The maximum number of members in an outline, nested members included.
const ROOM: usize = 24;
/// Levels of nested objects whose members are recorded.
const DEPTH: usize = 3;

#[derive(Debug)]
pub(crate) struct Outline {
    /// Slot 0 is the object itself. Each member precedes the members in its value.
    places: [OutlineSlot; ROOM + 1],
    count: usize,
}

/// The position of a member in the message.
#[derive(Clone, Copy, Debug, Default)]
struct OutlineSlot {
    key: Span,
    /// `true` if the key has no escapes.
    is_plain: bool,
    value: Span,
    /// `true` if the value is an object whose members are recorded.
    is_outlined: bool,
    /// The slot after the last one inside this value.
    next: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begin: u32,
    end: u32,
}

impl Span {
    /// Returns the range relative to `base`, the start of a part of the message.
    fn within(self, base: u32) -> Range<usize> {
        (self.begin - base) as usize..(self.end - base) as usize
    }
}

enum OutlineError {
    Invalid(JsonSyntaxError),
    /// Too many members, or an offset beyond 4 GiB.
    TooLong,
}

impl From<JsonSyntaxError> for OutlineError {
    fn from(error: JsonSyntaxError) -> Self {
        Self::Invalid(error)
    }
}

impl Outline {
    /// Scans the value at `at` and returns its end. If it is an object with few enough members,
    /// also returns its outline.
    pub(crate) fn of_value(
        text: &[u8],
        at: usize,
        strings: StringHint,
    ) -> Result<(usize, Option<Arc<Self>>), JsonSyntaxError> {
        if text.get(at) == Some(&b'{') {
            let mut outline = Self { places: [OutlineSlot::default(); ROOM + 1], count: 1 };
            match outline.object(text, at, strings, 0, DEPTH) {
                Ok(end) => return Ok((end, Some(Arc::new(outline)))),
                Err(OutlineError::Invalid(error)) => return Err(error),
                Err(OutlineError::TooLong) => {}
            }
        }
        Ok((scan::skip_value(text, at, strings)?, None))
    }

    /// Records the object at `at` in slot `own`, and its members down to `depth` levels. Returns
    /// the end of the object.
    fn object(
        &mut self,
        text: &[u8],
        at: usize,
        strings: StringHint,
        own: usize,
        depth: usize,
    ) -> Result<usize, OutlineError> {
        let mut members = Cursor::in_object(text, at, strings)?;
        while let Some(key) = members.advance()? {
            let (at, member) = (members.at(), self.count);
            let place = self.places.get_mut(member).ok_or(OutlineError::TooLong)?;
            (place.key, place.is_plain) = (span(key.place_in(text))?, key.is_plain());
            self.count += 1;
            if depth > 1 && text.get(at) == Some(&b'{') {
                members.pass_to(self.object(text, at, strings, member, depth - 1)?);
            } else {
                self.set(member, members.pass()?, false)?;
            }
        }
        self.set(own, at..members.at(), true)?;
        Ok(members.at())
    }

    fn set(
        &mut self,
        at: usize,
        value: Range<usize>,
        is_outlined: bool,
    ) -> Result<(), OutlineError> {
        let place = &mut self.places[at];
        (place.value, place.is_outlined) = (span(value)?, is_outlined);
        place.next = u8::try_from(self.count).map_err(|_| OutlineError::TooLong)?;
        Ok(())
    }

    /// Returns the members of the object in slot `own`, whose text is `text`.
    pub(crate) fn members<'a>(&'a self, own: u8, text: &'a [u8]) -> Members<'a> {
        let OutlineSlot { value, next, .. } = self.places[usize::from(own)];
        Members { outline: self, text, base: value.begin, at: own + 1, end: next }
    }
}

fn span(place: Range<usize>) -> Result<Span, OutlineError> {
    let short = |at: usize| u32::try_from(at).map_err(|_| OutlineError::TooLong);
    Ok(Span { begin: short(place.start)?, end: short(place.end)? })
}

pub struct Members<'a> {
    outline: &'a Outline,
    text: &'a [u8],
    base: u32,
    at: u8,
    end: u8,
}

impl<'a> Iterator for Members<'a> {
    /// A member, and the slot of its value if that is an outlined object.
    type Item = (JsonEntry<'a>, Option<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.end {
            return None;
        }
        let OutlineSlot { key, is_plain, value, is_outlined, next } =
            self.outline.places[usize::from(self.at)];
        let name = is_outlined.then_some(self.at);
        self.at = next;
        let key = EscapedKey::new(&self.text[key.within(self.base)], is_plain);
        Some((JsonEntry { key, value: value.within(self.base) }, name))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy};
    use proptest::{prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::json::RawJson;

    fn values() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![Just("1"), Just("\"x\""), Just("null"), Just(r#""{\"a\":1}""#)];
        let key = prop_oneof![Just("a"), Just("name"), Just(r"\u0061"), Just("a key of 16 byte")];
        scalar.prop_map(str::to_owned).prop_recursive(5, 48, 6, move |inner| {
            let member = (key.clone(), inner.clone());
            let member = member.prop_map(|(key, value)| format!("\"{key}\" : {value}"));
            prop_oneof![
                vec(member, 0..6).prop_map(|members| format!("{{ {} }}", members.join(" ,"))),
                vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            ]
        })
    }

    /// Reads a value that starts at an offset in its message.
    fn read(value: &str) -> (RawJson, Option<Arc<Outline>>) {
        let message = Bytes::from(format!("[1, {value} ]"));
        let (end, outline) = Outline::of_value(&message, 4, StringHint::Plain).unwrap();
        assert_eq!(end, 4 + value.len());
        (RawJson::from_range(&message, 4..end), outline)
    }

    fn compare(outlined: &RawJson, plain: &RawJson) {
        let (outlined, plain) = (outlined.members(), plain.members());
        assert_eq!(outlined, plain);
        for ((_, outlined), (_, plain)) in outlined.iter().flatten().zip(plain.iter().flatten()) {
            compare(outlined, plain);
        }
    }

    proptest! {
        #[test]
        fn outline_matches_a_scan_of_the_text(value in values()) {
            let (plain, outline) = read(&value);
            let is_small = value.starts_with('{') && count(&plain, DEPTH) <= ROOM;
            prop_assert_eq!(outline.is_some(), is_small);
            if let Some(outline) = outline {
                compare(&plain.clone().outlined(outline), &plain);
            }
        }
    }

    fn count(object: &RawJson, depth: usize) -> usize {
        let members = object.members().filter(|_| depth > 0).unwrap_or_default();
        members.iter().map(|(_, value)| 1 + count(value, depth - 1)).sum()
    }

    #[test]
    fn syntax_errors_are_reported_at_their_position() {
        for (text, at) in [(r#"{"a":{"b":}}"#, 10), (r#"{"a":{}"#, 7), (r#"{"a" 1}"#, 5)] {
            let error = Outline::of_value(text.as_bytes(), 0, StringHint::Plain).unwrap_err();
            assert_eq!(error.at, at, "{text}");
        }
    }

    #[test]
    fn large_objects_have_no_outline() {
        let object = |members: usize| {
            let members: Vec<_> = (0..members).map(|n| format!("\"{n}\":{{}}")).collect();
            read(&format!("{{{}}}", members.join(","))).1
        };
        assert!(object(ROOM).is_some() && object(ROOM + 1).is_none());
    }
}
