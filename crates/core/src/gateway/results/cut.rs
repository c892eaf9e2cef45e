//! Where a result is cut.

use crate::raw::Raw;

/// A result in two.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The blocks that are given.
    pub(crate) content: Vec<Raw>,
    /// The rest, in the order of the result: texts as they are, and anything else as its JSON.
    pub(crate) rest: String,
    /// `true` if `structuredContent` is part of the rest; it comes last.
    pub(crate) is_structured: bool,
}

/// Cuts a result whose content has more than `most` bytes. A text is cut between two characters,
/// and whatever comes after it is left; any other block that does not fit is left whole.
pub(crate) fn cut(result: &Raw, most: usize) -> Option<Cut> {
    let blocks = result.member("content").and_then(|content| content.items()).unwrap_or_default();
    let structured = result.member("structuredContent");
    let total: usize = blocks.iter().chain(&structured).map(Raw::len).sum();
    if total <= most {
        return None;
    }
    let mut cut = Cut { content: Vec::new(), rest: String::new(), is_structured: false };
    let mut room = most;
    let mut is_over = false;
    for block in blocks {
        if !is_over && block.len() <= room {
            room -= block.len();
            cut.content.push(block);
            continue;
        }
        let Some(text) = text_of(&block) else {
            cut.leave(&block.as_str());
            continue;
        };
        let written = block.member("text").map_or(0, |text| text.len());
        let around = block.len() - written + 2;
        let end = if is_over { 0 } else { fitting(&text, room.saturating_sub(around)) };
        is_over = true;
        room = 0;
        if end > 0
            && let Some(first) = block.with_member("text", &Raw::of_text(&text[..end]))
        {
            cut.content.push(first);
            cut.leave(&text[end..]);
        } else {
            cut.leave(&text);
        }
    }
    if let Some(structured) = structured.filter(|structured| structured.len() > room) {
        cut.is_structured = true;
        cut.leave(&format!("structuredContent: {}", structured.as_str()));
    }
    Some(cut)
}

impl Cut {
    fn leave(&mut self, text: &str) {
        if !self.rest.is_empty() {
            self.rest.push('\n');
        }
        self.rest.push_str(text);
    }
}

/// The text of a block of text, if it is one.
fn text_of(block: &Raw) -> Option<String> {
    let is_text = block.member("type")?.text()? == "text";
    let text = block.member("text").filter(|_| is_text)?;
    text.text().map(std::borrow::Cow::into_owned)
}

/// How much of a text takes at most `most` bytes when it is written as JSON, without its quotes.
pub(crate) fn fitting(text: &str, most: usize) -> usize {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..'\u{20}' => 6,
            c => c.len_utf8(),
        };
        if taken > most {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use serde_json::{Value, json};

    use super::*;

    /// Returns the part that is given, and the rest.
    fn cut_up(result: &Value, most: usize) -> Option<(Value, String, bool)> {
        let Cut { content, rest, is_structured } = cut(&Raw::encode(result), most)?;
        let content: Vec<Value> = content.iter().map(|block| block.parse().unwrap()).collect();
        Some((content.into(), rest, is_structured))
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn what_is_short_is_not_cut() {
        assert_eq!(cut_up(&json!({"content": [text("abc")], "_meta": "x".repeat(100)}), 50), None);
        assert_eq!(cut_up(&json!({"content": "x".repeat(100)}), 50), None);
        assert_eq!(cut_up(&json!({}), 50), None);
    }

    #[test]
    fn texts_are_cut_and_other_blocks_are_left_whole() {
        let image = json!({"type": "image", "data": "x".repeat(100), "mimeType": "image/png"});
        let long = format!("{}€\n{}", "a".repeat(20), "b".repeat(100));
        let annotated = json!({"type": "text", "text": long, "annotations": {"priority": 1}});
        let content = json!([image, text("first"), annotated, text("last"), {"type": "odd"}]);
        let (given, rest, is_structured) =
            cut_up(&json!({"content": content, "structuredContent": {"a": 1}}), 108).unwrap();
        let head =
            json!({"type": "text", "text": "a".repeat(20) + "€", "annotations": {"priority": 1}});
        assert_eq!(given, json!([text("first"), head]));
        let image = image.to_string();
        let expected = format!(
            "{image}\n\n{}\nlast\n{{\"type\":\"odd\"}}\nstructuredContent: {{\"a\":1}}",
            "b".repeat(100)
        );
        assert_eq!((rest, is_structured), (expected, true));
    }

    #[test]
    fn what_is_structured_stays_where_it_fits() {
        let image = json!({"type": "image", "data": "x".repeat(100)});
        let (given, rest, is_structured) =
            cut_up(&json!({"content": [image], "structuredContent": {"a": 1}}), 50).unwrap();
        assert_eq!((given, rest, is_structured), (json!([]), image.to_string(), false));
        let (given, rest, is_structured) =
            cut_up(&json!({"structuredContent": ["x".repeat(100)]}), 50).unwrap();
        assert_eq!((given, is_structured), (json!([]), true));
        assert!(rest.starts_with(r#"structuredContent: ["xxx"#), "{rest}");
    }

    proptest! {
        #[test]
        fn a_text_is_whole_in_two_and_the_first_part_fits(text in ".{0,80}", most in 0_usize..120) {
            let end = fitting(&text, most);
            let written = |text: &str| Raw::of_text(text).len() - 2;
            prop_assert!(written(&text[..end]) <= most);
            let next = text[end..].chars().next();
            prop_assert!(next.is_none_or(|c| written(&text[..end + c.len_utf8()]) > most));
            let block = json!({"type": "text", "text": text.clone()});
            if let Some((given, rest, _)) = cut_up(&json!({"content": [block]}), most) {
                let first = given[0]["text"].as_str().unwrap_or_default();
                prop_assert_eq!(format!("{first}{rest}"), text);
                prop_assert!(given.as_array().unwrap().iter().all(|block| block.to_string().len() <= most));
            }
        }
    }
}
