//! Finds the members of objects and the items of arrays in JSON text, checking the text as it
//! goes, and without taking values apart.
//!
//! The text must be UTF-8; that it is, is checked once, when a message is read. Everything else is
//! checked here, as RFC 8259 has it. How deep values lie within each other is bounded by the
//! text's length alone, for nothing calls itself. Most of a long text lies in strings, so these are
//! passed over as fast as it goes where nothing in them has to be looked at ([`Strings::Plain`]).

mod strings;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::raw::scan::strings::skip_string;
pub(crate) use crate::raw::scan::strings::{Strings, is_plain};

/// Why a text is not JSON, or not what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where.
    pub at: usize,
    /// The thing that should have been there.
    pub expected: &'static str,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was expected at byte {}", self.expected, self.at)
    }
}

type Scanned<T> = Result<T, Invalid>;

fn invalid<T>(at: usize, expected: &'static str) -> Scanned<T> {
    Err(Invalid { at, expected })
}

/// The key of a member, as it is written between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    text: &'a [u8],
    /// `true` if nothing in it is escaped.
    is_plain: bool,
}

impl<'a> Key<'a> {
    /// A key as it is written between its quotes, with nothing escaped in it or not.
    pub(crate) fn new(text: &'a [u8], is_plain: bool) -> Self {
        Self { text, is_plain }
    }

    /// Returns `true` if nothing in it is escaped.
    pub(crate) fn is_plain(self) -> bool {
        self.is_plain
    }

    /// Where it stands in the text that it was found in.
    pub(crate) fn place_in(self, text: &[u8]) -> Range<usize> {
        let begin = self.text.as_ptr().addr() - text.as_ptr().addr();
        begin..begin + self.text.len()
    }

    /// The text between the quotes of `string`; `None` when it is no string.
    pub(crate) fn of_string(string: &'a [u8]) -> Option<Self> {
        let text = string.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        Some(Self { text, is_plain: memchr::memchr(b'\\', text).is_none() })
    }

    /// The key as a text; `None` when it is none, for half of a surrogate pair stands alone in it.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        match self.unescaped()? {
            Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
            Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
        }
    }

    /// The key as bytes, without escapes; `None` when it is no text.
    pub fn unescaped(self) -> Option<Cow<'a, [u8]>> {
        if self.is_plain {
            return Some(Cow::Borrowed(self.text));
        }
        let quoted = [b"\"", self.text, b"\""].concat();
        let text = serde_json::from_slice::<String>(&quoted).ok()?;
        Some(Cow::Owned(text.into_bytes()))
    }
}

/// A member of an object or an item of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key of a member; empty for an item.
    pub key: Key<'a>,
    /// Where its value stands.
    pub value: Range<usize>,
}

/// Goes through one object or array that is part of a text, from value to value.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    strings: Strings,
    at: usize,
    close: u8,
    is_first: bool,
}

impl<'a> Cursor<'a> {
    /// Through the object that begins at `at`; an error when there is none.
    pub(crate) fn in_object(text: &'a [u8], at: usize, strings: Strings) -> Scanned<Self> {
        if text.get(at) != Some(&b'{') {
            return invalid(at, "an object");
        }
        Ok(Self { text, strings, at: at + 1, close: b'}', is_first: true })
    }

    /// Through the object that `text` is; an error when it is none.
    pub(crate) fn in_whole(text: &'a [u8], strings: Strings) -> Scanned<Self> {
        Self::in_object(text, skip_space(text, 0), strings)
    }

    /// Through the array that begins at `at`; an error when there is none.
    fn in_array(text: &'a [u8], at: usize, strings: Strings) -> Scanned<Self> {
        if text.get(at) != Some(&b'[') {
            return invalid(at, "an array");
        }
        Ok(Self { text, strings, at: at + 1, close: b']', is_first: true })
    }

    /// Where it stands: at a value, or behind the whole.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Goes from the end of one value to the beginning of the next, and gives that one's key, which
    /// is empty for an item; `None` after the last.
    #[inline]
    pub(crate) fn advance(&mut self) -> Scanned<Option<Key<'a>>> {
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
        let mut key = Key { text: &[], is_plain: true };
        if self.close == b'}' {
            (key, at) = skip_key(self.text, at, self.strings)?;
        }
        self.at = at;
        Ok(Some(key))
    }

    /// Passes over the value that it stands at, and says where that is.
    #[inline]
    pub(crate) fn pass(&mut self) -> Scanned<Range<usize>> {
        let begin = self.at;
        self.at = skip_value(self.text, begin, self.strings)?;
        Ok(begin..self.at)
    }

    /// Passes over the value that it stands at, and that ends at `end`.
    pub(crate) fn pass_to(&mut self, end: usize) -> Range<usize> {
        std::mem::replace(&mut self.at, end)..end
    }

    /// Checks that nothing follows the whole, of which it stands at the end.
    pub(crate) fn finish(&self) -> Scanned<()> {
        let end = skip_space(self.text, self.at);
        if end == self.text.len() { Ok(()) } else { invalid(end, "the end") }
    }
}

/// The entries of one object or array, in their order. After an error there are no more.
#[derive(Debug)]
pub struct Entries<'a> {
    cursor: Cursor<'a>,
    is_done: bool,
}

impl<'a> Entries<'a> {
    /// The members of the object that `text` is; an error when it is no object.
    pub(crate) fn of_object(text: &'a [u8], strings: Strings) -> Scanned<Self> {
        Ok(Self { cursor: Cursor::in_whole(text, strings)?, is_done: false })
    }

    /// The items of the array that `text` is; an error when it is no array.
    pub(crate) fn of_array(text: &'a [u8], strings: Strings) -> Scanned<Self> {
        let cursor = Cursor::in_array(text, skip_space(text, 0), strings)?;
        Ok(Self { cursor, is_done: false })
    }

    /// The next entry, or `None` after the last, when nothing follows the whole.
    #[inline]
    fn advance(&mut self) -> Scanned<Option<Entry<'a>>> {
        match self.cursor.advance()? {
            Some(key) => Ok(Some(Entry { key, value: self.cursor.pass()? })),
            None => self.cursor.finish().map(|()| None),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Scanned<Entry<'a>>;

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

/// Checks that `text` is one JSON value.
pub(crate) fn check(text: &[u8]) -> Scanned<()> {
    let end = skip_space(text, skip_value(text, skip_space(text, 0), Strings::Any)?);
    if end == text.len() { Ok(()) } else { invalid(end, "the end") }
}

/// Which of the values that the place lies in are objects, the innermost last.
#[derive(Default)]
struct Nesting {
    depth: usize,
    /// The innermost up to 64, one bit each, and those around them.
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

/// Where the value ends that begins at `at`.
#[inline]
pub(crate) fn skip_value(text: &[u8], at: usize, strings: Strings) -> Scanned<usize> {
    match text.get(at) {
        Some(b'{' | b'[') => skip_nested(text, at, strings),
        _ => skip_scalar(text, at, strings),
    }
}

/// The end of a value that has no others in it.
#[inline]
fn skip_scalar(text: &[u8], at: usize, strings: Strings) -> Scanned<usize> {
    match text.get(at) {
        Some(b'"') => Ok(skip_string(text, at + 1, strings)?.0),
        Some(b'-' | b'0'..=b'9') => skip_number(text, at),
        Some(b't') => skip_word(text, at, b"true"),
        Some(b'f') => skip_word(text, at, b"false"),
        Some(b'n') => skip_word(text, at, b"null"),
        _ => invalid(at, "a value"),
    }
}

/// The end of an object or an array.
fn skip_nested(text: &[u8], mut at: usize, strings: Strings) -> Scanned<usize> {
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
        // After a value: the ends of those around it, and the beginning of the next.
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

/// The key that begins at `at`, and where its value begins.
#[inline]
fn skip_key(text: &[u8], at: usize, strings: Strings) -> Scanned<(Key<'_>, usize)> {
    if text.get(at) != Some(&b'"') {
        return invalid(at, "a key");
    }
    let (end, is_plain) = skip_string(text, at + 1, strings)?;
    let colon = skip_space(text, end);
    if text.get(colon) != Some(&b':') {
        return invalid(colon, "a colon");
    }
    Ok((Key { text: &text[at + 1..end - 1], is_plain }, skip_space(text, colon + 1)))
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
