//! Texts without the secrets in them: each secret becomes a variable.
//!
//! What may be one is hidden rather than shown: a variable too many is set and done with.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use url::Url;

use crate::authoring::import::HideSecrets;
use crate::config::{variables, without_variables};
use crate::observe::{
    Hide, SecretName, hide_in_argument, is_said, is_secret_name, shows_secret, word,
};

/// The variables that stand for secrets: one for each that there is.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// The variables that the configuration has by itself.
    taken: BTreeSet<String>,
    /// The texts that stood where our variables are now.
    values: BTreeMap<String, String>,
}

impl Variables {
    /// None yet, beside those in the texts of a configuration.
    pub(crate) fn beside<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let taken = texts.flat_map(variables).map(str::to_owned).collect();
        Self { taken, values: BTreeMap::new() }
    }

    /// Like [`Self::beside`], with those that are kept already and what they stand for.
    pub(crate) fn kept<'a>(
        texts: impl Iterator<Item = &'a str>,
        values: BTreeMap<String, String>,
    ) -> Self {
        let taken = texts.flat_map(variables).filter(|name| !values.contains_key(*name));
        Self { taken: taken.map(str::to_owned).collect(), values }
    }

    /// Puts a variable in place of a text under this name, if that looks secret.
    pub(crate) fn hide_named(&mut self, wanted: &str, name: &str, text: &mut String) {
        let mut value = Value::from(text.as_str());
        self.hide(&mut value, wanted, is_secret_name(name));
        if let Value::String(hidden) = value {
            *text = hidden;
        }
    }

    /// The names of those that are to be set before the start.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Puts variables in place of what looks secret in the block of a server.
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

    /// Puts variables in place of what looks secret in settings: texts under the keys that say so,
    /// and addresses. `place` is what they belong to.
    pub(crate) fn hide_in_settings(&mut self, place: &str, settings: &mut Map<String, Value>) {
        for (key, value) in settings {
            let place = format!("{place}_{key}");
            match value {
                Value::String(_) => self.hide(value, &place, is_secret_name(key)),
                // Where a value stands is no secret.
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

    /// Puts a variable in place of a text that is secret, or looks so.
    fn hide(&mut self, value: &mut Value, name: &str, is_secret: bool) {
        let Some(text) = value.as_str() else { return };
        let said = without_variables(text);
        let is_own = is_secret && is_said(&OfServer { variables: self, server: "" }, text);
        if is_own || shows_secret(&said) {
            *value = self.instead(name, text).into();
        }
    }

    /// An argument without the secret in it, if it has one; `before` is the one before it.
    fn argument(&mut self, server: &str, before: &str, text: &str) -> Option<String> {
        hide_in_argument(&mut OfServer { variables: self, server }, before, text)
    }

    /// Every variable of ours with what stood where it is now.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The variable that stands for a text: one that is called as is wanted, unless that has another
    /// meaning already.
    fn instead(&mut self, wanted: &str, text: &str) -> String {
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

/// The secrets of one server become variables.
struct OfServer<'a> {
    variables: &'a mut Variables,
    server: &'a str,
}

impl Hide for OfServer<'_> {
    fn said<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if variables(text).is_empty() { text.into() } else { without_variables(text) }
    }

    fn instead(&mut self, name: SecretName<'_>, secret: &str) -> String {
        match name {
            SecretName::Common(word) => {
                self.variables.instead(&format!("{}_{word}", self.server), secret)
            }
            SecretName::Variable(word) => self.variables.instead(word, secret),
        }
    }
}

impl HideSecrets for Variables {
    fn in_arguments(&mut self, server: &str, args: &mut Vec<String>) -> Vec<String> {
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

    fn in_address(&mut self, server: &str, address: &mut String) -> Vec<String> {
        let Ok(url) = Url::parse(address.trim()) else { return Vec::new() };
        let was = address.clone();
        // What is said in plain words is kept, so that people see which server it is.
        let mut secrets: Vec<(String, String)> = Vec::new();
        if let Some(password) = url.password() {
            secrets.push((format!("{server}_PASSWORD"), password.to_owned()));
        }
        for pair in url.query().unwrap_or_default().split('&') {
            if let Some((name, value)) = pair.split_once('=')
                && is_secret_name(name)
            {
                secrets.push((format!("{server}_{}", word(name)), value.to_owned()));
            }
        }
        for (name, secret) in secrets {
            if !is_said(&OfServer { variables: self, server }, &secret) {
                continue;
            }
            // The last of them: a name or a host may be spelled the same.
            if let Some(at) = address.rfind(&secret) {
                let variable = self.instead(&name, &secret);
                address.replace_range(at..at + secret.len(), &variable);
            }
        }
        new_variables(&was, address)
    }
}

/// The variables that a text has now and did not have before.
fn new_variables(before: &str, now: &str) -> Vec<String> {
    let old = variables(before);
    let new = variables(now).into_iter().filter(|name| !old.contains(name));
    new.map(str::to_owned).collect()
}

fn members<'a>(
    block: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let members = block.get_mut(key).and_then(Value::as_object_mut);
    members.into_iter().flat_map(Map::iter_mut)
}

/// The variable that a text is, with a default and nothing else.
fn variable_with_default(text: &str) -> Option<&str> {
    let [name] = variables(text)[..] else { return None };
    (text == format!("${{{name}:-{}}}", without_variables(text))).then_some(name)
}

/// A name as that of a variable.
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

    fn hidden(variables: &mut Variables, server: &str, block: Value) -> Value {
        let Value::Object(mut block) = block else { panic!("{block}") };
        variables.hide_in_block(server, &mut block);
        Value::Object(block)
    }

    fn names(variables: &Variables) -> Vec<&str> {
        variables.names().collect()
    }

    #[test]
    fn secrets_become_variables_and_variables_stay() {
        let block = json!({
            "command": "x",
            "args": ["--api-key", "s3cret", "--token=s3cret", "--verbose", "plain",
                     "postgres://u:s3cret@h/db", "--key=${SET}", "--password", "${SET}"],
            "env": { "GITHUB_TOKEN": "s3cret", "LEVEL": "debug", "API_KEY": "${SET}" },
        });
        let mut variables = Variables::default();
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
        let mut variables = Variables::default();
        let remote = hidden(&mut variables, "h", remote);
        assert_eq!(names(&variables), ["H_AUTHORIZATION", "H_URL", "H_X_AUTH"]);
        assert!(!remote.to_string().contains("s3cret"), "{remote}");
    }

    #[test]
    fn a_secret_is_found_wherever_it_stands() {
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
            let mut variables = Variables::default();
            let block = hidden(&mut variables, "x", json!({ "args": args }));
            assert_eq!(block["args"], json!(wanted));
        }
    }

    #[test]
    fn different_secrets_are_different_variables_and_equal_ones_the_same() {
        let mut variables = Variables::beside(["${API_KEY} ${OTHER:-x}"].into_iter());
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
        // The configuration has another variable of that name.
        assert_eq!(block["env"], json!({ "API_KEY": "${API_KEY_2}", "OTHER_KEY": "${OTHER}" }));
    }

    #[test]
    fn the_secret_parts_of_an_address_become_variables() {
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
            let found = Variables::default().in_address("h", &mut text);
            assert_eq!((text.as_str(), found.join(" ").as_str()), (wanted, names));
        }
    }

    #[test]
    fn a_token_is_known_by_its_beginning() {
        let mut args = ["ghp_0123456789abcdef", "sk-learn", "sk-proj-0123456789abcdef"]
            .map(str::to_owned)
            .to_vec();
        let found = Variables::default().in_arguments("x", &mut args);
        assert_eq!(args, ["${X_SECRET}", "sk-learn", "${X_SECRET_2}"]);
        assert_eq!(found, ["X_SECRET", "X_SECRET_2"]);
    }

    #[test]
    fn settings_have_secrets_too() {
        let mut settings = json!({
            "llm": { "apiKey": "s3cret", "model": "m" },
            "list": [{ "token": "s3cret", "env": "NAME" }, { "token": { "keyring": "a/b" } }],
            "otlp": "https://u:s3cret@h",
        });
        let mut variables = Variables::default();
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
