//! Skips strings in JSON text and detects escapes, several bytes at a time.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json::scan::{Scanned, invalid, skip_space};

/// Prior knowledge about the strings of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringHint {
    Any,
    /// No control characters; only quotes and backslashes have to be looked for.
    Plain,
}

impl StringHint {
    /// Returns `Plain` if the whole text is printable ASCII, else `Any`.
    pub(crate) fn of(text: &[u8]) -> Self {
        let (words, rest) = text.as_chunks();
        // Borrows between bytes are harmless, as in `before_special`: only a match causes one.
        let found = words.iter().map(|word| u64::from_le_bytes(*word));
        let found = found.fold(0, |found, word| found | word | word.wrapping_sub(EACH * 0x20));
        let is_plain = |byte: &u8| (b' '..0x80).contains(byte);
        if found & HIGHEST == 0 && rest.iter().all(is_plain) { Self::Plain } else { Self::Any }
    }
}

/// The block size for long strings, in bytes. The compiler vectorizes the check of a block.
const TOGETHER: usize = 32;
/// The block size for short strings, in bytes: one `u64`.
const WORD: usize = 8;
/// A word with 1 in each byte; `HIGHEST` has the top bit of each.
const EACH: u64 = u64::MAX / 255;
const HIGHEST: u64 = EACH << 7;

/// Returns `true` if any byte is a quote, a backslash or a control character.
fn has_special(bytes: &[u8; TOGETHER]) -> bool {
    let mut found = 0;
    for byte in bytes {
        found |= u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < 0x20);
    }
    found != 0
}

/// Returns the number of bytes before the first quote, backslash or control character.
fn before_special(bytes: [u8; WORD]) -> usize {
    // The top bit of a byte gets set if the byte is less than the limit and had its top bit clear.
    // A borrow corrupts only the bytes after the first match.
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(EACH * limit) & !bytes;
    let word = u64::from_le_bytes(bytes);
    let quote = below(word ^ (EACH * u64::from(b'"')), 1);
    let backslash = below(word ^ (EACH * u64::from(b'\\')), 1);
    let found = (quote | backslash | below(word, 0x20)) & HIGHEST;
    found.trailing_zeros() as usize / 8
}

/// Returns `true` if no byte needs escaping in a JSON string.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks();
    words.iter().all(|word| before_special(*word) == WORD)
        && !rest.iter().any(|byte| is_special(*byte))
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Returns the end of a string, behind its closing quote, and `true` if it has no escapes. `at` is
/// the first byte after the opening quote.
#[inline]
pub(super) fn skip_string(text: &[u8], at: usize, strings: StringHint) -> Scanned<(usize, bool)> {
    // Fast path: most strings are short keys and names.
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

fn skip_other_string(text: &[u8], mut at: usize, strings: StringHint) -> Scanned<(usize, bool)> {
    let (mut begin, mut is_plain) = (at, true);
    loop {
        if let Some(bytes) = text[at..].first_chunk() {
            let plain = before_special(*bytes);
            at += plain;
            if plain == WORD {
                if strings == StringHint::Plain || at - begin >= TOGETHER {
                    at = skip_plain(text, at, strings);
                    begin = at;
                }
                continue;
            }
        } else {
            // Less than a block is left.
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

/// Returns the offset of the first unpaired surrogate in the name of a member, at any depth, in
/// valid JSON. No `str` can represent such a name, but JSON allows it.
pub(crate) fn unpaired_surrogate_in_name(text: &[u8]) -> Option<usize> {
    let mut end = 0;
    unpaired_surrogates(text).find(|at| {
        // Skip each string once: all of it can be surrogates.
        if *at < end {
            return false;
        }
        let Ok((after, _)) = skip_string(text, *at, StringHint::Any) else { return false };
        end = after;
        text.get(skip_space(text, end)) == Some(&b':')
    })
}

/// Iterates over the offsets of the escapes in valid JSON that are half of a surrogate pair. Each
/// is six bytes long.
pub(crate) fn unpaired_surrogates(text: &[u8]) -> impl Iterator<Item = usize> {
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br"\u"));
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(br"\u")?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let begin = at + ESCAPE.find(&text[at..])?;
            at = begin + 2;
            if !matches!(text.get(at), Some(b'd' | b'D')) {
                continue;
            }
            // A backslash before it can be half of an escaped backslash.
            let before = text[..begin].iter().rev();
            if before.take_while(|byte| **byte == b'\\').count() % 2 == 1 {
                continue;
            }
            match (unit(begin), unit(begin + 6)) {
                (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => at = begin + 12,
                (Some(0xD800..0xE000), _) => {
                    at = begin + 6;
                    return Some(begin);
                }
                _ => {}
            }
        }
    })
}

/// Skips plain bytes block by block: all of them with `Plain`, some of them with `Any`.
fn skip_plain(text: &[u8], mut at: usize, strings: StringHint) -> usize {
    match strings {
        StringHint::Plain => {
            memchr::memchr2(b'"', b'\\', &text[at..]).map_or(text.len(), |n| at + n)
        }
        StringHint::Any => {
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
        _ => invalid(at, "a valid escape sequence"),
    }
}
