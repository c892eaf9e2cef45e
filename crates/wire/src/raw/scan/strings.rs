//! Strings within JSON text: where they end, and whether anything in them is escaped.
//!
//! Most of a long text lies in strings, so many bytes are looked at together.

use crate::raw::scan::{Scanned, invalid};

/// A promise about a text's strings, made before they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strings {
    /// Nothing.
    Any,
    /// They have no control characters, so there is nothing to look for but their ends.
    Plain,
}

impl Strings {
    /// Finds out at a glance: strings are plain if the whole text is printable ASCII, and anything
    /// else may be so or not.
    pub(crate) fn of(text: &[u8]) -> Self {
        let (words, rest) = text.as_chunks();
        // As in `before_special`: what is borrowed is borrowed by what was found.
        let found = words.iter().map(|word| u64::from_le_bytes(*word));
        let found = found.fold(0, |found, word| found | word | word.wrapping_sub(EACH * 0x20));
        let is_plain = |byte: &u8| (b' '..0x80).contains(byte);
        if found & HIGHEST == 0 && rest.iter().all(is_plain) { Self::Plain } else { Self::Any }
    }
}

/// How many bytes of a long string are looked at together; what the compiler makes of it is a few
/// vector instructions.
const TOGETHER: usize = 32;
/// The number of bytes of a short string that are looked at together; they fit into one number.
const WORD: usize = 8;
/// A word of ones, one in each byte, and the highest bit of each.
const EACH: u64 = u64::MAX / 255;
const HIGHEST: u64 = EACH << 7;

/// Returns `true` if one of the bytes means anything within a string but itself.
fn has_special(bytes: &[u8; TOGETHER]) -> bool {
    let mut found = 0;
    for byte in bytes {
        found |= u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < 0x20);
    }
    found != 0
}

/// How many bytes stand before the first that means anything but itself; all, if there is none.
fn before_special(bytes: [u8; WORD]) -> usize {
    // A byte's highest bit is set where it is less than what is taken away, and was not set before.
    // What is borrowed can spoil only the bytes behind the first that is found.
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(EACH * limit) & !bytes;
    let word = u64::from_le_bytes(bytes);
    let quote = below(word ^ (EACH * u64::from(b'"')), 1);
    let backslash = below(word ^ (EACH * u64::from(b'\\')), 1);
    let found = (quote | backslash | below(word, 0x20)) & HIGHEST;
    found.trailing_zeros() as usize / 8
}

/// Returns `true` if no byte means anything within a string but itself.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks();
    words.iter().all(|word| before_special(*word) == WORD)
        && !rest.iter().any(|byte| is_special(*byte))
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Where the string ends whose first byte after the quote is at `at`, its last quote included, and
/// whether nothing in it is escaped.
#[inline]
pub(super) fn skip_string(text: &[u8], at: usize, strings: Strings) -> Scanned<(usize, bool)> {
    // Most strings are keys and names, of a few letters.
    if let Some((bytes, rest)) = text.get(at..).and_then(<[u8]>::split_first_chunk) {
        let plain = before_special(*bytes);
        if text.get(at + plain) == Some(&b'"') {
            return Ok((at + plain + 1, true));
        }
        if let (WORD, Some(bytes)) = (plain, rest.first_chunk()) {
            let plain = WORD + before_special(*bytes);
            if text.get(at + plain) == Some(&b'"') {
                return Ok((at + plain + 1, true));
            }
        }
    }
    skip_other_string(text, at, strings)
}

/// The end of any string, with the same second value as for `skip_string`.
fn skip_other_string(text: &[u8], mut at: usize, strings: Strings) -> Scanned<(usize, bool)> {
    let (mut begin, mut is_plain) = (at, true);
    loop {
        if let Some(bytes) = text[at..].first_chunk() {
            let plain = before_special(*bytes);
            at += plain;
            if plain == WORD {
                if strings == Strings::Plain || at - begin >= TOGETHER {
                    at = skip_plain(text, at, strings);
                    begin = at;
                }
                continue;
            }
        } else {
            // The end of the text is near.
            let special = text[at..].iter().position(|byte| is_special(*byte));
            at += special.unwrap_or(text.len() - at);
        }
        match text.get(at) {
            Some(b'"') => return Ok((at + 1, is_plain)),
            Some(b'\\') => {
                at = skip_escape(text, at + 1)?;
                is_plain = false;
            }
            Some(_) => return invalid(at, "an escaped control character"),
            None => return invalid(at, "the end of a string"),
        }
    }
}

/// Passes over what means nothing but itself, or much of it.
fn skip_plain(text: &[u8], mut at: usize, strings: Strings) -> usize {
    match strings {
        Strings::Plain => memchr::memchr2(b'"', b'\\', &text[at..]).map_or(text.len(), |n| at + n),
        Strings::Any => {
            while let Some(bytes) = text[at..].first_chunk()
                && !has_special(bytes)
            {
                at += TOGETHER;
            }
            at
        }
    }
}

fn skip_escape(text: &[u8], at: usize) -> Scanned<usize> {
    match text.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match text.get(at + 1..at + 5) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 5),
            _ => invalid(at + 1, "four hexadecimal digits"),
        },
        _ => invalid(at, "an escape"),
    }
}
