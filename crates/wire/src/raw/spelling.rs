//! Definitions that are compared and shown: what one says in one spelling, and in lines to be read.

use std::fmt::Write;

use crate::raw::{Raw, array};

/// The word that stands for one that is ignored.
const IGNORED: &str = "\u{0}";
/// The longest word that may be ignored, in bytes. No sentence has room in it.
const MAX_IGNORED: usize = 64;

impl Raw {
    /// The meaning of a definition in one spelling: [`Raw::canonical`] without `_meta`, and with nothing at
    /// the places that are ignored, each a JSON pointer and the words there, or none for all of them.
    /// `None` if it is not clear what it says.
    pub fn said(&self, ignored: &[(String, Vec<usize>)]) -> Option<Vec<u8>> {
        let mut said = self.without_member("_meta").unwrap_or_else(|| self.clone());
        for (pointer, words) in ignored {
            let steps: Option<Vec<String>> = match pointer.as_str() {
                "" => Some(Vec::new()),
                pointer => pointer.strip_prefix('/').map(|steps| {
                    steps
                        .split('/')
                        .map(|step| step.replace("~1", "/").replace("~0", "~"))
                        .collect()
                }),
            };
            // What is not there is not ignored.
            said = steps.and_then(|steps| hidden(&said, &steps, words)).unwrap_or(said);
        }
        said.canonical(usize::MAX)
    }

    /// The value on many lines, a member or item on each, its members in order; characters that are not
    /// `seen` are escaped. `None` if it is not clear what it says.
    pub fn on_lines(&self, indent: usize, is_unseen: fn(char) -> bool) -> Option<String> {
        let canonical = Self::new(self.canonical(usize::MAX)?.into());
        let mut text = String::new();
        write_lines(&canonical, indent, is_unseen, &mut text)?;
        Some(text)
    }
}

/// The value with what is at `steps` hidden; `None` if there is no such place.
fn hidden(value: &Raw, steps: &[String], words: &[usize]) -> Option<Raw> {
    let Some((step, rest)) = steps.split_first() else { return without_words(value, words) };
    if let Some(member) = value.member(step) {
        return value.with_member(step, &hidden(&member, rest, words)?);
    }
    let mut items = value.items()?;
    let at: usize = step.parse().ok()?;
    let item = items.get(at)?;
    items[at] = hidden(item, rest, words)?;
    Some(array(&items))
}

fn without_words(value: &Raw, ignored: &[usize]) -> Option<Raw> {
    if ignored.is_empty() {
        return Some(Raw::of_text(IGNORED));
    }
    let text = value.text()?;
    let mut words: Vec<&str> = text.split(' ').collect();
    for at in ignored {
        let word = words.get_mut(*at)?;
        if !is_word(word) {
            return None;
        }
        *word = IGNORED;
    }
    Some(Raw::of_text(&words.join(" ")))
}

/// Returns `true` if a word is one that may be another from run to run: a zone, a number, a time.
fn is_word(word: &str) -> bool {
    word.len() <= MAX_IGNORED && word.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The words of `one` that are others in `other`; `None` if more than single words differ.
pub fn other_words(one: &str, other: &str) -> Option<Vec<usize>> {
    let (ones, others): (Vec<_>, Vec<_>) = (one.split(' ').collect(), other.split(' ').collect());
    if ones.len() != others.len() {
        return None;
    }
    let pairs = ones.iter().zip(&others).enumerate();
    let differing: Vec<_> = pairs.filter(|(_, (a, b))| a != b).collect();
    let are_words = differing.iter().all(|(_, (a, b))| is_word(a) && is_word(b));
    are_words.then(|| differing.into_iter().map(|(at, _)| at).collect())
}

fn write_lines(
    value: &Raw,
    indent: usize,
    is_unseen: fn(char) -> bool,
    text: &mut String,
) -> Option<()> {
    let line = |text: &mut String, indent: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent));
    };
    let written = value.as_str();
    match value.as_bytes().first()? {
        b'{' if value.len() > 2 => {
            text.push('{');
            for (at, (key, member)) in value.members()?.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                line(text, indent + 2);
                push_visible(text, &Raw::of_text(key).as_str(), is_unseen);
                text.push_str(": ");
                write_lines(member, indent + 2, is_unseen, text)?;
            }
            line(text, indent);
            text.push('}');
        }
        b'[' if value.len() > 2 => {
            text.push('[');
            for (at, item) in value.items()?.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                line(text, indent + 2);
                write_lines(item, indent + 2, is_unseen, text)?;
            }
            line(text, indent);
            text.push(']');
        }
        b'"' => push_visible(text, &written, is_unseen),
        _ => text.push_str(&written),
    }
    Some(())
}

/// Writes a text in JSON with what is not seen in it as escapes, so that a difference is seen.
fn push_visible(text: &mut String, json: &str, is_unseen: fn(char) -> bool) {
    for c in json.chars() {
        if c.is_ascii() || !is_unseen(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing into memory does not fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::encode(&serde_json::from_str::<Box<RawValue>>(text).unwrap())
    }

    fn said(text: &str, pointer: &str, words: &[usize]) -> String {
        let said = raw(text).said(&[(pointer.to_owned(), words.to_vec())]).unwrap();
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn all_of_a_definition_is_said_but_for_what_is_for_programs() {
        let one = r#"{"name":"a","_meta":{"x":1},"annotations":{"readOnlyHint":true}}"#;
        let expected = r#"{"annotations":{"readOnlyHint":true},"name":"a"}"#;
        assert_eq!(raw(one).said(&[]).unwrap(), expected.as_bytes());
        assert_eq!(raw(r#"{"a":1,"a":2}"#).said(&[]), None);
    }

    #[test]
    fn a_word_that_is_ignored_may_be_another_word_and_no_sentence() {
        let in_zone = |zone: &str| {
            let text = format!(r#"{{"p":[{{"d/d":"Use '{zone}' here."}}]}}"#);
            said(&text, "/p/0/d~1d", &[1])
        };
        assert_eq!(in_zone("Etc/UTC"), in_zone("Asia/Tokyo"));
        assert_ne!(in_zone("Etc/UTC"), in_zone("Etc/UTC and send it"));
        assert_ne!(in_zone("Etc/UTC"), in_zone("\u{200b}"));
        assert_ne!(in_zone("Etc/UTC"), in_zone(&"x".repeat(65)));
        let other = said(r#"{"p":[{"d/d":"Take 'Etc/UTC' here."}]}"#, "/p/0/d~1d", &[1]);
        assert_ne!(in_zone("Etc/UTC"), other);
    }

    #[test]
    fn a_place_that_is_ignored_whole_may_have_anything() {
        let one = |text: &str| said(&format!(r#"{{"d":{text},"n":1}}"#), "/d", &[]);
        assert_eq!(one(r#""a b""#), one("{}"));
        assert_ne!(said(r#"{"n":1}"#, "/d", &[]), one("1"));
    }

    #[test]
    fn words_that_differ_are_found_where_nothing_else_differs() {
        assert_eq!(other_words("in UTC now", "in JST now"), Some(vec![1]));
        assert_eq!(other_words("in UTC now", "in Tokyo right now"), None);
        assert_eq!(other_words("a\nb c", "d c"), None);
    }

    #[test]
    fn lines_have_a_member_each_and_show_what_is_not_seen() {
        let value = raw(r#"{"b":[1.0,{}],"a":"x\u202ey\udb40\udc41é"}"#);
        let expected = concat!(
            "{\n    \"a\": \"x\\u202ey\\udb40\\udc41é\",\n",
            "    \"b\": [\n      1.0,\n      {}\n    ]\n  }"
        );
        let is_unseen = |c: char| matches!(c, '\u{202e}' | '\u{e0041}');
        let text = value.on_lines(2, is_unseen).unwrap();
        assert_eq!(text, expected);
        assert_eq!(raw(&text).said(&[]), value.said(&[]));
    }
}
