//! Where the members of an object stand, and those of the objects in it, so that whoever asks for
//! them later need not look for them again.
//!
//! The parameters of a request are passed over once, when its message is read. Who it is for is
//! found in them, then what its `_meta` says, then whether its arguments fit; without an outline,
//! each of these would be a pass of its own. An outline has a fixed size; an object with more in it
//! has none, and is looked through as often as it takes.

use std::ops::Range;
use std::sync::Arc;

use crate::raw::scan::{self, Cursor, Entry, Invalid, Key, Strings};

/// The most members that an outline has room for, those of inner objects included.
const ROOM: usize = 24;
/// How deep objects lie within each other whose members are noted.
const DEPTH: usize = 3;

/// The outline of one object of a message.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The object itself, and then every member before those that lie in its value.
    places: [Place; ROOM + 1],
    count: usize,
}

/// Where a member stands in the message.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    key: Span,
    /// `true` if nothing in the key is escaped.
    is_plain: bool,
    value: Span,
    /// `true` if the value is an object whose members are noted.
    is_outlined: bool,
    /// The place that follows those in the value.
    next: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begin: u32,
    end: u32,
}

impl Span {
    /// The place that it is in a part of the message that begins at `base`.
    fn within(self, base: u32) -> Range<usize> {
        (self.begin - base) as usize..(self.end - base) as usize
    }
}

/// Why there is no outline.
enum Unmade {
    Invalid(Invalid),
    /// There are more members than there is room for, or they stand too far behind.
    TooLong,
}

impl From<Invalid> for Unmade {
    fn from(error: Invalid) -> Self {
        Self::Invalid(error)
    }
}

impl Outline {
    /// Passes over the value that begins at `at`, and says where it ends. It is outlined if it is
    /// an object with few members.
    pub(crate) fn of_value(
        text: &[u8],
        at: usize,
        strings: Strings,
    ) -> Result<(usize, Option<Arc<Self>>), Invalid> {
        if text.get(at) == Some(&b'{') {
            let mut outline = Self { places: [Place::default(); ROOM + 1], count: 1 };
            match outline.object(text, at, strings, 0, DEPTH) {
                Ok(end) => return Ok((end, Some(Arc::new(outline)))),
                Err(Unmade::Invalid(error)) => return Err(error),
                Err(Unmade::TooLong) => {}
            }
        }
        Ok((scan::skip_value(text, at, strings)?, None))
    }

    /// Notes the object that begins at `at`, whose own place is there already, and its members as
    /// deep as `depth`; says where it ends.
    fn object(
        &mut self,
        text: &[u8],
        at: usize,
        strings: Strings,
        own: usize,
        depth: usize,
    ) -> Result<usize, Unmade> {
        let mut members = Cursor::in_object(text, at, strings)?;
        while let Some(key) = members.advance()? {
            let (at, member) = (members.at(), self.count);
            let place = self.places.get_mut(member).ok_or(Unmade::TooLong)?;
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

    fn set(&mut self, at: usize, value: Range<usize>, is_outlined: bool) -> Result<(), Unmade> {
        let place = &mut self.places[at];
        (place.value, place.is_outlined) = (span(value)?, is_outlined);
        place.next = u8::try_from(self.count).map_err(|_| Unmade::TooLong)?;
        Ok(())
    }

    /// The members of the object that `text` is, which is called `own` here.
    pub(crate) fn members<'a>(&'a self, own: u8, text: &'a [u8]) -> Members<'a> {
        let Place { value, next, .. } = self.places[usize::from(own)];
        Members { outline: self, text, base: value.begin, at: own + 1, end: next }
    }
}

fn span(place: Range<usize>) -> Result<Span, Unmade> {
    let short = |at: usize| u32::try_from(at).map_err(|_| Unmade::TooLong);
    Ok(Span { begin: short(place.start)?, end: short(place.end)? })
}

/// The members of one object, in their order.
pub struct Members<'a> {
    outline: &'a Outline,
    text: &'a [u8],
    base: u32,
    at: u8,
    end: u8,
}

impl<'a> Iterator for Members<'a> {
    /// A member, and what its value is called here if that is an object with an outline.
    type Item = (Entry<'a>, Option<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.end {
            return None;
        }
        let Place { key, is_plain, value, is_outlined, next } =
            self.outline.places[usize::from(self.at)];
        let name = is_outlined.then_some(self.at);
        self.at = next;
        let key = Key::new(&self.text[key.within(self.base)], is_plain);
        Some((Entry { key, value: value.within(self.base) }, name))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy};
    use proptest::{prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::raw::Raw;

    /// Objects and arrays within each other, with keys that are escaped and some that are not.
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

    /// The value that stands behind a few other bytes, as somebody who reads the message has it.
    fn read(value: &str) -> (Raw, Option<Arc<Outline>>) {
        let message = Bytes::from(format!("[1, {value} ]"));
        let (end, outline) = Outline::of_value(&message, 4, Strings::Plain).unwrap();
        assert_eq!(end, 4 + value.len());
        (Raw::part_of(&message, 4..end), outline)
    }

    /// The members of both are the same, however deep one looks.
    fn compare(outlined: &Raw, plain: &Raw) {
        let (outlined, plain) = (outlined.members(), plain.members());
        assert_eq!(outlined, plain);
        for ((_, outlined), (_, plain)) in outlined.iter().flatten().zip(plain.iter().flatten()) {
            compare(outlined, plain);
        }
    }

    proptest! {
        #[test]
        fn an_outline_says_what_a_look_at_the_text_says(value in values()) {
            let (plain, outline) = read(&value);
            let is_small = value.starts_with('{') && count(&plain, DEPTH) <= ROOM;
            prop_assert_eq!(outline.is_some(), is_small);
            if let Some(outline) = outline {
                compare(&plain.clone().outlined(outline), &plain);
            }
        }
    }

    fn count(object: &Raw, depth: usize) -> usize {
        let members = object.members().filter(|_| depth > 0).unwrap_or_default();
        members.iter().map(|(_, value)| 1 + count(value, depth - 1)).sum()
    }

    #[test]
    fn what_is_no_json_is_found() {
        for (text, at) in [(r#"{"a":{"b":}}"#, 10), (r#"{"a":{}"#, 7), (r#"{"a" 1}"#, 5)] {
            let error = Outline::of_value(text.as_bytes(), 0, Strings::Plain).unwrap_err();
            assert_eq!(error.at, at, "{text}");
        }
    }

    #[test]
    fn an_object_with_many_members_has_none() {
        let object = |members: usize| {
            let members: Vec<_> = (0..members).map(|n| format!("\"{n}\":{{}}")).collect();
            read(&format!("{{{}}}", members.join(","))).1
        };
        assert!(object(ROOM).is_some() && object(ROOM + 1).is_none());
    }
}
