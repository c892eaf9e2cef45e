//! Canonical and human-readable text of tool definitions, for comparing them.

use std::fmt::Write;

use crate::json::{EditError, RawJson, array};

/// Replaces an ignored word.
const IGNORED: &str = "\u{0}";
/// The longest ignorable word, in bytes: too short for a sentence.
const MAX_IGNORED: usize = 64;

/// Returns the canonical text ([`RawJson::canonical`]) of a definition, without `_meta` and
/// without the ignored parts.
///
/// Each ignored part is a JSON pointer and the indexes of ignored words in that string; no
/// indexes means the whole value. `None` if the definition is ambiguous.
pub fn canonical_definition(value: &RawJson, ignored: &[(String, Vec<usize>)]) -> Option<Vec<u8>> {
    let mut said = without_meta(value).ok()?;
    for (pointer, words) in ignored {
        let steps: Option<Vec<String>> = match pointer.as_str() {
            "" => Some(Vec::new()),
            pointer => pointer.strip_prefix('/').map(|steps| {
                steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
            }),
        };
        // A part that doesn't exist ignores nothing.
        said = steps.and_then(|steps| hidden(&said, &steps, words)).unwrap_or(said);
    }
    said.canonical(usize::MAX)
}

/// Returns a definition without `_meta`. Instructions are a string, which has no members.
///
/// # Errors
///
/// Returns an error if a member can't be read.
pub fn without_meta(value: &RawJson) -> Result<RawJson, EditError> {
    if value.text.starts_with(b"{") { value.without_member("_meta") } else { Ok(value.clone()) }
}

/// Formats the value with one member or item a line, members sorted, and invisible characters
/// escaped. `None` if the value is ambiguous.
pub fn to_pretty_string(
    value: &RawJson,
    indent: usize,
    is_unseen: fn(char) -> bool,
) -> Option<String> {
    let canonical = RawJson::new(value.canonical(usize::MAX)?.into());
    let mut text = String::new();
    write_lines(&canonical, indent, is_unseen, &mut text)?;
    Some(text)
}

/// Returns the value with the ignored part at `steps` masked; `None` if that part doesn't exist.
fn hidden(value: &RawJson, steps: &[String], words: &[usize]) -> Option<RawJson> {
    let Some((step, rest)) = steps.split_first() else { return without_words(value, words) };
    if let Some(member) = value.member(step) {
        return value.with_member(step, &hidden(&member, rest, words)?).ok();
    }
    let mut items = value.items()?;
    let at: usize = step.parse().ok()?;
    let item = items.get(at)?;
    items[at] = hidden(item, rest, words)?;
    Some(array(&items))
}

fn without_words(value: &RawJson, ignored: &[usize]) -> Option<RawJson> {
    if ignored.is_empty() {
        return Some(RawJson::from_text(IGNORED));
    }
    let text = value.decode_string()?;
    let mut words: Vec<&str> = text.split(' ').collect();
    for at in ignored {
        let word = words.get_mut(*at)?;
        if !is_word(word) {
            return None;
        }
        *word = IGNORED;
    }
    Some(RawJson::from_text(&words.join(" ")))
}

/// Returns `true` if a word may differ between runs, such as a time zone, number or time.
fn is_word(word: &str) -> bool {
    word.len() <= MAX_IGNORED && word.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the indexes of the words that differ; `None` if more than single words differ.
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
    value: &RawJson,
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
                push_visible(text, &RawJson::from_text(key).as_str(), is_unseen);
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

/// Appends JSON text with invisible characters as `\u` escapes, so that differences show.
fn push_visible(text: &mut String, json: &str, is_unseen: fn(char) -> bool) {
    for c in json.chars() {
        if c.is_ascii() || !is_unseen(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string can't fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::encode(&serde_json::from_str::<Box<RawValue>>(text).unwrap())
    }

    fn said(text: &str, pointer: &str, words: &[usize]) -> String {
        let said =
            canonical_definition(&raw(text), &[(pointer.to_owned(), words.to_vec())]).unwrap();
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn canonical_definition_omits_only_meta() {
        let one = r#"{"name":"a","_meta":{"x":1},"annotations":{"readOnlyHint":true}}"#;
        let expected = r#"{"annotations":{"readOnlyHint":true},"name":"a"}"#;
        assert_eq!(canonical_definition(&raw(one), &[]).unwrap(), expected.as_bytes());
        assert_eq!(canonical_definition(&raw(r#"{"a":1,"a":2}"#), &[]), None);
    }

    #[test]
    fn ignored_word_matches_single_short_words_only() {
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
    fn ignored_value_matches_anything() {
        let one = |text: &str| said(&format!(r#"{{"d":{text},"n":1}}"#), "/d", &[]);
        assert_eq!(one(r#""a b""#), one("{}"));
        assert_ne!(said(r#"{"n":1}"#, "/d", &[]), one("1"));
    }

    #[test]
    fn differing_words_are_found() {
        assert_eq!(other_words("in UTC now", "in JST now"), Some(vec![1]));
        assert_eq!(other_words("in UTC now", "in Tokyo right now"), None);
        assert_eq!(other_words("a\nb c", "d c"), None);
    }

    #[test]
    fn pretty_text_escapes_invisible_characters() {
        let value = raw(r#"{"b":[1.0,{}],"a":"x\u202ey\udb40\udc41é"}"#);
        let expected = concat!(
            "{\n    \"a\": \"x\\u202ey\\udb40\\udc41é\",\n",
            "    \"b\": [\n      1.0,\n      {}\n    ]\n  }"
        );
        let is_unseen = |c: char| matches!(c, '\u{202e}' | '\u{e0041}');
        let text = to_pretty_string(&value, 2, is_unseen).unwrap();
        assert_eq!(text, expected);
        assert_eq!(canonical_definition(&raw(&text), &[]), canonical_definition(&value, &[]));
    }
}
