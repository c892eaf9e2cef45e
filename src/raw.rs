//! Raw JSON text: a shared slice of a message that is passed on without being parsed.
//!
//! Arguments, results and tool definitions travel as [`Raw`], so no field is lost and no number
//! is spelled another way. The few edits that are needed work on the text itself.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, DeserializeOwned};
use serde::{Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::raw::scan::{Entries, Entry, Key, Strings};

#[cfg(test)]
mod fuzzing;
pub(crate) mod scan;
#[cfg(test)]
mod tests;

/// One JSON value as the other side wrote it. Cheap to clone; keeps its message's buffer alive.
///
/// That it is valid was found out when its message was read, and is not looked into again.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Bytes);

impl Raw {
    /// The part of `message` that `value` was parsed out of, without copying it.
    ///
    /// `value` must borrow from `message`, as the fields of a struct deserialized from it do.
    pub fn slice_of(message: &Bytes, value: &RawValue) -> Self {
        Self(message.slice_ref(value.get().as_bytes()))
    }

    /// The part of `message` at `place`, which must be one JSON value.
    pub(crate) fn part_of(message: &Bytes, place: std::ops::Range<usize>) -> Self {
        Self(message.slice(place))
    }

    /// Encodes a value of ours.
    ///
    /// A value that JSON cannot express (a map with keys that are not strings) becomes `null`.
    pub fn encode(value: &impl Serialize) -> Self {
        Self(serde_json::to_vec(value).map_or(Bytes::from_static(b"null"), Bytes::from))
    }

    /// The text itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text as a shared buffer.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The text, which is always UTF-8 because it was checked when its message was read.
    pub fn as_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// How many bytes the text has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text at all, which no JSON value is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses the value.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.0)
    }

    /// The text that the value is; `None` when it is something else.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        Key::of_string(&self.0)?.text()
    }

    /// The members of an object in their order, or `None` when the value is not an object. A
    /// repeated key keeps both, as written.
    pub fn members(&self) -> Option<Vec<(String, Raw)>> {
        let mut members = Vec::with_capacity(4);
        for member in Entries::of_object(&self.0, Strings::Plain).ok()? {
            let Entry { key, value } = member.ok()?;
            members.push((key.text()?.into_owned(), Self::part_of(&self.0, value)));
        }
        Some(members)
    }

    /// The first member called `key` of an object.
    pub fn member(&self, key: &str) -> Option<Raw> {
        let found = self.named().find(|member| member.as_ref().is_none_or(|(name, _)| name == key));
        found.flatten().map(|(_, value)| value)
    }

    /// The members of an object; nothing but one `None` when it is none, and `None` in place of a
    /// member whose key is no text.
    fn named(&self) -> impl Iterator<Item = Option<(Cow<'_, str>, Raw)>> {
        let (members, broken) = match Entries::of_object(&self.0, Strings::Plain) {
            Ok(members) => (Some(members), None),
            Err(_) => (None, Some(None)),
        };
        let members = members.into_iter().flatten().map(|member| {
            let member = member.ok()?;
            Some((member.key.text()?, Self::part_of(&self.0, member.value)))
        });
        members.chain(broken)
    }

    /// The items of an array in their order, or `None` when the value is not an array.
    pub fn items(&self) -> Option<Vec<Raw>> {
        let items = Entries::of_array(&self.0, Strings::Plain).ok()?;
        items.map(|item| Some(Self::part_of(&self.0, item.ok()?.value))).collect()
    }

    /// The object with `members` put before its own; `None` when the value is not an object.
    pub fn with_first(&self, members: &[(&str, &Raw)]) -> Option<Raw> {
        let rest = self.0.strip_prefix(b"{")?;
        let mut text = Vec::with_capacity(self.0.len() + 64);
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
        Some(Self(text.into()))
    }

    /// The object with member `key` set to `value` where it stands, or put first when it is not
    /// there; `None` when the value is not an object. Everything else stays as written.
    pub fn with_member(&self, key: &str, value: &Raw) -> Option<Raw> {
        let members: Vec<_> = self.named().collect::<Option<_>>()?;
        if !members.iter().any(|(name, _)| name == key) {
            return self.with_first(&[(key, value)]);
        }
        let mut text = Vec::with_capacity(self.0.len() + value.len());
        let mut taken = 0;
        for (_, old) in members.iter().filter(|(name, _)| name == key) {
            let start = self.position(old);
            text.extend_from_slice(&self.0[taken..start]);
            text.extend_from_slice(value.as_bytes());
            taken = start + old.len();
        }
        text.extend_from_slice(&self.0[taken..]);
        Some(Self(text.into()))
    }

    /// The object without member `key`; the same text when it has none. Everything else stays as
    /// written.
    pub fn without_member(&self, key: &str) -> Option<Raw> {
        let members: Vec<_> = self.named().collect::<Option<_>>()?;
        if members.iter().all(|(name, _)| name != key) {
            return Some(self.clone());
        }
        let mut text = Vec::with_capacity(self.0.len());
        text.push(b'{');
        // Each member is taken with the comma and the white space before it.
        let mut taken = 1;
        for (name, value) in &members {
            let end = self.position(value) + value.len();
            let member = &self.0[taken..end];
            taken = end;
            if name == key {
                continue;
            }
            let is_first = text.len() == 1;
            let comma = member.iter().position(|byte| *byte == b',');
            let comma = comma.filter(|at| is_first && member[..*at].trim_ascii().is_empty());
            text.extend_from_slice(comma.map_or(member, |at| &member[at + 1..]));
        }
        text.extend_from_slice(&self.0[taken..]);
        Some(Self(text.into()))
    }

    /// Where in the text a part of it stands.
    fn position(&self, part: &Raw) -> usize {
        part.0.as_ptr().addr() - self.0.as_ptr().addr()
    }
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
    Raw(text.into())
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
    Raw(text.into())
}

/// Writes a text as JSON.
pub fn push_text(json: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.reserve(text.len() + 2);
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
        return;
    }
    // Writing into memory does not fail, and a text can always be written.
    let _ = serde_json::to_writer(json, text);
}

fn push_member(text: &mut Vec<u8>, key: &str, value: &Raw) {
    push_text(text, key);
    text.push(b':');
    text.extend_from_slice(value.as_bytes());
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer)
            .map(|raw| Self(String::from(Box::<str>::from(raw)).into()))
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str())
    }
}
