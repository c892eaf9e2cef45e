//! Redacts secrets: known values, and JSON members whose name marks them as secret.

mod arguments;
mod learned;
mod secret_names;
mod shell_words;

use std::borrow::Cow;

use mcp_workbench_settings::{Config, GrantType, Launch, OAuthConfig, StdioLaunch};
use mcp_workbench_wire::json::{self, RawJson};

use crate::telemetry::redaction::secret_names::MIN_SECRET;

pub use crate::telemetry::redaction::arguments::{
    SecretName, SecretReplacer, contains_secret, has_literal_secret, is_secret_name,
    normalize_secret_name, redact_argument,
};
pub use crate::telemetry::redaction::learned::{drop_secrets, learn_secrets};
pub use crate::telemetry::redaction::secret_names::is_secret_variable;

const REDACTED: &str = "***";
/// Maximum nesting depth of redacted JSON; deeper values are replaced entirely.
const DEPTH: usize = 128;

/// A set of secret values to redact. Secrets of logins ([`learn_secrets`]) are part of every set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactor(Vec<String>);

impl Redactor {
    /// Collects the values of variables with secret names, and passwords in URLs of the other
    /// variables.
    pub fn from_environment<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let values = environment.into_iter().flat_map(|(key, value)| {
            if is_secret_variable(key) { value } else { url_password(value) }.lines()
        });
        Self::new(values)
    }

    /// Collects the secrets in a server's configured environment and arguments. Variables that the
    /// process inherits are not included.
    pub fn from_launch(launch: &StdioLaunch) -> Self {
        Self::default().with_launch(launch)
    }

    /// Adds the secrets of a launch.
    #[must_use]
    pub fn with_launch(self, launch: &StdioLaunch) -> Self {
        let env = launch.env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let arguments = arguments::secrets_of_arguments(&launch.args);
        let referred = launch.secret_refs.keys().filter_map(|name| launch.env.get(name)).cloned();
        let all = self.0.into_iter().chain(Self::from_environment(env).0);
        let all: Vec<_> = all.chain(arguments).chain(referred).collect();
        Self::new(all.iter().flat_map(|secret| secret.lines()))
    }

    /// Collects the secrets of a configuration: environments, arguments, headers and URLs of
    /// servers, and the API keys and URLs of language models.
    pub fn from_config(config: &Config) -> Self {
        let mut all = Vec::new();
        for server in config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers) {
            match &server.launch {
                Launch::Stdio(launch) => {
                    all.extend(Self::from_launch(launch).0);
                }
                Launch::Http(launch) => {
                    let values = launch.headers.iter().filter_map(|(_, value)| value.to_str().ok());
                    // The token of `Bearer x` is `x`.
                    let values = values.flat_map(|value| {
                        [value, value.rsplit_once(' ').map_or("", |(_, last)| last)]
                    });
                    all.extend(Self::new(values.chain(launch.url.password())).0);
                    all.extend(Self::new(oauth_secrets(&launch.oauth)).0);
                    let url = launch.url.as_str();
                    if contains_secret(url) {
                        all.extend(arguments::secrets_of_text(url));
                    }
                }
                Launch::Unsupported { .. } | Launch::Broken { .. } | Launch::Macros(_) => {}
            }
        }
        let models = [&config.navigator.llm, &config.search.embeddings];
        for model in models.into_iter().flatten() {
            let key = model.api_key.as_deref();
            all.extend(Self::new(key.into_iter().chain(model.base_url.password())).0);
        }
        Self::new(all.iter().map(String::as_str))
    }

    /// Collects the texts and numbers in JSON members with a secret name, such as `"password"`.
    pub(crate) fn from_members(value: &RawJson) -> Self {
        fn collect(value: &RawJson, is_secret: bool, depth: usize, found: &mut Vec<String>) {
            if depth == 0 {
                return;
            }
            if let Some(members) = value.members() {
                for (key, value) in &members {
                    let is_secret = is_secret || is_secret_variable(&snake(key));
                    collect(value, is_secret, depth - 1, found);
                }
            } else if let Some(items) = value.items() {
                for item in &items {
                    collect(item, is_secret, depth - 1, found);
                }
            } else if is_secret {
                let text = value.decode_string_lossy().unwrap_or_else(|| value.as_str());
                found.push(text.into_owned());
            }
        }
        let mut found = Vec::new();
        collect(value, false, DEPTH, &mut found);
        Self::new(found.iter().flat_map(|text| text.lines()))
    }

    /// Collects these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<_> = values
            .into_iter()
            // A multi-line secret is redacted line by line.
            .map(str::trim)
            .filter(|line| line.len() >= MIN_SECRET)
            .map(str::to_owned)
            .collect();
        // Longest first: a secret can contain another one.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self(values)
    }

    /// Replaces every secret in a text.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        let mut redact = |secret: &str| {
            if redacted.contains(secret) {
                redacted = Cow::Owned(redacted.replace(secret, REDACTED));
            }
        };
        learned::for_each(&mut redact);
        self.0.iter().for_each(|secret| redact(secret));
        redacted
    }

    /// Replaces secrets in a text that contains JSON, including their JSON-escaped spelling.
    pub fn redact_json_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = self.redact(text);
        for secret in &self.0 {
            let written = RawJson::from_text(secret);
            let written = written.as_str();
            let written = written.trim_matches('"');
            if written != secret && redacted.contains(written) {
                redacted = Cow::Owned(redacted.replace(written, REDACTED));
            }
        }
        redacted
    }

    /// Appends a JSON value to `json` with all secrets redacted. Members with a secret name are
    /// redacted as a whole; everything else keeps its spelling.
    pub fn write_redacted(&self, json: &mut Vec<u8>, value: &RawJson) {
        self.write(json, value, DEPTH);
    }

    fn write(&self, json: &mut Vec<u8>, value: &RawJson, depth: usize) {
        if depth == 0 {
            json::push_text(json, REDACTED);
        } else if let Some(members) = value.members() {
            json.push(b'{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    json.push(b',');
                }
                json::push_text(json, &self.redact(key));
                json.push(b':');
                if is_secret_variable(&snake(key)) {
                    json::push_text(json, REDACTED);
                } else {
                    self.write(json, value, depth - 1);
                }
            }
            json.push(b'}');
        } else if let Some(items) = value.items() {
            json.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    json.push(b',');
                }
                self.write(json, item, depth - 1);
            }
            json.push(b']');
        } else if let Some(text) = value.decode_string_lossy() {
            json::push_text(json, &self.redact(&text));
        } else if value.as_bytes().first().is_some_and(|first| matches!(first, b'{' | b'[')) {
            // Not valid JSON, so it can't be searched.
            json::push_text(json, REDACTED);
        } else {
            json.extend_from_slice(self.redact(&value.as_str()).as_bytes());
        }
    }
}

/// Returns the secrets in `oauth`, by line.
fn oauth_secrets(oauth: &OAuthConfig) -> impl Iterator<Item = &str> {
    let (key, provider) = match &oauth.grant {
        GrantType::PrivateKeyJwt { key, .. } => (Some(key), None),
        GrantType::IdentityAssertion(provider) => (None, Some(provider)),
        GrantType::TokenExchange(exchange) => (exchange.key.as_ref().map(|key| &key.pem), None),
        _ => (None, None),
    };
    let provider =
        provider.into_iter().flat_map(|it| it.client_secret.iter().chain([&it.id_token]));
    let all = oauth.client_secret.iter().chain(key).chain(provider);
    all.flat_map(|text| text.lines()).filter(|line| !line.starts_with("-----"))
}

/// Converts `apiKey` and `api-key` to `api_key`.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for char in name.chars() {
        if char.is_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = char.is_lowercase();
        snake.push(if char == '-' { '_' } else { char });
    }
    snake
}

/// Returns the password of a URL such as `postgres://user:password@host`, or an empty string.
pub fn url_password(value: &str) -> &str {
    let authority = value.split_once("://").map_or("", |(_, rest)| rest);
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    let user = authority[..end].rsplit_once('@').map_or("", |(user, _)| user);
    user.split_once(':').map_or("", |(_, password)| password)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(secrets: &Redactor, value: &RawJson) -> String {
        let mut json = Vec::new();
        secrets.write_redacted(&mut json, value);
        String::from_utf8(json).unwrap()
    }

    // invariant: no-secrets-in-records
    #[test]
    fn redacts_secret_keys_and_known_values_and_keeps_other_bytes() {
        let secrets =
            Redactor::from_environment([("DB_TOKEN", "hunter2hunter2"), ("MODE", "reading")]);
        let text = r#"{"path":"/a/hunter2hunter2/b","n":1.50,"big":12345678901234567890123,
            "apiKey":{"x":1},"Authorization":"Bearer x","nested":[{"user-password":null},"reading"]}"#;
        let raw = RawJson::encode(
            &serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap(),
        );
        assert_eq!(
            redacted(&secrets, &raw),
            r#"{"path":"/a/***/b","n":1.50,"big":12345678901234567890123,"apiKey":"***","Authorization":"***","nested":[{"user-password":"***"},"reading"]}"#
        );
    }

    // invariant: no-secrets-in-records
    #[test]
    fn secret_members_of_arguments_are_found_at_any_depth() {
        let value = json!({"path": "/home/ann", "login": {"Password": "hunter2-hunter2",
            "apiKeys": ["first-key", 12_345_678, "short", null]}, "text": "kept-as-it-is"});
        let secrets = Redactor::from_members(&RawJson::encode(&value));
        let text = "/home/ann hunter2-hunter2 first-key 12345678 short kept-as-it-is";
        assert_eq!(secrets.redact(text), "/home/ann *** *** *** short kept-as-it-is");
    }

    #[test]
    fn redacts_api_keys_of_models() {
        let model = |key: &str| mcp_workbench_settings::LlmConfig {
            base_url: "https://example.org/v1/".parse().unwrap(),
            model: "m".to_owned(),
            api_key: Some(key.to_owned()),
            timeout: std::time::Duration::from_secs(1),
            reasoning_effort: None,
        };
        let mut config = Config::default();
        config.navigator.llm = Some(model("hunter2-hunter2"));
        config.search.embeddings = Some(model("hunter3-hunter3"));
        let secrets = Redactor::from_config(&config);
        assert_eq!(secrets.redact("a hunter2-hunter2 b hunter3-hunter3"), "a *** b ***");
    }

    #[test]
    fn redacts_secrets_of_oauth() {
        let provider = mcp_workbench_settings::IdentityProvider {
            token_endpoint: "https://login.example.com/token".parse().unwrap(),
            client_id: "workbench".to_owned(),
            client_secret: Some("secret-of-provider".to_owned()),
            id_token: "the-id-token".to_owned(),
        };
        let key = "-----BEGIN PRIVATE KEY-----\nfirst-line\nsecond-line\n-----END PRIVATE KEY-----";
        let grants = [
            GrantType::IdentityAssertion(Box::new(provider)),
            GrantType::PrivateKeyJwt {
                key: key.to_owned(),
                algorithm: "ES256".to_owned(),
                key_id: None,
            },
        ];
        let found = grants.map(|grant| {
            let secret = Some("secret-of-client".to_owned());
            let oauth = OAuthConfig { grant, client_secret: secret, ..OAuthConfig::default() };
            oauth_secrets(&oauth).map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(found[0], ["secret-of-client", "secret-of-provider", "the-id-token"]);
        assert_eq!(found[1], ["secret-of-client", "first-line", "second-line"]);
    }

    // invariant: no-secrets-in-records
    #[test]
    fn redacts_secrets_in_text_that_is_not_valid_unicode() {
        let secrets = Redactor::from_environment([("TOKEN", "hunter2hunter2")]);
        let raw: RawJson =
            serde_json::from_str(r#"["a","\u0068unter2hunter2\ud800","\ud83d\ude00\ud83d"]"#)
                .unwrap();
        assert_eq!(redacted(&secrets, &raw), "[\"a\",\"***\u{fffd}\",\"😀\u{fffd}\"]");
    }

    #[test]
    fn redacts_secrets_written_with_json_escapes() {
        let secrets = Redactor::from_environment([("TOKEN", "geheim-ä")]);
        let raw = RawJson::encode(
            &serde_json::from_str::<Box<serde_json::value::RawValue>>(
                r#"{"a":"x gehei\u006d-\u00e4","\u0074oken":1}"#,
            )
            .unwrap(),
        );
        assert_eq!(redacted(&secrets, &raw), r#"{"a":"x ***","token":"***"}"#);
    }

    #[test]
    fn redacts_json_escaped_secrets_in_text() {
        let secrets =
            Redactor::from_environment([("TOKEN", "a\"quoted\\one"), ("KEY", "plain-one")]);
        let text = format!("x a\"quoted\\one {}", json!({"a": "plain-one a\"quoted\\one"}));
        assert_eq!(secrets.redact_json_text(&text), r#"x *** {"a":"*** ***"}"#);
    }

    #[test]
    fn redacts_values_below_the_maximum_depth() {
        let mut value = json!("hunter2");
        for _ in 0..=DEPTH {
            value = json!([value]);
        }
        let text = redacted(&Redactor::default(), &RawJson::encode(&value));
        assert!(text.contains(REDACTED) && !text.contains("hunter2"), "{text}");
    }
}
