//! Characters that nobody sees, or that change how others are seen.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::catalog::remarks::rule::Hidden;
use crate::name::seen;

/// So many spaces in a row push what follows out of sight.
const MANY_SPACES: usize = 80;
/// So many line breaks in a row push what follows out of sight.
const MANY_BREAKS: usize = 15;

/// A run of hidden characters of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) kind: Hidden,
    /// The bytes of the text.
    pub(super) bytes: Range<usize>,
    /// The text that it spells, if it spells one.
    pub(super) says: Option<String>,
}

/// Returns the first run of each kind in a text, and of the kinds that can spell a text the longest.
pub(super) fn runs(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut add = |run: Run| match runs.iter_mut().find(|other| other.kind == run.kind) {
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
        add(Run { kind: Hidden::Spaces, bytes, says: None });
    }
    runs
}

/// Returns all runs of hidden characters in a text that have no honest reason to be there.
fn each(text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut current: Option<Run> = None;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match (kind(c, &text[end..]), &mut current) {
            (Some(kind), Some(run)) if run.kind == kind => run.bytes.end = end,
            (kind, _) => {
                runs.extend(current.take().filter(|run| !is_honest(run, text, before)));
                if let Some(kind) = kind {
                    before = text[..at].chars().next_back();
                    current = Some(Run { kind, bytes: at..end, says: None });
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

/// Returns the kind of a character, if it is a hidden one, given what follows it.
fn kind(c: char, rest: &str) -> Option<Hidden> {
    match c {
        '\n' | '\r' | '\t' | ' '..='~' => None,
        '\u{1b}' | '\u{9b}' => Some(match rest.chars().next() {
            Some('[' | ']' | '(' | 'P' | 'c' | '_' | '^') => Hidden::Terminal,
            _ if c == '\u{9b}' => Hidden::Terminal,
            _ => Hidden::Control,
        }),
        '\u{e0000}'..='\u{e007f}' => Some(Hidden::Tags),
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' => {
            Some(Hidden::Variations)
        }
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Hidden::Bidi)
        }
        c if c.is_control() => Some(Hidden::Control),
        c if c.is_whitespace() || c.is_alphanumeric() && !is_blank(c) => None,
        c if seen::is_unseen(c) => Some(if is_zero_width(c) || is_blank(c) {
            Hidden::ZeroWidth
        } else {
            Hidden::PrivateUse
        }),
        _ => None,
    }
}

/// Returns `true` for a letter that looks like nothing at all.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}')
}

fn is_zero_width(c: char) -> bool {
    static FORMAT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]").ok());
    let mut bytes = [0; 4];
    FORMAT.as_ref().is_some_and(|format| format.is_match(c.encode_utf8(&mut bytes)))
}

/// Returns `true` if a run is what honest texts have: one selector after a symbol, a joiner within an
/// emoji or a script that needs it, one mark of direction beside a letter of such a script, a mark of
/// the order of bytes at the very beginning.
fn is_honest(run: &Run, text: &str, before: Option<char>) -> bool {
    let inside = &text[run.bytes.clone()];
    let after = text[run.bytes.end..].chars().next();
    let is_single = inside.chars().nth(1).is_none();
    let is_foreign = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !c.is_whitespace());
    is_single
        && match run.kind {
            // `#` and digits become keys of a keyboard.
            Hidden::Variations => before.is_some_and(|c| {
                !c.is_ascii() && !seen::is_unseen(c) || "#*0123456789".contains(c)
            }),
            Hidden::ZeroWidth => match inside {
                "\u{feff}" => run.bytes.start == 0,
                "\u{200c}" | "\u{200d}" => is_foreign(before) && is_foreign(after),
                _ => false,
            },
            Hidden::Bidi => {
                matches!(inside, "\u{200e}" | "\u{200f}" | "\u{61c}")
                    && (is_foreign(before) || is_foreign(after))
            }
            _ => false,
        }
}

/// Returns the text that a run spells, if it is of a kind that can.
fn spelled(kind: Hidden, run: &str) -> Option<String> {
    let bytes: Vec<u8> = match kind {
        Hidden::Tags => {
            run.chars().filter_map(|c| u8::try_from(u32::from(c) - 0xe0000).ok()).collect()
        }
        Hidden::Variations => run
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

/// Returns the first run of white space that pushes what follows out of sight.
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

    fn kinds(text: &str) -> Vec<Hidden> {
        runs(text).into_iter().map(|run| run.kind).collect()
    }

    #[test]
    fn hidden_characters_are_told_by_kind() {
        for (text, kind) in [
            ("Adds\u{200b} numbers", Hidden::ZeroWidth),
            ("soft\u{ad}ly", Hidden::ZeroWidth),
            ("a\u{3164}b", Hidden::ZeroWidth),
            ("a\u{202e}b", Hidden::Bidi),
            ("a\u{1b}[8mhidden\u{1b}[0m", Hidden::Terminal),
            ("a\u{9b}2J", Hidden::Terminal),
            ("a\u{8}\u{8}b", Hidden::Control),
            ("a\u{e000}", Hidden::PrivateUse),
            ("a\u{fe01}", Hidden::Variations),
            (&format!("Adds.{}Obey.", " ".repeat(80)), Hidden::Spaces),
            (&format!("Adds.{}Obey.", "\n  ".repeat(15)), Hidden::Spaces),
        ] {
            assert_eq!(kinds(text), [kind], "{text:?}");
        }
    }

    #[test]
    fn honest_texts_have_nothing_hidden() {
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
    fn a_run_that_spells_a_text_says_it() {
        let tags: String =
            "Obey me".chars().filter_map(|c| char::from_u32(0xe0000 + u32::from(c))).collect();
        assert_eq!(runs(&format!("a{tags}"))[0].says.as_deref(), Some("Obey me"));
        let selectors: String =
            "Obey".bytes().filter_map(|b| char::from_u32(0xe0100 + u32::from(b) - 16)).collect();
        let hidden = runs(&format!("\u{1f600}\u{fe0f} and \u{1f600}{selectors}"));
        assert_eq!(hidden[0].says.as_deref(), Some("Obey"));
    }
}
