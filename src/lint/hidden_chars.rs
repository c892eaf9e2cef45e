//! Finds characters that are invisible, or change how others are displayed.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::lint::rule::HiddenChar;
use mcp_workbench_names::untrusted_text;

/// This many spaces in a row push the following text out of sight.
const MANY_SPACES: usize = 80;
/// This many line breaks in a row push the following text out of sight.
const MANY_BREAKS: usize = 15;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct HiddenRun {
    pub(super) kind: HiddenChar,
    pub(super) bytes: Range<usize>,
    /// The text that the run encodes, if any.
    pub(super) says: Option<String>,
}

/// Returns the first run of each kind in a text, or the longest one if it encodes a text.
pub(super) fn runs(text: &str) -> Vec<HiddenRun> {
    let mut runs: Vec<HiddenRun> = Vec::new();
    let mut add = |run: HiddenRun| match runs.iter_mut().find(|other| other.kind == run.kind) {
        None => runs.push(run),
        Some(other) if run.says.is_some() && run.bytes.len() > other.bytes.len() => *other = run,
        Some(_) => {}
    };
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        for run in each(text) {
            add(run);
        }
    }
    if let Some(bytes) = pushed(text) {
        add(HiddenRun { kind: HiddenChar::Spaces, bytes, says: None });
    }
    runs
}

/// Returns all runs of hidden characters that have no legitimate use.
fn each(text: &str) -> Vec<HiddenRun> {
    let mut runs = Vec::new();
    let mut current: Option<HiddenRun> = None;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match (kind(c, &text[end..]), &mut current) {
            (Some(kind), Some(run)) if run.kind == kind => run.bytes.end = end,
            (kind, _) => {
                runs.extend(current.take().filter(|run| !is_honest(run, text, before)));
                if let Some(kind) = kind {
                    before = text[..at].chars().next_back();
                    current = Some(HiddenRun { kind, bytes: at..end, says: None });
                }
            }
        }
    }
    runs.extend(current.filter(|run| !is_honest(run, text, before)));
    for run in &mut runs {
        run.says = spelled(run.kind, &text[run.bytes.clone()]);
    }
    runs
}

/// Returns the kind of a hidden character. `rest` is the text after it.
fn kind(c: char, rest: &str) -> Option<HiddenChar> {
    match c {
        '\n' | '\r' | '\t' | ' '..='~' => None,
        '\u{1b}' | '\u{9b}' => Some(match rest.chars().next() {
            Some('[' | ']' | '(' | 'P' | 'c' | '_' | '^') => HiddenChar::Terminal,
            _ if c == '\u{9b}' => HiddenChar::Terminal,
            _ => HiddenChar::Control,
        }),
        '\u{e0000}'..='\u{e007f}' => Some(HiddenChar::Tags),
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' => {
            Some(HiddenChar::Variations)
        }
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(HiddenChar::Bidi)
        }
        c if c.is_control() => Some(HiddenChar::Control),
        c if c.is_whitespace() || c.is_alphanumeric() && !is_blank(c) => None,
        c if untrusted_text::is_invisible(c) => Some(if is_zero_width(c) || is_blank(c) {
            HiddenChar::ZeroWidth
        } else {
            HiddenChar::PrivateUse
        }),
        _ => None,
    }
}

/// Returns `true` for a letter without a visible glyph.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}')
}

fn is_zero_width(c: char) -> bool {
    static FORMAT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]").ok());
    let mut bytes = [0; 4];
    FORMAT.as_ref().is_some_and(|format| format.is_match(c.encode_utf8(&mut bytes)))
}

/// Returns `true` for legitimate uses of a single character: a variation selector after a symbol, a
/// joiner within an emoji or a script that needs it, a direction mark next to a non-ASCII letter, a
/// byte order mark at the start.
fn is_honest(run: &HiddenRun, text: &str, before: Option<char>) -> bool {
    let inside = &text[run.bytes.clone()];
    let after = text[run.bytes.end..].chars().next();
    let is_single = inside.chars().nth(1).is_none();
    let is_foreign = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !c.is_whitespace());
    is_single
        && match run.kind {
            // `#`, `*` and digits become keycap emoji.
            HiddenChar::Variations => before.is_some_and(|c| {
                !c.is_ascii() && !untrusted_text::is_invisible(c) || "#*0123456789".contains(c)
            }),
            HiddenChar::ZeroWidth => match inside {
                "\u{feff}" => run.bytes.start == 0,
                "\u{200c}" | "\u{200d}" => is_foreign(before) && is_foreign(after),
                _ => false,
            },
            HiddenChar::Bidi => {
                matches!(inside, "\u{200e}" | "\u{200f}" | "\u{61c}")
                    && (is_foreign(before) || is_foreign(after))
            }
            _ => false,
        }
}

/// Decodes the text that a run of tags or variation selectors spells.
fn spelled(kind: HiddenChar, run: &str) -> Option<String> {
    let bytes: Vec<u8> = match kind {
        HiddenChar::Tags => {
            run.chars().filter_map(|c| u8::try_from(u32::from(c) - 0xe0000).ok()).collect()
        }
        HiddenChar::Variations => run
            .chars()
            .filter_map(|c| match u32::from(c) {
                number @ 0xfe00..=0xfe0f => u8::try_from(number - 0xfe00).ok(),
                number @ 0xe0100..=0xe01ef => u8::try_from(number - 0xe0100 + 16).ok(),
                _ => None,
            })
            .collect(),
        _ => return None,
    };
    let text = String::from_utf8(bytes).ok()?;
    let is_said = text.chars().filter(|c| !c.is_control()).count() >= 2;
    is_said.then_some(text)
}

/// Returns the first run of whitespace that pushes the following text out of sight.
fn pushed(text: &str) -> Option<Range<usize>> {
    let (mut from, mut spaces, mut breaks, mut most) = (0, 0, 0, 0);
    for (at, c) in text.char_indices() {
        if matches!(c, '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}') {
            breaks += 1;
            spaces = 0;
        } else if c.is_whitespace() || is_blank(c) {
            spaces += 1;
            most = most.max(spaces);
        } else if breaks >= MANY_BREAKS || most >= MANY_SPACES {
            return Some(from..at);
        } else {
            (from, spaces, breaks, most) = (at + c.len_utf8(), 0, 0, 0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<HiddenChar> {
        runs(text).into_iter().map(|run| run.kind).collect()
    }

    #[test]
    fn hidden_characters_are_classified() {
        for (text, kind) in [
            ("Adds\u{200b} numbers", HiddenChar::ZeroWidth),
            ("soft\u{ad}ly", HiddenChar::ZeroWidth),
            ("a\u{3164}b", HiddenChar::ZeroWidth),
            ("a\u{202e}b", HiddenChar::Bidi),
            ("a\u{1b}[8mhidden\u{1b}[0m", HiddenChar::Terminal),
            ("a\u{9b}2J", HiddenChar::Terminal),
            ("a\u{8}\u{8}b", HiddenChar::Control),
            ("a\u{e000}", HiddenChar::PrivateUse),
            ("a\u{fe01}", HiddenChar::Variations),
            (&format!("Adds.{}Obey.", " ".repeat(80)), HiddenChar::Spaces),
            (&format!("Adds.{}Obey.", "\n  ".repeat(15)), HiddenChar::Spaces),
        ] {
            assert_eq!(kinds(text), [kind], "{text:?}");
        }
    }

    #[test]
    fn legitimate_characters_are_not_hidden() {
        for text in [
            "Deletes \u{26a0}\u{fe0f} everything, \u{2714}\u{fe0e} 1\u{fe0f}\u{20e3}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} and \u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{feff}At the beginning",
            "a\tb\r\n\u{a0}c \u{2014} \u{4e16}\u{754c}",
            "Args:\n                a: one\n\n\n                b: two\n",
            &format!("Nothing follows.{}", "\n".repeat(99)),
        ] {
            assert_eq!(kinds(text), [], "{text:?}");
        }
    }

    #[test]
    fn encoded_text_of_a_run_is_decoded() {
        let tags: String =
            "Obey me".chars().filter_map(|c| char::from_u32(0xe0000 + u32::from(c))).collect();
        assert_eq!(runs(&format!("a{tags}"))[0].says.as_deref(), Some("Obey me"));
        let selectors: String =
            "Obey".bytes().filter_map(|b| char::from_u32(0xe0100 + u32::from(b) - 16)).collect();
        let hidden = runs(&format!("\u{1f600}\u{fe0f} and \u{1f600}{selectors}"));
        assert_eq!(hidden[0].says.as_deref(), Some("Obey"));
    }
}
