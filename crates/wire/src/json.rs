//! Raw JSON text: a shared slice of a message that is forwarded without being parsed.
//!
//! Arguments, results and tool definitions travel as [`RawJson`], so no field is lost and no number
//! changes its format. The few edits that are needed work on the text itself.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::de::{Deserialize, DeserializeOwned};
use serde::{Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::outline::Outline;
use crate::json::scan::{JsonEntries, JsonEntry, StringHint};

mod canonical;
pub mod definition_text;
pub mod exact;
#[cfg(test)]
pub(crate) mod fuzzing;
pub(crate) mod outline;
pub(crate) mod scan;
pub mod select;
pub mod similar;
#[cfg(test)]
mod tests;

/// A JSON value as the other side wrote it. Cheap to clone, but keeps the buffer of its whole
/// message alive.
///
/// The text was validated when the message was read and is not checked again.
#[derive(Clone)]
pub struct RawJson {
    text: Bytes,
    /// The positions of its members, if they were recorded when the message was read, and the slot
    /// of this value in that outline.
    outline: Option<(Arc<Outline>, u8)>,
}

/// Replaces line breaks with spaces. On the wire, a line break ends a message. Strings can't
/// contain unescaped line breaks, so all of them are white space between tokens.
pub fn join_lines(text: Bytes) -> Bytes {
    if is_one_line(&text) {
        return text;
    }
    let mut line = BytesMut::from(text);
    for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    line.freeze()
}

pub(crate) fn is_one_line(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_none()
}

/// The key of a member. Common keys are static strings.
pub type MemberKey = Cow<'static, str>;

pub type Member = (MemberKey, RawJson);

impl RawJson {
    /// Wraps a text that must be one JSON value.
    fn new(text: Bytes) -> Self {
        Self { text, outline: None }
    }

    /// Returns the slice of `message` that `value` was parsed from, without copying.
    ///
    /// `value` must borrow from `message`, like the fields of a struct deserialized from it.
    pub fn from_borrowed(message: &Bytes, value: &RawValue) -> Self {
        Self::new(message.slice_ref(value.get().as_bytes()))
    }

    /// Returns the given range of `message`, which must be one JSON value.
    pub fn from_range(message: &Bytes, place: Range<usize>) -> Self {
        Self::new(message.slice(place))
    }

    /// Attaches an outline to an object.
    pub(crate) fn outlined(self, outline: Arc<Outline>) -> Self {
        Self { text: self.text, outline: Some((outline, 0)) }
    }

    /// Copies the value into its own buffer, to keep it longer than its message.
    #[must_use]
    pub fn to_detached(&self) -> Self {
        Self::new(Bytes::copy_from_slice(&self.text))
    }

    /// Serializes a value as JSON on one line.
    ///
    /// A value that JSON can't express, such as a map with keys that aren't strings, becomes
    /// `null`.
    pub fn encode(value: &impl Serialize) -> Self {
        Self::new(
            serde_json::to_vec(value)
                .map_or(Bytes::from_static(b"null"), |text| join_lines(text.into())),
        )
    }

    pub fn from_text(text: &str) -> Self {
        let mut json = Vec::with_capacity(text.len() + 2);
        push_text(&mut json, text);
        Self::new(json.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    pub fn into_bytes(self) -> Bytes {
        self.text
    }

    /// Returns the JSON text, which was validated as UTF-8 when its message was read.
    pub fn as_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns `true` if the text is empty, which a JSON value never is.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.text)
    }

    /// Decodes the value if it is a string; `None` for other values, and for a string with an
    /// unpaired surrogate.
    pub fn decode_string(&self) -> Option<Cow<'_, str>> {
        decode_string(&self.text)
    }

    /// Decodes the value if it is a string, with U+FFFD for each unpaired surrogate; `None` for
    /// other values. For text that is shown, cut or searched, not for names.
    pub fn decode_string_lossy(&self) -> Option<Cow<'_, str>> {
        self.decode_string().or_else(|| {
            let paired = self.without_unpaired_surrogates()?;
            Some(Cow::Owned(paired.decode_string()?.into_owned()))
        })
    }

    /// Returns the value with U+FFFD for each unpaired surrogate; `None` if it has none.
    pub fn without_unpaired_surrogates(&self) -> Option<RawJson> {
        let mut unpaired = scan::unpaired_surrogates(&self.text).peekable();
        unpaired.peek()?;
        let mut text = self.text.to_vec();
        for at in unpaired {
            text[at..at + 6].copy_from_slice(br"\ufffd");
        }
        Some(Self::new(text.into()))
    }

    /// Returns the members of an object in order, repeated keys included; `None` if the value isn't
    /// an object or a key isn't valid Unicode.
    pub fn members(&self) -> Option<Vec<Member>> {
        let mut members = Vec::with_capacity(4);
        for member in self.each_member()? {
            members.push(member?);
        }
        Some(members)
    }

    /// Iterates over the members of an object, with `None` for each that can't be read.
    pub fn each_member(&self) -> Option<impl Iterator<Item = Option<Member>> + use<'_>> {
        let member = |(entry, outline): (JsonEntry<'_>, _)| {
            Some((owned(entry.key)?, self.part(entry.value, outline)))
        };
        Some(self.entries()?.map(move |found| found.and_then(member)))
    }

    /// Returns the value of the first member called `key`.
    pub fn member(&self, key: &str) -> Option<RawJson> {
        for found in self.entries()? {
            let (entry, outline) = found?;
            if entry.key.unescaped().is_some_and(|name| *name == *key.as_bytes()) {
                return Some(self.part(entry.value, outline));
            }
        }
        None
    }

    /// Iterates over the members of an object as byte ranges, each with its outline slot if it has
    /// one. `None` if the value isn't an object; `None` items for members that can't be read.
    pub fn entries(&self) -> Option<MemberIter<'_>> {
        Some(match &self.outline {
            Some((outline, own)) => MemberIter::Noted(outline.members(*own, &self.text)),
            None => MemberIter::Sought(JsonEntries::of_object(&self.text, StringHint::Plain).ok()?),
        })
    }

    /// Returns a part of the value from the range and outline slot that [`Self::entries`] yields.
    pub fn part(&self, place: Range<usize>, own: Option<u8>) -> Self {
        let outline = self.outline.as_ref().zip(own);
        let outline = outline.map(|((outline, _), own)| (Arc::clone(outline), own));
        Self { text: self.text.slice(place), outline }
    }

    /// Returns the range of each member's value, with `true` if the member is called `key`.
    fn places(&self, key: &str) -> Result<Vec<(bool, Range<usize>)>, EditError> {
        let place = |(JsonEntry { key: found, value }, _): (JsonEntry<'_>, _)| {
            Some((*found.unescaped()? == *key.as_bytes(), value))
        };
        let members = self.entries().ok_or(EditError::NotAnObject)?;
        let places: Option<_> = members.map(|found| found.and_then(place)).collect();
        places.ok_or(EditError::UnreadableName)
    }

    /// Returns `true` if every name of a member, at any depth, is valid Unicode.
    pub fn has_readable_names(&self) -> bool {
        scan::unpaired_surrogate_in_name(&self.text).is_none()
    }

    /// Returns the items of an array in order, or `None` if the value isn't an array.
    pub fn items(&self) -> Option<Vec<RawJson>> {
        let items = JsonEntries::of_array(&self.text, StringHint::Plain).ok()?;
        items.map(|item| Some(Self::from_range(&self.text, item.ok()?.value))).collect()
    }

    /// Passes the items of an array to `take` in order, until it returns `false`. Returns `None` if
    /// the value isn't an array, or an item up to there is malformed.
    pub fn take_items(&self, mut take: impl FnMut(RawJson) -> bool) -> Option<()> {
        for item in JsonEntries::of_array(&self.text, StringHint::Plain).ok()? {
            if !take(Self::from_range(&self.text, item.ok()?.value)) {
                break;
            }
        }
        Some(())
    }

    /// Returns the array with `item` appended. Keeps the rest of the text unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the value isn't an array.
    pub fn with_item(&self, item: &RawJson) -> Result<RawJson, EditError> {
        let own = self.text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]"));
        let own = own.ok_or(EditError::NotAnArray)?;
        let mut text = Vec::with_capacity(self.len() + item.len() + 1);
        text.push(b'[');
        text.extend_from_slice(own);
        if !own.trim_ascii().is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(item.as_bytes());
        text.push(b']');
        Ok(Self::new(text.into()))
    }

    /// Returns the object with `members` inserted first.
    ///
    /// # Errors
    ///
    /// Returns an error if the value isn't an object.
    pub fn with_first(&self, members: &[(&str, &RawJson)]) -> Result<RawJson, EditError> {
        let rest = self.text.strip_prefix(b"{").ok_or(EditError::NotAnObject)?;
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
        Ok(Self::new(text.into()))
    }

    /// Returns the object with `members` appended last.
    ///
    /// # Errors
    ///
    /// Returns an error if the value isn't an object.
    pub fn with_last(&self, members: &[(&str, &RawJson)]) -> Result<RawJson, EditError> {
        let rest = self.text.strip_prefix(b"{").and_then(|_| self.text.strip_suffix(b"}"));
        let mut text = rest.ok_or(EditError::NotAnObject)?.to_vec();
        for (key, value) in members {
            if text.trim_ascii_end() != b"{" {
                text.push(b',');
            }
            push_member(&mut text, key, value);
        }
        text.push(b'}');
        Ok(Self::new(text.into()))
    }

    /// Returns the object with exactly one member called `key`, whose value is `value`: a single
    /// one is replaced in place, repeated ones are removed, and a new one is inserted first. Keeps
    /// the rest of the text unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the value isn't an object, or if one of its members can't be read.
    pub fn with_member(&self, key: &str, value: &RawJson) -> Result<RawJson, EditError> {
        let members = self.places(key)?;
        let mut meant = members.iter().filter(|(is_meant, _)| *is_meant);
        let (Some((_, old)), None) = (meant.next(), meant.next()) else {
            return self.without_member(key)?.with_first(&[(key, value)]);
        };
        let mut text = Vec::with_capacity(self.len() + value.len());
        text.extend_from_slice(&self.text[..old.start]);
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(&self.text[old.end..]);
        Ok(Self::new(text.into()))
    }

    /// Returns the object without the members called `keys`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value isn't an object, or if one of its members can't be read.
    pub fn without_members(&self, keys: &[&str]) -> Result<RawJson, EditError> {
        keys.iter().try_fold(self.clone(), |rest, key| rest.without_member(key))
    }

    /// Returns the object without the members called `key`. Keeps the rest of the text unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the value isn't an object, or if one of its members can't be read.
    pub fn without_member(&self, key: &str) -> Result<RawJson, EditError> {
        let members = self.places(key)?;
        if !members.iter().any(|(is_meant, _)| *is_meant) {
            return Ok(self.clone());
        }
        let mut text = Vec::with_capacity(self.len());
        text.push(b'{');
        // Each slice is a member with the comma and white space before it.
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
        Ok(Self::new(text.into()))
    }
}

/// Why an edit of raw JSON failed. Callers must not continue with the text before the edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("the value is not a JSON object")]
    NotAnObject,
    #[error("the value is not a JSON array")]
    NotAnArray,
    /// Messages with such names are rejected when they are read.
    #[error("the name of a member has an unpaired surrogate")]
    UnreadableName,
}

/// The members of an object, from its outline if there is one, else by scanning the text.
pub enum MemberIter<'a> {
    Noted(outline::Members<'a>),
    Sought(JsonEntries<'a>),
}

impl<'a> Iterator for MemberIter<'a> {
    /// A member with the outline slot of its value, if any; `None` if it can't be read.
    type Item = Option<(JsonEntry<'a>, Option<u8>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Noted(members) => members.next().map(Some),
            Self::Sought(members) => members.next().map(|entry| Some((entry.ok()?, None))),
        }
    }
}

impl From<RawJson> for Cow<'_, RawJson> {
    fn from(value: RawJson) -> Self {
        Self::Owned(value)
    }
}

impl<'a> From<&'a RawJson> for Cow<'a, RawJson> {
    fn from(value: &'a RawJson) -> Self {
        Self::Borrowed(value)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RawJson {}

/// Decodes a JSON string; `None` for other values.
pub fn decode_string(value: &[u8]) -> Option<Cow<'_, str>> {
    scan::EscapedKey::of_string(value)?.text()
}

/// Returns the decoded key; `None` if it isn't valid Unicode.
fn owned(key: scan::EscapedKey<'_>) -> Option<MemberKey> {
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

pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a RawJson)>) -> RawJson {
    let mut text = vec![b'{'];
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        push_member(&mut text, key, value);
    }
    text.push(b'}');
    RawJson::new(text.into())
}

pub fn array<'a>(items: impl IntoIterator<Item = &'a RawJson>) -> RawJson {
    let mut text = vec![b'['];
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item.as_bytes());
    }
    text.push(b']');
    RawJson::new(text.into())
}

/// Appends a string as JSON.
pub fn push_text(json: &mut Vec<u8>, text: &str) {
    if scan::is_plain(text.as_bytes()) {
        json.reserve(text.len() + 2);
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
        return;
    }
    // Serializing a string into memory can't fail.
    let _ = serde_json::to_writer(json, text);
}

/// Appends a number as JSON.
pub fn push_number(json: &mut Vec<u8>, number: u64) {
    // Serializing into memory can't fail.
    let _ = serde_json::to_writer(json, &number);
}

fn push_member(text: &mut Vec<u8>, key: &str, value: &RawJson) {
    push_text(text, key);
    text.push(b':');
    text.extend_from_slice(value.as_bytes());
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let raw = Self::new(join_lines(String::from(Box::<str>::from(raw)).into()));
        if !raw.has_readable_names() {
            return Err(serde::de::Error::custom(EditError::UnreadableName));
        }
        Ok(raw)
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_slice(&self.text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str())
    }
}
