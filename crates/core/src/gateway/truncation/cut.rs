//! Splits long results.

use mcp_workbench_wire::json::RawJson;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SplitResult {
    pub(crate) content: Vec<RawJson>,
    /// The remainder in order: text as it is, other blocks as JSON.
    pub(crate) rest: String,
    /// `true` if `structuredContent` is in the remainder, always last.
    pub(crate) is_structured: bool,
}

/// Splits a result whose content is longer than `most` bytes, else returns `None`. The first text
/// block that doesn't fit is split between two characters, and everything after it goes to the
/// remainder. Other blocks that don't fit go there whole.
pub(crate) fn cut(result: &RawJson, most: usize) -> Option<SplitResult> {
    let blocks = result.member("content").and_then(|content| content.items()).unwrap_or_default();
    let structured = result.member("structuredContent");
    let total: usize = blocks.iter().chain(&structured).map(RawJson::len).sum();
    if total <= most {
        return None;
    }
    let mut cut = SplitResult { content: Vec::new(), rest: String::new(), is_structured: false };
    let mut capacity = most;
    let mut is_over = false;
    for block in blocks {
        if !is_over && block.len() <= capacity {
            capacity -= block.len();
            cut.content.push(block);
            continue;
        }
        let Some(text) = text_of(&block) else {
            cut.leave(&block.as_str());
            continue;
        };
        let written = block.member("text").map_or(0, |text| text.len());
        let around = block.len() - written + 2;
        let end = if is_over { 0 } else { json_prefix_len(&text, capacity.saturating_sub(around)) };
        is_over = true;
        capacity = 0;
        if end > 0
            && let Ok(first) = block.with_member("text", &RawJson::from_text(&text[..end]))
        {
            cut.content.push(first);
            cut.leave(&text[end..]);
        } else {
            cut.leave(&text);
        }
    }
    if let Some(structured) = structured.filter(|structured| structured.len() > capacity) {
        cut.is_structured = true;
        cut.leave(&format!("structuredContent: {}", structured.as_str()));
    }
    Some(cut)
}

impl SplitResult {
    fn leave(&mut self, text: &str) {
        if !self.rest.is_empty() {
            self.rest.push('\n');
        }
        self.rest.push_str(text);
    }
}

pub(crate) fn text_of(block: &RawJson) -> Option<String> {
    let is_text = block.member("type")?.decode_string()? == "text";
    let text = block.member("text").filter(|_| is_text)?;
    // Servers cut texts between the halves of a surrogate pair.
    text.decode_string_lossy().map(std::borrow::Cow::into_owned)
}

/// Returns how many bytes of `text` fit into `most` bytes of JSON string, without quotes.
pub(crate) fn json_prefix_len(text: &str, most: usize) -> usize {
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

    fn cut_up(result: &Value, most: usize) -> Option<(Value, String, bool)> {
        let SplitResult { content, rest, is_structured } = cut(&RawJson::encode(result), most)?;
        let content: Vec<Value> = content.iter().map(|block| block.parse().unwrap()).collect();
        Some((content.into(), rest, is_structured))
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn short_results_are_not_split() {
        assert_eq!(cut_up(&json!({"content": [text("abc")], "_meta": "x".repeat(100)}), 50), None);
        assert_eq!(cut_up(&json!({"content": "x".repeat(100)}), 50), None);
        assert_eq!(cut_up(&json!({}), 50), None);
    }

    #[test]
    fn text_is_split_and_other_blocks_stay_whole() {
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
    fn structured_content_stays_if_it_fits() {
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
        fn split_text_is_lossless_and_fits(text in ".{0,80}", most in 0_usize..120) {
            let end = json_prefix_len(&text, most);
            let written = |text: &str| RawJson::from_text(text).len() - 2;
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
