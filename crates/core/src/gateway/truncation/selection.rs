//! Selects fields of tool results.

use crate::gateway::truncation::cut::{cut, text_of};
use crate::gateway::truncation::only_members;
use mcp_workbench_wire::json::select::Selection;
use mcp_workbench_wire::json::{self, EditError, RawJson};

/// Maximum size of a text, in bytes, that is compared with `structuredContent`.
const MAX_COMPARED: usize = 1 << 20;

/// Who selects the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedBy {
    /// The agent. The answer names the fields that the result doesn't have.
    Call,
    /// The configuration. A result without any of the fields is passed on unchanged.
    Config,
}

/// A result with only the selected fields.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldsOfResult {
    pub result: RawJson,
    /// The pointers that matched nothing, as text for the agent.
    pub missing: Option<String>,
    /// Text and `structuredContent` of the whole result; empty if nothing was left out.
    pub whole: String,
}

/// Selects fields from `structuredContent`, or else from each text block that is JSON, and returns
/// them as text. Blocks that the fields aren't from stay, except text if the fields are from
/// `structuredContent`. Returns `None` if the result has to be passed on unchanged.
///
/// # Errors
///
/// Returns an error if the result can't be edited.
pub fn select_fields(
    result: &RawJson,
    selection: &Selection,
    by: SelectedBy,
) -> Result<Option<FieldsOfResult>, EditError> {
    if selection.is_whole() || !is_success(result) {
        return Ok(None);
    }
    // A client could use the second of repeated members.
    let result = only_members(result, &["content", "structuredContent"])?;
    let blocks = result.member("content").and_then(|content| content.items()).unwrap_or_default();
    let texts: Vec<Option<String>> = blocks.iter().map(text_of).collect();
    let structured = result.member("structuredContent");
    let structured_text = structured.as_ref().map(RawJson::as_str);

    let mut documents = Documents::new(selection);
    let mut content = Vec::with_capacity(blocks.len() + 1);
    if let Some(json) = structured_text.as_deref().and_then(|text| documents.select(text)) {
        content.push(text_block(&json));
        let others = blocks.iter().zip(&texts).filter(|(_, text)| text.is_none());
        content.extend(others.map(|(block, _)| block.clone()));
    } else {
        for (block, text) in blocks.iter().zip(&texts) {
            let known = documents.count;
            match text.as_deref().and_then(|text| documents.select(text)) {
                Some(json) => {
                    content.push(block.with_member("text", &RawJson::from_text(&json))?);
                }
                None if documents.count == known => content.push(block.clone()),
                None => {}
            }
        }
    }
    match by {
        SelectedBy::Config if !documents.is_matched.contains(&true) => return Ok(None),
        SelectedBy::Call if documents.count == 0 => {
            let missing = Some("`select` had no effect: the result is not JSON.".to_owned());
            return Ok(Some(FieldsOfResult { result, missing, whole: String::new() }));
        }
        _ => {}
    }
    let missing = documents.missing().filter(|_| by == SelectedBy::Call);
    let whole = whole_text(&blocks, &texts, structured.as_ref());
    let result = result.with_member("content", &json::array(&content))?;
    let result = result.without_member("structuredContent")?;
    Ok(Some(FieldsOfResult { result, missing, whole }))
}

/// Returns `true` for a complete result of a tool that isn't an error.
fn is_success(result: &RawJson) -> bool {
    let Some(members) = result.members() else { return false };
    let has = |name: &str| members.iter().any(|(key, _)| key == name);
    let differs = |name: &str, is_usual: fn(&RawJson) -> bool| {
        members.iter().any(|(key, value)| key == name && !is_usual(value))
    };
    (has("content") || has("structuredContent"))
        && !differs("isError", |value| value.as_bytes() != b"true")
        && !differs("resultType", |value| value.decode_string().as_deref() == Some("complete"))
}

/// The JSON texts of a result, and which pointers matched in any of them.
struct Documents<'a> {
    selection: &'a Selection,
    count: usize,
    /// The first text, or the first one with a match: missing fields are reported for it.
    reported: &'a str,
    is_matched: Vec<bool>,
}

impl<'a> Documents<'a> {
    fn new(selection: &'a Selection) -> Self {
        Self { selection, count: 0, reported: "", is_matched: Vec::new() }
    }

    /// Returns the selected fields, if `text` is JSON and has some of them.
    fn select(&mut self, text: &'a str) -> Option<String> {
        let selected = self.selection.select_from(text)?;
        if self.count == 0 || selected.json.is_some() && !self.is_matched.contains(&true) {
            self.reported = text;
        }
        self.count += 1;
        self.is_matched.resize(selected.is_matched.len(), false);
        for (known, is_matched) in self.is_matched.iter_mut().zip(selected.is_matched) {
            *known |= is_matched;
        }
        selected.json
    }

    fn missing(&self) -> Option<String> {
        let (fields, more) = self.selection.missing_in(self.reported, &self.is_matched);
        let more = (more > 0).then(|| format!("{more} more"));
        let fields: Vec<_> = fields.iter().map(ToString::to_string).chain(more).collect();
        (!fields.is_empty()).then(|| format!("No match: {}.", fields.join("; ")))
    }
}

/// Returns all text and `structuredContent`, which servers usually repeat as text: a text with the
/// same value is enough.
fn whole_text(
    blocks: &[RawJson],
    texts: &[Option<String>],
    structured: Option<&RawJson>,
) -> String {
    let canonical = structured.and_then(|structured| structured.canonical(MAX_COMPARED));
    let is_same = |text: &String| {
        let short = canonical.as_ref().filter(|_| text.len() <= MAX_COMPARED);
        let json = short.and_then(|_| serde_json::from_str::<RawJson>(text.trim()).ok());
        json.is_some_and(|json| json.canonical(MAX_COMPARED) == canonical)
    };
    let structured = structured.filter(|_| !texts.iter().flatten().any(is_same));
    let texts = blocks.iter().zip(texts).filter(|(_, text)| text.is_some());
    let texts = json::array(texts.map(|(block, _)| block));
    let mut whole = vec![("content", &texts)];
    whole.extend(structured.map(|structured| ("structuredContent", structured)));
    cut(&json::object(whole), 0).map(|split| split.rest).unwrap_or_default()
}

fn text_block(text: &str) -> RawJson {
    let kind = RawJson::from_text("text");
    json::object([("type", &kind), ("text", &RawJson::from_text(text))])
}

#[cfg(test)]
mod tests;
