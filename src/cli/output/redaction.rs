//! Redacts the configuration's secrets from all output and logs of this process. Printed
//! configurations are exempt.

use std::borrow::Cow;

use parking_lot::RwLock;

use serde_json::Value;
use url::Url;

use crate::authoring::import::SecretExtractor;
use crate::cli::files::secret_variables::SecretVariables;
use mcp_workbench_config::syntax::document;
use mcp_workbench_core::telemetry::Redactor;
use mcp_workbench_settings::Config;

static SECRETS: RwLock<Vec<Redactor>> = RwLock::new(Vec::new());

/// Number of remembered configurations. Secrets of earlier ones may still appear in output.
const MAX: usize = 8;

pub(crate) fn register_secrets(config: &Config) {
    let secrets = Redactor::from_config(config);
    let mut all = SECRETS.write();
    if !all.contains(&secrets) {
        if all.len() == MAX {
            all.remove(0);
        }
        all.push(secrets);
    }
}

/// The words before a token in a header.
const SCHEMES: [&str; 4] = ["basic", "bearer", "digest", "token"];

/// Masks the secrets of `configs` in `text`. Unlike [`register_secrets`], it finds those of disabled
/// and invalid entries, too.
pub(crate) fn redact_config(configs: &[&str], text: &str) -> String {
    let mut found = SecretVariables::default();
    for config in configs {
        let tree = document::parse_jsonc(document::strip_bom(config));
        if let Ok(mut value) = tree.map(Value::from) {
            hide(&mut value, &mut found);
        }
    }
    let secrets = found.values().flat_map(|(_, value)| match value.split_once(' ') {
        Some((scheme, token)) if SCHEMES.contains(&&*scheme.to_ascii_lowercase()) => token.lines(),
        Some(_) | None => value.lines(),
    });
    let secrets = Redactor::new(secrets);
    redact(&secrets.redact_json_text(text)).into_owned()
}

fn hide(value: &mut Value, found: &mut SecretVariables) {
    match value {
        Value::Object(members) => {
            // First, because the outer object would mask the whole of a URL.
            members.values_mut().for_each(|value| hide(value, found));
            if let Some(url) = members.get_mut("url")
                && let Some(text) = url.as_str()
            {
                let mut text = text.to_owned();
                let has_user = Url::parse(&text).is_ok_and(|url| !url.username().is_empty());
                if !found.extract_from_url("", &mut text).is_empty() && !has_user {
                    // The other parts of the URL stay readable.
                    *url = Value::Null;
                }
            }
            found.hide_in_block("", members);
            found.hide_in_settings("", members);
        }
        Value::Array(values) => values.iter_mut().for_each(|value| hide(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Masks registered secrets, both as plain text and JSON-escaped.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let all = SECRETS.read();
    all.iter().fold(Cow::Borrowed(text), |text, secrets| match text {
        Cow::Borrowed(text) => secrets.redact_json_text(text),
        Cow::Owned(text) => Cow::Owned(secrets.redact_json_text(&text).into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_every_entry_are_masked() {
        let config = r#"{"mcpServers": {
            // mine
            "a": {"url": "https://h/mcp?api_key=s3cret-1&x=1", "headers": {"Authorization": "Bearer s3cret-2"}},
            "b": {"command": "x", "args": ["--token", "s3cret-3"], "env": {"API_KEY": "s3cret-4", "PASSWORD": "s3cret-6 s3cret-7"}, "disabled": true},
            "c": {"command": "x", "env": {"API_KEY": "${SET}", "LEVEL": "visible-level"}}
        }, "navigator": {"llm": {"apiKey": "s3cret-5"}}}"#;
        let shown = redact_config(&[config], config);
        assert!(!shown.contains("s3cret"), "{shown}");
        for kept in
            ["// mine", "https://h/mcp?api_key=***&x=1", "Bearer ***", "visible-level", "${SET}"]
        {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        assert_eq!(redact_config(&["no JSON"], "text"), "text");
    }
}
