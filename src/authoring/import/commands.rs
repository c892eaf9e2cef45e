//! Finds shell command substitutions in values: `$(…)` and `` `…` ``.

use std::ops::Range;

/// Returns the ranges of all command substitutions, delimiters included. An unterminated one is
/// plain text.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let text = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let end = match byte {
            b'\\' => {
                at += 2;
                continue;
            }
            b'$' if text.get(at + 1) == Some(&b'(') => end_of_group(text, at + 2),
            b'`' => end_of_quotation(text, at + 1, b'`'),
            _ => None,
        };
        match end {
            Some(end) => {
                found.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// Returns the position after the `)` that closes the group whose content starts at `at`.
fn end_of_group(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 1;
    while depth > 0 {
        at = match text.get(at)? {
            b'\\' => at + 2,
            quotation @ (b'"' | b'\'' | b'`') => end_of_quotation(text, at + 1, *quotation)?,
            b'(' => {
                depth += 1;
                at + 1
            }
            b')' => {
                depth -= 1;
                at + 1
            }
            _ => at + 1,
        };
    }
    Some(at)
}

/// Returns the position after the closing quotation mark.
fn end_of_quotation(text: &[u8], mut at: usize, mark: u8) -> Option<usize> {
    loop {
        match text.get(at)? {
            b'\\' if mark != b'\'' => at += 2,
            byte if *byte == mark => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn nested_and_quoted_commands_are_found() {
        let of = |text: &str| -> Vec<String> {
            find(text).into_iter().map(|place| text[place].to_owned()).collect()
        };
        for (text, commands) in [
            ("$(op read 'a)b')", &["$(op read 'a)b')"][..]),
            ("Bearer $(vault kv get x) é", &["$(vault kv get x)"]),
            ("$(a $(b) \"$(c ')')\")x", &["$(a $(b) \"$(c ')')\")"]),
            ("`a \\` b` and $(c)", &["`a \\` b`", "$(c)"]),
            ("$(echo \\))", &["$(echo \\))"]),
            ("\\$(a) \\`b\\` $a ${A} (b) $", &[]),
            ("$(a", &[]),
            ("$(a ' ) `", &[]),
            ("", &[]),
        ] {
            assert_eq!(of(text), commands, "{text}");
        }
    }
}
