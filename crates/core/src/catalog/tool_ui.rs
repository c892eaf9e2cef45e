//! Metadata of tools with a user interface (MCP Apps, extension `io.modelcontextprotocol/ui`).

use mcp_workbench_names::UI_SCHEME;
use mcp_workbench_wire::json::RawJson;

/// The user interface that a tool's `_meta` declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUi {
    /// The page that shows the tool's results, by the server's own URI.
    pub page: Option<String>,
    /// `true` if only apps call the tool, and the model doesn't see it.
    pub is_app_only: bool,
}

impl ToolUi {
    /// Reads the `_meta` of a definition. `None` for a tool like any other. Malformed members count
    /// as absent.
    pub(crate) fn of(definition: &RawJson) -> Option<Self> {
        let meta = definition.member("_meta")?;
        let ui = meta.member("ui");
        let member = |key: &str| ui.as_ref().and_then(|ui| ui.member(key));
        let page = |uri: RawJson| {
            let uri = uri.decode_string()?;
            uri.starts_with(UI_SCHEME).then(|| uri.into_owned())
        };
        // The second spelling is older.
        let older = || meta.member("ui/resourceUri").and_then(page);
        let page = member("resourceUri").and_then(page).or_else(older);
        let visibility = member("visibility").and_then(|all| all.parse::<Vec<String>>().ok());
        let is_app_only = visibility.is_some_and(|all| {
            let has = |who: &str| all.iter().any(|one| one == who);
            has("app") && !has("model")
        });
        (page.is_some() || is_app_only).then_some(Self { page, is_app_only })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn read(meta: &Value) -> Option<(Option<String>, bool)> {
        let ui = ToolUi::of(&RawJson::encode(&json!({ "name": "a", "_meta": meta })))?;
        Some((ui.page, ui.is_app_only))
    }

    #[test]
    fn both_spellings_name_the_page_and_the_newer_one_wins() {
        let page = |uri: &str| Some((Some(uri.to_owned()), false));
        for (meta, expected) in [
            (json!({ "ui": { "resourceUri": "ui://a" } }), page("ui://a")),
            (json!({ "ui/resourceUri": "ui://b" }), page("ui://b")),
            (
                json!({ "ui": { "resourceUri": "ui://a" }, "ui/resourceUri": "ui://b" }),
                page("ui://a"),
            ),
            (json!({ "ui": { "resourceUri": 7 }, "ui/resourceUri": "ui://b" }), page("ui://b")),
            (json!({ "ui": "ui://a" }), None),
            (json!({ "ui": {} }), None),
            (json!({ "ui": { "resourceUri": "https://a" } }), None),
            (json!([]), None),
            (json!(null), None),
        ] {
            assert_eq!(read(&meta), expected, "{meta}");
        }
    }

    #[test]
    fn only_a_visibility_without_the_model_hides_a_tool_from_it() {
        for (visibility, expected) in [
            (json!(["app"]), Some((None, true))),
            (json!(["app", "later"]), Some((None, true))),
            (json!(["model", "app"]), None),
            (json!(["model"]), None),
            (json!([]), None),
            (json!("app"), None),
            (json!([1, "app"]), None),
        ] {
            let meta = json!({ "ui": { "visibility": visibility } });
            assert_eq!(read(&meta), expected, "{meta}");
        }
    }
}
