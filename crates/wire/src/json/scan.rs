//! Scans JSON text for the members of objects and the items of arrays, validating it on the way
//! (RFC 8259) without parsing values.
//!
//! The text must be UTF-8; that is checked once, when a message is read. Scanning isn't recursive,
//! so only the length of the text limits its nesting. Most of a long text is strings, which are
//! skipped with `memchr` if they are known to have no control characters ([`StringHint::Plain`]).

mod strings;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::json::scan::strings::skip_string;
pub(crate) use crate::json::scan::strings::{
    StringHint, is_plain, unpaired_surrogate_in_name, unpaired_surrogates,
};

/// A syntax error, or a value of an unexpected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonSyntaxError {
    /// The byte offset.
    pub at: usize,
    /// A noun phrase for the error message.
    pub expected: &'static str,
}

impl fmt::Display for JsonSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at byte {}", self.expected, self.at)
    }
}

type Scanned<T> = Result<T, JsonSyntaxError>;

fn invalid<T>(at: usize, expected: &'static str) -> Scanned<T> {
    Err(JsonSyntaxError { at, expected })
}

/// The key of a member, as written between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscapedKey<'a> {
    text: &'a [u8],
    /// `true` if it has no escapes.
    is_plain: bool,
}

impl<'a> EscapedKey<'a> {
    pub(crate) fn new(text: &'a [u8], is_plain: bool) -> Self {
        Self { text, is_plain }
    }

    pub(crate) fn is_plain(self) -> bool {
        self.is_plain
    }

    /// Returns the range of the key in `text`, which it must borrow from.
    pub(crate) fn place_in(self, text: &[u8]) -> Range<usize> {
        let begin = self.text.as_ptr().addr() - text.as_ptr().addr();
        begin..begin + self.text.len()
    }

    /// Returns the text between the quotes of `string`; `None` if it isn't a string.
    pub(crate) fn of_string(string: &'a [u8]) -> Option<Self> {
        let text = string.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        Some(Self { text, is_plain: memchr::memchr(b'\\', text).is_none() })
    }

    /// Decodes the key; `None` if it has an unpaired surrogate.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        match self.unescaped()? {
            Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
            Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
        }
    }

    /// Decodes the key to bytes; `None` if it has an unpaired surrogate.
    pub fn unescaped(self) -> Option<Cow<'a, [u8]>> {
        if self.is_plain {
            return Some(Cow::Borrowed(self.text));
        }
        let quoted = [b"\"", self.text, b"\""].concat();
        let text = serde_json::from_slice::<String>(&quoted).ok()?;
        Some(Cow::Owned(text.into_bytes()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonEntry<'a> {
    /// Empty for an item of an array.
    pub key: EscapedKey<'a>,
    /// The range of the value.
    pub value: Range<usize>,
}

/// Steps through one object or array inside a text.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    strings: StringHint,
    at: usize,
    close: u8,
    is_first: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn in_object(text: &'a [u8], at: usize, strings: StringHint) -> Scanned<Self> {
        if text.get(at) != Some(&b'{') {
            return invalid(at, "an object");
        }
        Ok(Self { text, strings, at: at + 1, close: b'}', is_first: true })
    }

    /// Enters the object that is the whole of `text`.
    pub(crate) fn in_whole(text: &'a [u8], strings: StringHint) -> Scanned<Self> {
        Self::in_object(text, skip_space(text, 0), strings)
    }

    pub(crate) fn in_array(text: &'a [u8], at: usize, strings: StringHint) -> Scanned<Self> {
        if text.get(at) != Some(&b'[') {
            return invalid(at, "an array");
        }
        Ok(Self { text, strings, at: at + 1, close: b']', is_first: true })
    }

    /// Returns the current offset: the start of a value, or the end of the object or array.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves from the end of one value to the start of the next and returns its key, which is empty
    /// for an item. `None` after the last value.
    #[inline]
    pub(crate) fn advance(&mut self) -> Scanned<Option<EscapedKey<'a>>> {
        let mut at = skip_space(self.text, self.at);
        match self.text.get(at) {
            Some(byte) if *byte == self.close => {
                self.at = at + 1;
                return Ok(None);
            }
            Some(b',') if !self.is_first => at = skip_space(self.text, at + 1),
            _ if self.is_first => self.is_first = false,
            _ => return invalid(at, "a comma or the end of the value"),
        }
        let mut key = EscapedKey { text: &[], is_plain: true };
        if self.close == b'}' {
            (key, at) = skip_key(self.text, at, self.strings)?;
        }
        self.at = at;
        Ok(Some(key))
    }

    /// Skips the current value and returns its range.
    #[inline]
    pub(crate) fn pass(&mut self) -> Scanned<Range<usize>> {
        let begin = self.at;
        self.at = skip_value(self.text, begin, self.strings)?;
        Ok(begin..self.at)
    }

    /// Skips the current value, whose `end` is already known.
    pub(crate) fn pass_to(&mut self, end: usize) -> Range<usize> {
        std::mem::replace(&mut self.at, end)..end
    }

    /// Checks that only white space follows the object or array.
    pub(crate) fn finish(&self) -> Scanned<()> {
        let end = skip_space(self.text, self.at);
        if end == self.text.len() { Ok(()) } else { invalid(end, "the end of the input") }
    }
}

/// The entries of one object or array, in order. Ends after the first error.
#[derive(Debug)]
pub struct JsonEntries<'a> {
    cursor: Cursor<'a>,
    is_done: bool,
}

impl<'a> JsonEntries<'a> {
    pub(crate) fn of_object(text: &'a [u8], strings: StringHint) -> Scanned<Self> {
        Ok(Self { cursor: Cursor::in_whole(text, strings)?, is_done: false })
    }

    pub(crate) fn of_array(text: &'a [u8], strings: StringHint) -> Scanned<Self> {
        let cursor = Cursor::in_array(text, skip_space(text, 0), strings)?;
        Ok(Self { cursor, is_done: false })
    }

    /// Returns the next entry. After the last one, checks that only white space follows.
    #[inline]
    fn advance(&mut self) -> Scanned<Option<JsonEntry<'a>>> {
        match self.cursor.advance()? {
            Some(key) => Ok(Some(JsonEntry { key, value: self.cursor.pass()? })),
            None => self.cursor.finish().map(|()| None),
        }
    }
}

impl<'a> Iterator for JsonEntries<'a> {
    type Item = Scanned<JsonEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.advance();
        self.is_done = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

pub(crate) fn check(text: &[u8]) -> Scanned<()> {
    let end = skip_space(text, skip_value(text, skip_space(text, 0), StringHint::Any)?);
    if end == text.len() { Ok(()) } else { invalid(end, "the end") }
}

/// The kinds of the enclosing values, as a bit stack: 1 for an object, 0 for an array.
#[derive(Default)]
struct Nesting {
    depth: usize,
    /// The innermost levels, up to 64. The lowest bit is the innermost.
    inner: u64,
    outer: Vec<u64>,
}

impl Nesting {
    fn enter(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.inner >>= 1;
        if self.depth.is_multiple_of(64)
            && let Some(outer) = self.outer.pop()
        {
            self.inner = outer;
        }
    }

    fn is_object(&self) -> bool {
        self.inner & 1 == 1
    }
}

#[inline]
pub(crate) fn skip_value(text: &[u8], at: usize, strings: StringHint) -> Scanned<usize> {
    match text.get(at) {
        Some(b'{' | b'[') => skip_nested(text, at, strings),
        _ => skip_scalar(text, at, strings),
    }
}

#[inline]
fn skip_scalar(text: &[u8], at: usize, strings: StringHint) -> Scanned<usize> {
    match text.get(at) {
        Some(b'"') => Ok(skip_string(text, at + 1, strings)?.0),
        Some(b'-' | b'0'..=b'9') => skip_number(text, at),
        Some(b't') => skip_word(text, at, b"true"),
        Some(b'f') => skip_word(text, at, b"false"),
        Some(b'n') => skip_word(text, at, b"null"),
        _ => invalid(at, "a value"),
    }
}

fn skip_nested(text: &[u8], mut at: usize, strings: StringHint) -> Scanned<usize> {
    let mut nesting = Nesting::default();
    loop {
        at = match text.get(at) {
            Some(b'{') => {
                let inside = skip_space(text, at + 1);
                if text.get(inside) != Some(&b'}') {
                    nesting.enter(true);
                    at = skip_key(text, inside, strings)?.1;
                    continue;
                }
                inside + 1
            }
            Some(b'[') => {
                let inside = skip_space(text, at + 1);
                if text.get(inside) != Some(&b']') {
                    nesting.enter(false);
                    at = inside;
                    continue;
                }
                inside + 1
            }
            _ => skip_scalar(text, at, strings)?,
        };
        // After a value: leave the arrays and objects that end here, then move to the next value.
        loop {
            if nesting.depth == 0 {
                return Ok(at);
            }
            at = skip_space(text, at);
            match (text.get(at), nesting.is_object()) {
                (Some(b','), true) => {
                    at = skip_key(text, skip_space(text, at + 1), strings)?.1;
                    break;
                }
                (Some(b','), false) => {
                    at = skip_space(text, at + 1);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    nesting.leave();
                    at += 1;
                }
                _ => return invalid(at, "a comma or the end of the value"),
            }
        }
    }
}

/// Returns the key at `at` and the start of its value.
#[inline]
fn skip_key(text: &[u8], at: usize, strings: StringHint) -> Scanned<(EscapedKey<'_>, usize)> {
    if text.get(at) != Some(&b'"') {
        return invalid(at, "a key");
    }
    let (end, is_plain) = skip_string(text, at + 1, strings)?;
    let colon = skip_space(text, end);
    if text.get(colon) != Some(&b':') {
        return invalid(colon, "a colon");
    }
    Ok((EscapedKey { text: &text[at + 1..end - 1], is_plain }, skip_space(text, colon + 1)))
}

fn skip_number(text: &[u8], mut at: usize) -> Scanned<usize> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match text.get(at) {
        Some(b'0') => at + 1,
        _ => skip_digits(text, at)?,
    };
    if text.get(at) == Some(&b'.') {
        at = skip_digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = skip_digits(text, at)?;
    }
    Ok(at)
}

fn skip_digits(text: &[u8], at: usize) -> Scanned<usize> {
    let rest = text.get(at..).unwrap_or_default();
    match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 => invalid(at, "a digit"),
        digits => Ok(at + digits),
    }
}

fn skip_word(text: &[u8], at: usize, word: &[u8]) -> Scanned<usize> {
    if text[at..].starts_with(word) { Ok(at + word.len()) } else { invalid(at, "a value") }
}

#[inline]
fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests;
