//! Texts without the secrets in them: each secret becomes a variable.
//!
//! What may be one is hidden rather than shown: a variable too many is set and done with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use url::Url;

use crate::authoring::import::HideSecrets;
use crate::config::{variables, without_variables};
use crate::observe::is_secret;

mod shell;

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
        if (is_secret && is_said(text)) || shows_secret(text) {
            *value = self.instead(name, text).into();
        }
    }

    /// An argument without the secret in it, if it has one; `before` is the one before it.
    fn argument(&mut self, server: &str, before: &str, text: &str) -> Option<String> {
        let named = |flag: &str| format!("{server}_{}", word(flag));
        if !text.starts_with('-') && is_flag(before) && is_secret_name(before) {
            return is_said(text).then(|| self.instead(&named(before), text));
        }
        if shell::is_command(before) && text.contains(char::is_whitespace) {
            return shell::replaced(text, |before, word| self.argument(server, before, word));
        }
        if let Some((name, content)) = split_name(text, '=') {
            let hidden = if is_secret_name(name) {
                // What is no flag is a variable of a program that this one starts.
                let wanted = if is_flag(name) { named(name) } else { word(name) };
                is_said(content).then(|| self.instead(&wanted, content))?
            } else {
                self.argument(server, name, content)?
            };
            return Some(format!("{name}={hidden}"));
        }
        if let Some((name, content)) =
            split_name(text, ':').filter(|(name, _)| is_secret_name(name))
            && !content.starts_with('/')
        {
            let value = content.trim_start();
            let space = &content[..content.len() - value.len()];
            let (scheme, token) = scheme(value);
            return is_said(value)
                .then(|| format!("{name}:{space}{scheme}{}", self.instead(&named(name), token)));
        }
        let what = if text.contains("://") { "ADDRESS" } else { "SECRET" };
        shows_secret(text).then(|| self.instead(&named(what), text))
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
        for (name, secret) in secrets.into_iter().filter(|(_, secret)| is_said(secret)) {
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

/// A word such as `Bearer ` that stands before a token, and the token.
fn scheme(value: &str) -> (&str, &str) {
    let at = value.find(' ').map_or(0, |at| at + 1);
    let (scheme, token) = value.split_at(at);
    let is_one = SCHEMES.iter().any(|known| scheme.trim().eq_ignore_ascii_case(known));
    if is_one { (scheme, token.trim()) } else { ("", value) }
}

/// Words that stand before a token.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

fn members<'a>(
    block: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let members = block.get_mut(key).and_then(Value::as_object_mut);
    members.into_iter().flat_map(Map::iter_mut)
}

/// A text's name, and the text behind the sign that follows the name.
fn split_name(text: &str, sign: char) -> Option<(&str, &str)> {
    let (name, content) = text.split_once(sign)?;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.is_empty() && !content.is_empty() && name.chars().all(is_part))
        .then_some((name, content))
}

/// Returns `true` if the value of this argument stands behind it.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && !text.contains('=')
}

/// Returns `true` if a thing of this name is likely to be secret: a variable, a header, a flag.
fn is_secret_name(name: &str) -> bool {
    is_secret(&word(name))
}

/// Returns `true` if anything of a secret stands there itself, beside variables and the word before
/// it.
fn is_said(text: &str) -> bool {
    if variables(text).is_empty() {
        return !text.trim().is_empty();
    }
    let said = without_variables(text);
    let mut words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| !SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)))
}

/// Returns `true` if a text has a secret in it, whatever its name.
fn shows_secret(text: &str) -> bool {
    let said = without_variables(text);
    said.split_whitespace().any(is_secret_address)
        || has_bearer(&said)
        || has_secret_member(&said)
        || is_token(&said)
}

/// Returns `true` if a text is a token; those of well-known services are known by how they begin.
fn is_token(text: &str) -> bool {
    const MARKS: [&str; 16] = [
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "sk-",
        "sk_live_",
        "sk_test_",
        "xoxb-",
        "xoxp-",
        "xapp-",
        "AIza",
        "AKIA",
        "hf_",
        "ntn_",
        "tvly-",
    ];
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let rest = MARKS.iter().find_map(|mark| text.strip_prefix(mark));
    rest.is_some_and(|rest| {
        rest.len() >= 12 && rest.chars().all(is_part) && rest.contains(|c: char| c.is_ascii_digit())
    })
}

/// Returns `true` if this is an address with a password, or with a secret among its parameters.
fn is_secret_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    // There, whoever has the name needs no password, and a name may be a token.
    let is_web = scheme.ends_with("http") || scheme.ends_with("https");
    let end = rest.find(['/', '?', '#']).filter(|_| is_web).unwrap_or(rest.len());
    let user = rest[..end].rsplit_once('@').map_or("", |(user, _)| user);
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let mut parameters = query.split(['&', ';', '#']).filter_map(|pair| pair.split_once('='));
    !password.is_empty()
        || (is_web && !name.is_empty())
        || parameters.any(|(name, value)| !value.is_empty() && is_secret_name(name))
}

/// Returns `true` if a token stands behind the word that goes before one.
fn has_bearer(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let scheme = pair[0].rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && pair[1].starts_with(char::is_alphanumeric)
    })
}

/// Returns `true` if this is JSON with a secret in it.
fn has_secret_member(text: &str) -> bool {
    fn has(value: &Value) -> bool {
        match value {
            Value::Object(members) => members.iter().any(|(key, value)| {
                let text = value.as_str().unwrap_or_default();
                (is_secret_name(key) && !text.is_empty()) || has(value)
            }),
            Value::Array(values) => values.iter().any(has),
            _ => false,
        }
    }
    text.trim_start().starts_with(['{', '['])
        && serde_json::from_str(text).is_ok_and(|value: Value| has(&value))
}

/// The variable that a text is, with a default and nothing else.
fn variable_with_default(text: &str) -> Option<&str> {
    let [name] = variables(text)[..] else { return None };
    (text == format!("${{{name}:-{}}}", without_variables(text))).then_some(name)
}

/// A flag or header as a name.
fn word(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
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
            "list": [{ "token": "s3cret", "env": "NAME" }],
            "otlp": "https://u:s3cret@h",
        });
        let mut variables = Variables::default();
        variables.hide_in_settings("navigator", settings.as_object_mut().unwrap());
        let wanted = json!({
            "llm": { "apiKey": "${NAVIGATOR_LLM_APIKEY}", "model": "m" },
            "list": [{ "token": "${NAVIGATOR_LIST_TOKEN}", "env": "NAME" }],
            "otlp": "${NAVIGATOR_OTLP}",
        });
        assert_eq!(settings, wanted);
    }
}
