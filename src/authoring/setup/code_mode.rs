//! Turns off code mode if Codex uses a model without it. Codex doesn't tell its servers the model.

use serde_json::{Value, json};

use crate::authoring::setup::insert_json;
use mcp_workbench_config::syntax::document;

/// The name with which Codex introduces itself to servers.
const CODEX: &str = "codex-mcp-client";

/// The only one of Codex's own models that finds tools with a search instead.
const SEARCHING_MODEL: &str = "gpt-5.5";

/// Returns the model in a `config.toml` of Codex if it has no code mode: it isn't one of Codex's own
/// models, so Codex puts the definitions of all tools into its context, or it is `gpt-5.5`.
pub fn codex_model_without_code_mode(text: &str) -> Option<String> {
    let tree = document::toml::parse(text).ok()?;
    let model = Value::from(tree).get("model")?.as_str()?.to_owned();
    // A gateway's name can come first: `openai/gpt-6.2-sol`.
    let name = model.rsplit('/').next().unwrap_or(&model);
    let is_own =
        name.starts_with("codex-") || (name.starts_with("gpt-") && !name.starts_with("gpt-oss"));
    (!is_own || name == SEARCHING_MODEL).then_some(model)
}

/// Sets `hasCodeMode` to `false` for Codex in a configuration. Returns `None` if the configuration is
/// invalid or has settings for Codex already.
pub fn without_codex_code_mode(text: &str) -> Option<String> {
    let tree = document::parse_jsonc(document::strip_bom(text)).ok()?;
    if Value::from(tree).pointer(&format!("/clients/{CODEX}")).is_some() {
        return None;
    }
    insert_json(text, "clients", CODEX, &json!({"hasCodeMode": false}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_models_of_codex_have_code_mode() {
        let model = |text: &str| codex_model_without_code_mode(text);
        for with in ["gpt-6.2-sol", "gpt-5.6-luna", "openai/gpt-6.2-sol", "codex-mini-latest"] {
            assert_eq!(model(&format!("model = \"{with}\"\n")), None, "{with}");
        }
        for without in ["gpt-5.5", "openai/gpt-5.5", "llama3.3:70b", "openai/gpt-oss-120b", ""] {
            let text = format!("model = \"{without}\" # mine\n[tui]\nmodel = \"gpt-6.2-sol\"\n");
            assert_eq!(model(&text).as_deref(), Some(without));
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
