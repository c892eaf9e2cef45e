//! Renders a tool result as text.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::output::units::format_count;
use mcp_workbench_wire::json::RawJson;

/// A tool result (MCP, server/tools) as text.
pub(crate) struct RenderedResult {
    /// All content blocks, one per line.
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallToolResult {
    content: Vec<Value>,
    structured_content: Option<Value>,
    is_error: bool,
}

impl RenderedResult {
    /// Renders a result. Anything that isn't a tool result is shown as is.
    pub(crate) fn read(result: &RawJson) -> Self {
        let Ok(members) = result.parse::<CallToolResult>() else {
            return Self { text: result.as_str().into_owned(), is_error: false };
        };
        let blocks: Vec<String> = members.content.iter().map(block).collect();
        let text = match (blocks.is_empty(), members.structured_content) {
            (true, Some(structured)) => format!("{structured:#}"),
            (true, None) => "[no content]".to_owned(),
            (false, _) => blocks.join("\n"),
        };
        Self { text, is_error: members.is_error }
    }
}

fn block(block: &Value) -> String {
    let text = |key: &str| block[key].as_str();
    match text("type") {
        Some("text") => text("text").unwrap_or_default().to_owned(),
        Some("image" | "audio") => {
            described([text("mimeType").map(str::to_owned), text("data").map(decoded)])
        }
        Some("resource") => {
            let resource = &block["resource"];
            let text = |key: &str| resource[key].as_str();
            match text("text") {
                Some(text) => text.to_owned(),
                None => described([
                    text("uri").map(str::to_owned),
                    text("mimeType").map(str::to_owned),
                    text("blob").map(decoded),
                ]),
            }
        }
        Some("resource_link") => described([
            text("uri").map(str::to_owned),
            text("mimeType").map(str::to_owned),
            block["size"]
                .as_u64()
                .and_then(|bytes| usize::try_from(bytes).ok())
                .map(|bytes| format_count(bytes, "byte")),
        ]),
        other => described([other.map(str::to_owned), Some("not shown".to_owned())]),
    }
}

fn described<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("[{}]", parts.join(", "))
}

/// Returns the decoded size of a base64 text.
fn decoded(base64: &str) -> String {
    let digits = base64.trim_end_matches('=').len();
    format_count(digits * 3 / 4, "byte")
}

pub(crate) fn progress(params: &RawJson) -> String {
    #[derive(Deserialize)]
    struct ProgressParams {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }

    match params.parse::<ProgressParams>() {
        Ok(ProgressParams { message: Some(message), .. }) => message,
        Ok(ProgressParams { progress, total: Some(total), .. }) => format!("{progress} of {total}"),
        Ok(ProgressParams { progress, .. }) => progress.to_string(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn shown(result: &Value) -> String {
        RenderedResult::read(&RawJson::encode(result)).text
    }

    #[test]
    fn texts_are_shown_and_the_rest_is_described() {
        let content = json!([
            {"type": "text", "text": "two\nlines"},
            {"type": "image", "mimeType": "image/png", "data": "A".repeat(16_460)},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "a text"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAA="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "size": 1},
            {"type": "hologram"},
        ]);
        assert_eq!(
            shown(&json!({"content": content})),
            "two\nlines\n[image/png, 12,345 bytes]\na text\n[file:///b, 2 bytes]\n\
             [file:///c, 1 byte]\n[hologram, not shown]"
        );
    }

    #[test]
    fn renders_structured_content_when_content_is_empty() {
        assert_eq!(
            shown(&json!({"structuredContent": {"a": 1}, "content": []})),
            "{\n  \"a\": 1\n}"
        );
        assert_eq!(shown(&json!({})), "[no content]");
    }

    #[test]
    fn progress_is_its_message_or_its_numbers() {
        let of = |params: Value| progress(&RawJson::encode(&params));
        assert_eq!(of(json!({"progress": 1, "message": "half"})), "half");
        assert_eq!(of(json!({"progress": 1, "total": 2})), "1 of 2");
        assert_eq!(of(json!({"progress": 1.5})), "1.5");
    }
}
