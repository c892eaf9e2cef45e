//! Turns off code mode if Codex uses a model without it. Codex doesn't tell its servers the model.

use serde_json::{Value, json};

use crate::authoring::setup::insert_json;
use mcp_workbench_config::syntax::document;

/// The name with which Codex introduces itself to servers.
const CODEX: &str = "codex-mcp-client";

/// Returns the model in a `config.toml` of Codex, unless it is one of Codex's own models. Codex has
/// no settings for other models, and puts the definitions of all tools into their context.
pub fn unknown_codex_model(text: &str) -> Option<String> {
    let tree = document::toml::parse(text).ok()?;
    let model = Value::from(tree).get("model")?.as_str()?.to_owned();
    // A gateway's name can come first: `openai/gpt-6.2-sol`.
    let name = model.rsplit('/').next().unwrap_or(&model);
    let is_known =
        name.starts_with("codex-") || (name.starts_with("gpt-") && !name.starts_with("gpt-oss"));
    (!is_known).then_some(model)
}

/// Says in a configuration that Codex has no code mode, unless it says something about Codex already.
/// Returns `None` if nothing changes.
pub fn without_codex_code_mode(text: &str) -> Option<String> {
    let tree = document::parse_jsonc(document::strip_bom(text)).ok()?;
    let is_said = Value::from(tree).pointer(&format!("/clients/{CODEX}")).is_some();
    if is_said {
        return None;
    }
    insert_json(text, "clients", CODEX, &json!({"hasCodeMode": false}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_models_of_codex_are_known() {
        let model = |text: &str| unknown_codex_model(text);
        for known in ["gpt-6.2-sol", "gpt-5.5", "openai/gpt-5.5", "codex-mini-latest"] {
            assert_eq!(model(&format!("model = \"{known}\"\n")), None, "{known}");
        }
        for unknown in ["llama3.3:70b", "gpt-oss:20b", "openai/gpt-oss-120b", ""] {
            let text = format!("model = \"{unknown}\" # mine\n[tui]\nmodel = \"gpt-5.5\"\n");
            assert_eq!(model(&text).as_deref(), Some(unknown));
        }
        for without in ["", "[profiles.local]\nmodel = \"llama3\"\n", "model = 3\n", "model = ["] {
            assert_eq!(model(without), None, "{without}");
        }
    }

    #[test]
    fn settings_of_the_user_stay() {
        let added = without_codex_code_mode("{\n  \"toolboxes\": {}\n}\n").unwrap();
        let told: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(
            told,
            json!({"toolboxes": {}, "clients": {"codex-mcp-client": {"hasCodeMode": false}}})
        );
        assert_eq!(without_codex_code_mode(&added), None);
        let own = r#"{"clients": {"codex-mcp-client": {}, "x": {}}}"#;
        assert_eq!(without_codex_code_mode(own), None);
        let other = without_codex_code_mode(r#"{"clients": {"x": {}}}"#).unwrap();
        let told: Value = serde_json::from_str(&other).unwrap();
        assert_eq!(told, json!({"clients": {"x": {}, "codex-mcp-client": {"hasCodeMode": false}}}));
        assert_eq!(without_codex_code_mode("{"), None);
    }
}
