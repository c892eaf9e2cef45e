//! Text of others without anything that a terminal would obey: what would be, is shown instead.
//!
//! Servers, files and agents write names, results and log lines. All of it passes here before it is
//! printed or logged.

use std::borrow::Cow;
use std::fmt::Write;

/// Shows control characters and marks of writing direction as escapes; line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let mut chars = text.chars().peekable();
    let keeps = |c: char, next: Option<char>| matches!((c, next), ('\r', Some('\n')));
    escaped(text, || {
        let c = chars.next()?;
        let is_plain = matches!(c, '\n' | '\t') || !is_obeyed(c) || keeps(c, chars.peek().copied());
        Some((c, is_plain))
    })
}

/// Shows such characters, line breaks and tabs as escapes, so that there is one line.
pub(crate) fn printable(text: &str) -> String {
    let mut chars = text.chars();
    escaped(text, || chars.next().map(|c| (c, !is_obeyed(c)))).into_owned()
}

/// Writes such characters of a JSON text as JSON escapes. Only strings can hold them, but for the
/// white space between values, which stays.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    let is_plain = |c: char| matches!(c, '\n' | '\t' | '\r') || !is_obeyed(c);
    if json.chars().all(is_plain) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 32);
    let mut units = [0; 2];
    for c in json.chars() {
        if is_plain(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            // Nothing fails that is written into a text.
            _ = write!(text, "\\u{unit:04x}");
        }
    }
    Cow::Owned(text)
}

/// Returns `true` for characters that a terminal obeys besides showing them.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Marks that change the direction of writing, and line breaks that are none in ASCII.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Invisible copies of ASCII.
            | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text made of `next`'s characters, of which those that are not plain become escapes.
fn escaped(text: &str, mut next: impl FnMut() -> Option<(char, bool)>) -> Cow<'_, str> {
    let mut shown: Option<String> = None;
    let mut at = 0;
    while let Some((c, is_plain)) = next() {
        if is_plain {
            if let Some(shown) = &mut shown {
                shown.push(c);
            }
        } else {
            let shown = shown.get_or_insert_with(|| text[..at].to_owned());
            // Nothing fails that is written into a text.
            _ = match c {
                '\n' => write!(shown, "\\n"),
                '\r' => write!(shown, "\\r"),
                '\t' => write!(shown, "\\t"),
                '\0'..='\u{ff}' => write!(shown, "\\x{:02x}", u32::from(c)),
                _ => write!(shown, "\\u{{{:x}}}", u32::from(c)),
            };
        }
        at += c.len_utf8();
    }
    shown.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn shows_what_a_terminal_would_obey() {
        let text = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}b\rc\u{2066}\u{e0041}\u{8}";
        assert_eq!(visible(text), r"a\x1b[2J\x9b31m\x7f\u{202e}b\rc\u{2066}\u{e0041}\x08");
    }

    #[test]
    fn keeps_lines_tabs_and_every_language() {
        for text in ["one\n\ttwo\r\nthree", "Grüße 你好 שלום 👩\u{200d}🚀", ""] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn shows_line_breaks_where_there_is_one_line() {
        assert_eq!(printable("a\u{1b}[2J\nb\tc\r\n"), r"a\x1b[2J\nb\tc\r\n");
    }

    #[test]
    fn json_stays_json_of_the_same_value() {
        let text = "{\r\n\t\"a\u{9b}\": \"\u{202e}x\u{e0041}\u{7f}é\"}";
        let shown = visible_json(text);
        assert_eq!(shown, "{\r\n\t\"a\\u009b\": \"\\u202ex\\udb40\\udc41\\u007fé\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(text));
    }
}
