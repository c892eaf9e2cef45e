//! Escapes terminal control characters in text from servers, files and agents before it is printed
//! or logged.

use std::borrow::Cow;
use std::fmt::Write;

/// Quotes a word for a POSIX shell if needed.
pub(crate) fn quote_for_shell(word: &str) -> Cow<'_, str> {
    // Fails only for NUL, which no command line can contain.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

/// Escapes control characters and bidirectional marks. Line breaks and tabs stay.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    let mut chars = text.chars().peekable();
    let keeps = |c: char, next: Option<char>| matches!((c, next), ('\r', Some('\n')));
    escaped(text, || {
        let c = chars.next()?;
        let is_plain =
            matches!(c, '\n' | '\t') || !is_terminal_control(c) || keeps(c, chars.peek().copied());
        Some((c, is_plain))
    })
}

/// Escapes line breaks and tabs, too, so that the result is one line.
pub(crate) fn escape_to_line(text: &str) -> String {
    let mut chars = text.chars();
    escaped(text, || chars.next().map(|c| (c, !is_terminal_control(c)))).into_owned()
}

/// Escapes control characters in JSON text as `\uXXXX`. White space between values stays; the other
/// control characters can only be in strings.
pub(crate) fn escape_json_controls(json: &str) -> Cow<'_, str> {
    let is_plain = |c: char| matches!(c, '\n' | '\t' | '\r') || !is_terminal_control(c);
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
            // Writing to a `String` never fails.
            _ = write!(text, "\\u{unit:04x}");
        }
    }
    Cow::Owned(text)
}

/// Returns `true` for characters that could alter a terminal or hide text.
fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Bidirectional marks and non-ASCII line breaks.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Tag characters: invisible copies of ASCII.
            | '\u{e0000}'..='\u{e007f}'
        )
}

/// `next` yields the characters of `text`, each with `false` if it has to be escaped.
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
            // Writing to a `String` never fails.
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
    fn escapes_terminal_control_characters() {
        let text = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}b\rc\u{2066}\u{e0041}\u{8}";
        assert_eq!(escape_controls(text), r"a\x1b[2J\x9b31m\x7f\u{202e}b\rc\u{2066}\u{e0041}\x08");
    }

    #[test]
    fn keeps_lines_tabs_and_every_language() {
        for text in ["one\n\ttwo\r\nthree", "Grüße 你好 שלום 👩\u{200d}🚀", ""] {
            assert!(matches!(escape_controls(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn escape_to_line_escapes_line_breaks() {
        assert_eq!(escape_to_line("a\u{1b}[2J\nb\tc\r\n"), r"a\x1b[2J\nb\tc\r\n");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let text = "{\r\n\t\"a\u{9b}\": \"\u{202e}x\u{e0041}\u{7f}é\"}";
        let shown = escape_json_controls(text);
        assert_eq!(shown, "{\r\n\t\"a\\u009b\": \"\\u202ex\\udb40\\udc41\\u007fé\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(text));
    }
}
