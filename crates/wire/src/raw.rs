//! Raw JSON text: a shared slice of a message that is passed on without being parsed.
//!
//! Arguments, results and tool definitions travel as [`Raw`], so no field is lost and no number
//! is spelled another way. The few edits that are needed work on the text itself.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::de::{Deserialize, DeserializeOwned};
use serde::{Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::raw::outline::Outline;
use crate::raw::scan::{Entries, Entry, Strings};

mod canonical;
#[cfg(test)]
pub(crate) mod fuzzing;
pub(crate) mod outline;
pub(crate) mod scan;
mod spelling;
#[cfg(test)]
mod tests;

pub use crate::raw::spelling::other_words;

/// One JSON value as the other side wrote it. Cheap to clone; keeps its message's buffer alive.
///
/// That it is valid was found out when its message was read, and is not looked into again.
#[derive(Clone)]
pub struct Raw {
    text: Bytes,
    /// Where its members stand, if that was noted when its message was read, and what it is called
    /// there.
    outline: Option<(Arc<Outline>, u8)>,
}

/// Puts JSON on one line. A line is a message, so a value on several lines would be several
/// messages. There are no line ends within strings, so every line end stands where a space can
/// stand.
pub fn one_line(text: Bytes) -> Bytes {
    if is_one_line(&text) {
        return text;
    }
    let mut line = BytesMut::from(text);
    for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    line.freeze()
}

/// Returns `true` if there are no line ends in a text.
pub(crate) fn is_one_line(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_none()
}

/// The key of a member. Those that most messages have are not copied.
pub type Key = Cow<'static, str>;

/// A member of an object.
pub type Member = (Key, Raw);

impl Raw {
    /// A text that is one JSON value.
    fn new(text: Bytes) -> Self {
        Self { text, outline: None }
    }

    /// The part of `message` that `value` was parsed out of, without copying it.
    ///
    /// `value` must borrow from `message`, as the fields of a struct deserialized from it do.
    pub fn slice_of(message: &Bytes, value: &RawValue) -> Self {
        Self::new(message.slice_ref(value.get().as_bytes()))
    }

    /// The part of `message` at `place`, which must be one JSON value.
    pub fn part_of(message: &Bytes, place: Range<usize>) -> Self {
        Self::new(message.slice(place))
    }

    /// Adds an outline to an object.
    pub(crate) fn outlined(self, outline: Arc<Outline>) -> Self {
        Self { text: self.text, outline: Some((outline, 0)) }
    }

    /// Copies it into a buffer of its own, for what is kept longer than its message.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self::new(Bytes::copy_from_slice(&self.text))
    }

    /// Encodes a value of ours.
    ///
    /// A value that JSON cannot express (a map with keys that are not strings) becomes `null`.
    pub fn encode(value: &impl Serialize) -> Self {
        Self::new(
            serde_json::to_vec(value)
                .map_or(Bytes::from_static(b"null"), |text| one_line(text.into())),
        )
    }

    /// Encodes a text.
    pub fn of_text(text: &str) -> Self {
        let mut json = Vec::with_capacity(text.len() + 2);
        push_text(&mut json, text);
        Self::new(json.into())
    }

    /// The text itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The text as a shared buffer.
    pub fn into_bytes(self) -> Bytes {
        self.text
    }

    /// The text, which is always UTF-8 because it was checked when its message was read.
    pub fn as_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// How many bytes the text has.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns `true` if there is no text at all. No JSON value is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Parses the value.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.text)
    }

    /// The text that the value is; `None` when it is something else.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        text_of(&self.text)
    }

    /// The members of an object in their order, or `None` when the value is not an object. A
    /// repeated key keeps both, as written.
    pub fn members(&self) -> Option<Vec<Member>> {
        let mut members = Vec::with_capacity(4);
        for member in self.each_member()? {
            members.push(member?);
        }
        Some(members)
    }

    /// The members one after the other, with `None` in place of each that cannot be read.
    pub fn each_member(&self) -> Option<impl Iterator<Item = Option<Member>> + use<'_>> {
        let member = |(entry, outline): (Entry<'_>, _)| {
            Some((owned(entry.key)?, self.part(entry.value, outline)))
        };
        Some(self.entries()?.map(move |found| found.and_then(member)))
    }

    /// The first member called `key` of an object.
    pub fn member(&self, key: &str) -> Option<Raw> {
        for found in self.entries()? {
            let (entry, outline) = found?;
            if *entry.key.unescaped()? == *key.as_bytes() {
                return Some(self.part(entry.value, outline));
            }
        }
        None
    }

    /// Where the members of an object stand, and what those with an outline are called in it;
    /// `None` when the value is no object, and in place of what cannot be read.
    pub fn entries(&self) -> Option<Members<'_>> {
        Some(match &self.outline {
            Some((outline, own)) => Members::Noted(outline.members(*own, &self.text)),
            None => Members::Sought(Entries::of_object(&self.text, Strings::Plain).ok()?),
        })
    }

    /// A part of the value, as [`Self::entries`] tells of it: where it stands, and what it is called if it
    /// has an outline.
    pub fn part(&self, place: Range<usize>, own: Option<u8>) -> Self {
        let outline = self.outline.as_ref().zip(own);
        let outline = outline.map(|((outline, _), own)| (Arc::clone(outline), own));
        Self { text: self.text.slice(place), outline }
    }

    /// Where the values of an object's members stand, and which are called `key`; `None` when
    /// something in it cannot be read.
    fn places(&self, key: &str) -> Option<Vec<(bool, Range<usize>)>> {
        let place = |(Entry { key: found, value }, _): (Entry<'_>, _)| {
            Some((*found.unescaped()? == *key.as_bytes(), value))
        };
        self.entries()?.map(|found| found.and_then(place)).collect()
    }

    /// The items of an array in their order, or `None` when the value is not an array.
    pub fn items(&self) -> Option<Vec<Raw>> {
        let items = Entries::of_array(&self.text, Strings::Plain).ok()?;
        items.map(|item| Some(Self::part_of(&self.text, item.ok()?.value))).collect()
    }

    /// The array with `item` put after its own; `None` when the value is not an array. Everything
    /// else stays as written.
    pub fn with_item(&self, item: &Raw) -> Option<Raw> {
        let own = self.text.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let mut text = Vec::with_capacity(self.len() + item.len() + 1);
        text.push(b'[');
        text.extend_from_slice(own);
        if !own.trim_ascii().is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(item.as_bytes());
        text.push(b']');
        Some(Self::new(text.into()))
    }

    /// The object with `members` put before its own; `None` when the value is not an object.
    pub fn with_first(&self, members: &[(&str, &Raw)]) -> Option<Raw> {
        let rest = self.text.strip_prefix(b"{")?;
        let mut text = Vec::with_capacity(self.text.len() + 64);
        text.push(b'{');
        for (index, (key, value)) in members.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            push_member(&mut text, key, value);
        }
        let is_bare = rest.trim_ascii_start().starts_with(b"}");
        if !members.is_empty() && !is_bare {
            text.push(b',');
        }
        text.extend_from_slice(rest);
        Some(Self::new(text.into()))
    }

    /// The object with member `key` set to `value` where it stands, or put first when it is not
    /// there; `None` when the value is not an object. Everything else stays as written.
    pub fn with_member(&self, key: &str, value: &Raw) -> Option<Raw> {
        let members = self.places(key)?;
        if !members.iter().any(|(is_meant, _)| *is_meant) {
            return self.with_first(&[(key, value)]);
        }
        let mut text = Vec::with_capacity(self.len() + value.len());
        let mut taken = 0;
        for (_, old) in members.iter().filter(|(is_meant, _)| *is_meant) {
            text.extend_from_slice(&self.text[taken..old.start]);
            text.extend_from_slice(value.as_bytes());
            taken = old.end;
        }
        text.extend_from_slice(&self.text[taken..]);
        Some(Self::new(text.into()))
    }

    /// The object without the members that are called so; `None` when the value is not an object.
    pub fn without_members(&self, keys: &[&str]) -> Option<Raw> {
        keys.iter().try_fold(self.clone(), |rest, key| rest.without_member(key))
    }

    /// The object without member `key`; the same text when it has none. Everything else stays as
    /// written.
    pub fn without_member(&self, key: &str) -> Option<Raw> {
        let members = self.places(key)?;
        if !members.iter().any(|(is_meant, _)| *is_meant) {
            return Some(self.clone());
        }
        let mut text = Vec::with_capacity(self.len());
        text.push(b'{');
        // Each member is taken with the comma and the white space before it.
        let mut taken = 1;
        for (is_meant, value) in &members {
            let member = &self.text[taken..value.end];
            taken = value.end;
            if *is_meant {
                continue;
            }
            let is_first = text.len() == 1;
            let comma = member.iter().position(|byte| *byte == b',');
            let comma = comma.filter(|at| is_first && member[..*at].trim_ascii().is_empty());
            text.extend_from_slice(comma.map_or(member, |at| &member[at + 1..]));
        }
        text.extend_from_slice(&self.text[taken..]);
        Some(Self::new(text.into()))
    }
}

/// The members of an object, from its outline, or from the text if there is no outline.
pub enum Members<'a> {
    Noted(outline::Members<'a>),
    Sought(Entries<'a>),
}

impl<'a> Iterator for Members<'a> {
    /// A member, and what its value is called if that has an outline; `None` for what cannot be
    /// read.
    type Item = Option<(Entry<'a>, Option<u8>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Noted(members) => members.next().map(Some),
            Self::Sought(members) => members.next().map(|entry| Some((entry.ok()?, None))),
        }
    }
}

impl From<Raw> for Cow<'_, Raw> {
    fn from(value: Raw) -> Self {
        Self::Owned(value)
    }
}

impl<'a> From<&'a Raw> for Cow<'a, Raw> {
    fn from(value: &'a Raw) -> Self {
        Self::Borrowed(value)
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Raw {}

/// The text that a JSON value is; `None` when it is something else.
pub fn text_of(value: &[u8]) -> Option<Cow<'_, str>> {
    scan::Key::of_string(value)?.text()
}

/// A key by itself; `None` when it is no text.
fn owned(key: scan::Key<'_>) -> Option<Key> {
    let well_known = match &*key.unescaped()? {
        b"name" => "name",
        b"arguments" => "arguments",
        b"_meta" => "_meta",
        b"progressToken" => "progressToken",
        b"toolbox" => "toolbox",
        b"server" => "server",
        b"tool" => "tool",
        b"uri" => "uri",
        _ => return key.text().map(|text| Cow::Owned(text.into_owned())),
    };
    Some(Cow::Borrowed(well_known))
}

/// An object of these members.
pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a Raw)>) -> Raw {
    let mut text = vec![b'{'];
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        push_member(&mut text, key, value);
    }
    text.push(b'}');
    Raw::new(text.into())
}

/// An array of these items.
pub fn array<'a>(items: impl IntoIterator<Item = &'a Raw>) -> Raw {
    let mut text = vec![b'['];
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item.as_bytes());
    }
    text.push(b']');
    Raw::new(text.into())
}

/// Writes a text as JSON.
pub fn push_text(json: &mut Vec<u8>, text: &str) {
    if scan::is_plain(text.as_bytes()) {
        json.reserve(text.len() + 2);
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
        return;
    }
    // Writing into memory does not fail, and a text can always be written.
    let _ = serde_json::to_writer(json, text);
}

/// Writes a number as JSON.
pub fn push_number(json: &mut Vec<u8>, number: u64) {
    // Writing into memory does not fail.
    let _ = serde_json::to_writer(json, &number);
}

fn push_member(text: &mut Vec<u8>, key: &str, value: &Raw) {
    push_text(text, key);
    text.push(b':');
    text.extend_from_slice(value.as_bytes());
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer)
            .map(|raw| Self::new(one_line(String::from(Box::<str>::from(raw)).into())))
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_slice(&self.text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str())
    }
}
