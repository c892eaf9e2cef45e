//! Words of others beside ours: nothing in them is invisible, or changes how the rest looks.

use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;

/// A run of more spaces than this is shown as a number, for it could push the rest out of sight.
const MAX_SPACES: usize = 8;

/// Returns `true` for a character that is not seen, or that changes how others are seen: all of
/// Unicode that is for control, format or private use, that is to be ignored, or that is blank and no
/// space.
pub fn is_unseen(c: char) -> bool {
    static UNSEEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let classes = r"[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Zs}\u{2800}&&[^ ]]";
        Regex::new(classes).ok()
    });
    !matches!(c, ' '..='~')
        && UNSEEN.as_ref().is_none_or(|unseen| unseen.is_match(c.encode_utf8(&mut [0; 4])))
}

/// Returns the text with such characters as escapes, long runs of spaces as numbers, and `'` for a
/// backtick, so that it can stand between backticks: all that was written can be told from it.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        if spaces > MAX_SPACES {
            // Nothing fails that is written into a text.
            _ = write!(shown, " … {spaces} spaces … ");
            rest = &rest[spaces..];
            continue;
        }
        match c {
            '`' => shown.push('\''),
            c if is_unseen(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn nothing_looks_otherwise_than_it_is() {
        for (text, expected) in [
            (
                "a\u{202e}b\u{200b}\u{2800}\u{3164}\u{a0}c\u{fe0f}",
                r"a\u{202e}b\u{200b}\u{2800}\u{3164}\u{a0}c\u{fe0f}",
            ),
            ("\u{7f}\u{e0041}\u{e000}\u{2028}", r"\u{7f}\u{e0041}\u{e000}\u{2028}"),
            ("Grüße, 世界 `x`", "Grüße, 世界 'x'"),
        ] {
            assert_eq!(escaped(text), expected);
        }
        let far = format!("ls{}; rm", " ".repeat(500));
        assert_eq!(escaped(&far), "ls … 500 spaces … ; rm");
    }
}
