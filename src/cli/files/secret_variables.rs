//! Replaces secrets in configurations with variables.
//!
//! When in doubt, a text counts as a secret: an unneeded variable does less harm than a leak.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use url::Url;

use crate::authoring::import::SecretExtractor;
use mcp_workbench_config::{replace_with_defaults, variable_names};
use mcp_workbench_core::telemetry::{
    SecretName, SecretReplacer, contains_secret, has_literal_secret, is_secret_name,
    normalize_secret_name, redact_argument,
};

/// Variables that replace secrets, one for each distinct secret.
#[derive(Debug, Default)]
pub(crate) struct SecretVariables {
    /// Variables that the configuration uses already.
    taken: BTreeSet<String>,
    /// The replaced texts by variable name.
    values: BTreeMap<String, String>,
    /// The variables proposed for secrets that stay in their place, with these.
    proposed: BTreeMap<String, String>,
}

impl SecretVariables {
    pub(crate) fn with_reserved<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let taken = texts.flat_map(variable_names).map(str::to_owned).collect();
        Self { taken, ..Self::default() }
    }

    /// Like [`Self::with_reserved`], and reuses the variables of `values`.
    pub(crate) fn with_existing<'a>(
        texts: impl Iterator<Item = &'a str>,
        values: BTreeMap<String, String>,
    ) -> Self {
        let taken = texts.flat_map(variable_names).filter(|name| !values.contains_key(*name));
        Self { taken: taken.map(str::to_owned).collect(), values, ..Self::default() }
    }

    /// Replaces `text` with the variable `wanted` if it looks like a secret under `name`.
    pub(crate) fn hide_named(&mut self, wanted: &str, name: &str, text: &mut String) {
        let mut value = Value::from(text.as_str());
        self.hide(&mut value, wanted, is_secret_name(name));
        if let Value::String(hidden) = value {
            *text = hidden;
        }
    }

    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    pub(crate) fn hide_in_block(&mut self, server: &str, block: &mut Map<String, Value>) {
        for (key, value) in members(block, "env") {
            self.hide(value, key, is_secret_name(key));
        }
        for (key, value) in members(block, "headers") {
            self.hide(value, &format!("{server}_{key}"), is_secret_name(key));
        }
        if let Some(url) = block.get_mut("url") {
            self.hide(url, &format!("{server}_URL"), false);
        }
        let mut before = String::new();
        for value in block.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
            let text = value.as_str().unwrap_or_default().to_owned();
            if let Some(hidden) = self.argument(server, &before, &text) {
                *value = hidden.into();
            }
            before = text;
        }
    }

    /// Replaces texts that look secret in settings: values of keys with a secret's name, and URLs
    /// with credentials. `place` prefixes the variable names.
    pub(crate) fn hide_in_settings(&mut self, place: &str, settings: &mut Map<String, Value>) {
        for (key, value) in settings {
            let place = format!("{place}_{key}");
            match value {
                Value::String(_) => self.hide(value, &place, is_secret_name(key)),
                // An object names the source of a value, which is not a secret.
                Value::Object(_) if is_secret_name(key) => {}
                Value::Object(members) => self.hide_in_settings(&place, members),
                Value::Array(values) => {
                    for members in values.iter_mut().filter_map(Value::as_object_mut) {
                        self.hide_in_settings(&place, members);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }

    fn hide(&mut self, value: &mut Value, name: &str, is_secret: bool) {
        let Some(text) = value.as_str() else { return };
        let said = replace_with_defaults(text);
        let is_own =
            is_secret && has_literal_secret(&ServerSecrets { variables: self, server: "" }, text);
        if is_own || contains_secret(&said) {
            *value = self.variable_for(name, text).into();
        }
    }

    /// Returns the argument with its secret replaced, if it has one. `before` is the preceding
    /// argument.
    fn argument(&mut self, server: &str, before: &str, text: &str) -> Option<String> {
        redact_argument(&mut ServerSecrets { variables: self, server }, before, text)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the variable that stands for `text`: `wanted`, or a numbered one if that is taken by
    /// another text.
    fn variable_for(&mut self, wanted: &str, text: &str) -> String {
        let own = variable_with_default(text);
        let wanted = own.map_or_else(|| variable(wanted), str::to_owned);
        let is_free = |name: &String| {
            let is_taken = self.taken.contains(name) && own != Some(name.as_str());
            !is_taken && self.values.get(name).is_none_or(|other| other == text)
        };
        let numbered = (2_u32..).map(|number| format!("{wanted}_{number}"));
        let name = std::iter::once(wanted.clone()).chain(numbered).find(is_free);
        let name = name.unwrap_or(wanted);
        self.values.insert(name.clone(), text.to_owned());
        format!("${{{name}}}")
    }
}

struct ServerSecrets<'a> {
    variables: &'a mut SecretVariables,
    server: &'a str,
}

impl SecretReplacer for ServerSecrets<'_> {
    fn literal_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if variable_names(text).is_empty() { text.into() } else { replace_with_defaults(text) }
    }

    fn replacement(&mut self, name: SecretName<'_>, secret: &str) -> String {
        match name {
            SecretName::Common(word) => {
                self.variables.variable_for(&format!("{}_{word}", self.server), secret)
            }
            SecretName::Variable(word) => self.variables.variable_for(word, secret),
        }
    }
}

impl SecretExtractor for SecretVariables {
    fn extract_from_args(&mut self, server: &str, args: &mut Vec<String>) -> Vec<String> {
        let mut found = Vec::new();
        let mut before = String::new();
        for text in args {
            let was = text.clone();
            if let Some(hidden) = self.argument(server, &before, text) {
                found.extend(new_variables(&was, &hidden));
                *text = hidden;
            }
            before = was;
        }
        found
    }

    fn propose_variable(&mut self, wanted: [String; 2], value: &str) -> String {
        let [_, last] = wanted.clone();
        let numbered = (2_u32..).map(|number| format!("{last}_{number}"));
        let is_free = |name: &String| {
            let mut others = [&self.values, &self.proposed].into_iter();
            !self.taken.contains(name)
                && others.all(|all| all.get(name).is_none_or(|other| other == value))
        };
        let name = wanted.into_iter().chain(numbered).find(is_free).unwrap_or(last);
        self.proposed.insert(name.clone(), value.to_owned());
        name
    }

    fn extract_from_url(&mut self, server: &str, address: &mut String) -> Vec<String> {
        let Ok(url) = Url::parse(address.trim()) else { return Vec::new() };
        let was = address.clone();
        // Only the secret parts are replaced, so that people still recognize the server.
        let mut secrets: Vec<(String, String)> = Vec::new();
        if let Some(password) = url.password() {
            secrets.push((format!("{server}_PASSWORD"), password.to_owned()));
        }
        for pair in url.query().unwrap_or_default().split('&') {
            if let Some((name, value)) = pair.split_once('=')
                && is_secret_name(name)
            {
                secrets
                    .push((format!("{server}_{}", normalize_secret_name(name)), value.to_owned()));
            }
        }
        for (name, secret) in secrets {
            if !has_literal_secret(&ServerSecrets { variables: self, server }, &secret) {
                continue;
            }
            // The last occurrence: a name or host before it could have the same spelling.
            if let Some(at) = address.rfind(&secret) {
                let variable = self.variable_for(&name, &secret);
                address.replace_range(at..at + secret.len(), &variable);
            }
        }
        new_variables(&was, address)
    }
}

fn new_variables(before: &str, now: &str) -> Vec<String> {
    let old = variable_names(before);
    let new = variable_names(now).into_iter().filter(|name| !old.contains(name));
    new.map(str::to_owned).collect()
}

fn members<'a>(
    block: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let members = block.get_mut(key).and_then(Value::as_object_mut);
    members.into_iter().flat_map(Map::iter_mut)
}

fn variable_with_default(text: &str) -> Option<&str> {
    let [name] = variable_names(text)[..] else { return None };
    (text == format!("${{{name}:-{}}}", replace_with_defaults(text))).then_some(name)
}

fn variable(name: &str) -> String {
    let upper = name.to_uppercase();
    let name: String =
        upper.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn hidden(variables: &mut SecretVariables, server: &str, block: Value) -> Value {
        let Value::Object(mut block) = block else { panic!("{block}") };
        variables.hide_in_block(server, &mut block);
        Value::Object(block)
    }

    fn names(variables: &SecretVariables) -> Vec<&str> {
        variables.names().collect()
    }

    #[test]
    fn replaces_secrets_and_keeps_variables() {
        let block = json!({
            "command": "x",
            "args": ["--api-key", "s3cret", "--token=s3cret", "--verbose", "plain",
                     "postgres://u:s3cret@h/db", "--key=${SET}", "--password", "${SET}"],
            "env": { "GITHUB_TOKEN": "s3cret", "LEVEL": "debug", "API_KEY": "${SET}" },
        });
        let mut variables = SecretVariables::default();
        assert_eq!(
            hidden(&mut variables, "my-db", block),
            json!({
                "command": "x",
                "args": ["--api-key", "${MY_DB_API_KEY}", "--token=${MY_DB_TOKEN}", "--verbose",
                         "plain", "${MY_DB_ADDRESS}", "--key=${SET}", "--password", "${SET}"],
                "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}", "LEVEL": "debug", "API_KEY": "${SET}" },
            })
        );
        let wanted = ["GITHUB_TOKEN", "MY_DB_ADDRESS", "MY_DB_API_KEY", "MY_DB_TOKEN"];
        assert_eq!(names(&variables), wanted);
        let remote = json!({
            "url": "https://h/mcp?api_key=s3cret",
            "headers": { "Authorization": "Bearer s3cret", "X-Team": "a", "X-Auth": "s3cret" },
        });
        let mut variables = SecretVariables::default();
        let remote = hidden(&mut variables, "h", remote);
        assert_eq!(names(&variables), ["H_AUTHORIZATION", "H_URL", "H_X_AUTH"]);
        assert!(!remote.to_string().contains("s3cret"), "{remote}");
    }

    #[test]
    fn replaces_secrets_in_flags_headers_urls_and_shell_commands() {
        for (args, wanted) in [
            (&["-e", "GH_TOKEN=s3cret"][..], &["-e", "GH_TOKEN=${GH_TOKEN}"][..]),
            (&["--env=GH_TOKEN=s3cret"], &["--env=GH_TOKEN=${GH_TOKEN}"]),
            (
                &["--header", "Authorization: Bearer s3cret"],
                &["--header", "Authorization: Bearer ${X_AUTHORIZATION}"],
            ),
            (&["--header=X-Auth:s3cret"], &["--header=X-Auth:${X_X_AUTH}"]),
            (&["-H", "Authorization: Bearer ${SET}"], &["-H", "Authorization: Bearer ${SET}"]),
            (&["postgres://u:s3cret@${HOST}/db"], &["${X_ADDRESS}"]),
            (&["postgres://u:s3/cret@h/db"], &["${X_ADDRESS}"]),
            (&["--db=postgres://u:${PW:-s3cret}@h/db"], &["--db=${X_ADDRESS}"]),
            (&["postgres://u:${PW}@${HOST}/db"], &["postgres://u:${PW}@${HOST}/db"]),
            (&["--url", "https://s3cret@h/x"], &["--url", "${X_ADDRESS}"]),
            (&["https://h/@scope/x?a=b"], &["https://h/@scope/x?a=b"]),
            (
                &["postgres://u@h/db", "git+ssh://git@h/x"],
                &["postgres://u@h/db", "git+ssh://git@h/x"],
            ),
            (&["--token=${TOKEN:-s3cret}"], &["--token=${TOKEN}"]),
            (&["{\"Authorization\": \"s3cret\"}"], &["${X_SECRET}"]),
            (&["-v", "secrets:/run/secrets"], &["-v", "secrets:/run/secrets"]),
            (
                &["-c", "A_KEY=s3cret B=1 node 'x y' --token 's3 cret' | tee log"],
                &["-c", "A_KEY='${A_KEY}' B=1 node 'x y' --token '${X_TOKEN}' | tee log"],
            ),
            (&["-c", "A_KEY=\"$OTHER\" node x"], &["-c", "A_KEY=\"$OTHER\" node x"]),
        ] {
            let mut variables = SecretVariables::default();
            let block = hidden(&mut variables, "x", json!({ "args": args }));
            assert_eq!(block["args"], json!(wanted));
        }
    }

    #[test]
    fn numbers_variables_of_different_secrets() {
        let mut variables = SecretVariables::with_reserved(["${API_KEY} ${OTHER:-x}"].into_iter());
        let mut token = |value: &str| {
            let block = json!({ "env": { "API_TOKEN": value } });
            hidden(&mut variables, "x", block)["env"]["API_TOKEN"].clone()
        };
        let found = ["a", "b", "a", "${API_TOKEN:-c}"].map(&mut token);
        assert_eq!(found, ["${API_TOKEN}", "${API_TOKEN_2}", "${API_TOKEN}", "${API_TOKEN_3}"]);
        let block = json!({
            "args": ["--from", "postgres://u:a@h/db", "--to", "postgres://u:b@h/db"],
            "env": { "API_KEY": "plain", "OTHER_KEY": "${OTHER:-x}" },
        });
        let block = hidden(&mut variables, "x", block);
        assert_eq!(block["args"], json!(["--from", "${X_ADDRESS}", "--to", "${X_ADDRESS_2}"]));
        // The configuration already uses a variable of that name.
        assert_eq!(block["env"], json!({ "API_KEY": "${API_KEY_2}", "OTHER_KEY": "${OTHER}" }));
    }

    #[test]
    fn replaces_only_the_secret_parts_of_a_url() {
        for (address, wanted, names) in [
            (
                "https://h/mcp?api_key=abc&x=1",
                "https://h/mcp?api_key=${H_API_KEY}&x=1",
                "H_API_KEY",
            ),
            ("https://u:abc@h/mcp", "https://u:${H_PASSWORD}@h/mcp", "H_PASSWORD"),
            ("https://h/mcp?x=1", "https://h/mcp?x=1", ""),
            ("https://h/mcp?key=${SET}", "https://h/mcp?key=${SET}", ""),
            ("no address", "no address", ""),
        ] {
            let mut text = address.to_owned();
            let found = SecretVariables::default().extract_from_url("h", &mut text);
            assert_eq!((text.as_str(), found.join(" ").as_str()), (wanted, names));
        }
    }

    #[test]
    fn proposes_separate_variables_for_different_values() {
        let mut variables = SecretVariables::default();
        let mut propose = |wanted: [&str; 2], value: &str| {
            variables.propose_variable(wanted.map(str::to_owned), value)
        };
        assert_eq!(propose(["KEY", "A_KEY"], "a"), "KEY");
        assert_eq!(propose(["KEY", "B_KEY"], "a"), "KEY", "one variable for the same value");
        assert_eq!(propose(["KEY", "B_KEY"], "b"), "B_KEY");
        assert_eq!(propose(["KEY", "B_KEY"], "c"), "B_KEY_2");
    }

    #[test]
    fn recognizes_tokens_by_their_prefix() {
        let mut args = ["ghp_0123456789abcdef", "sk-learn", "sk-proj-0123456789abcdef"]
            .map(str::to_owned)
            .to_vec();
        let found = SecretVariables::default().extract_from_args("x", &mut args);
        assert_eq!(args, ["${X_SECRET}", "sk-learn", "${X_SECRET_2}"]);
        assert_eq!(found, ["X_SECRET", "X_SECRET_2"]);
    }

    #[test]
    fn replaces_secrets_in_settings() {
        let mut settings = json!({
            "llm": { "apiKey": "s3cret", "model": "m" },
            "list": [{ "token": "s3cret", "env": "NAME" }, { "token": { "keyring": "a/b" } }],
            "otlp": "https://u:s3cret@h",
        });
        let mut variables = SecretVariables::default();
        variables.hide_in_settings("navigator", settings.as_object_mut().unwrap());
        let wanted = json!({
            "llm": { "apiKey": "${NAVIGATOR_LLM_APIKEY}", "model": "m" },
            "list": [
                { "token": "${NAVIGATOR_LIST_TOKEN}", "env": "NAME" },
                { "token": { "keyring": "a/b" } },
            ],
            "otlp": "${NAVIGATOR_OTLP}",
        });
        assert_eq!(settings, wanted);
    }
}
