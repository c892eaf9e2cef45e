//! Secrets: which names hold them, which values are known to be some, and texts without them.

mod arguments;
mod naming;
mod shell;

use std::borrow::Cow;

use crate::raw::{self, Raw};
use crate::settings::{Config, Launch, StdioLaunch};

use crate::observe::secret::naming::MIN_SECRET;

pub use crate::observe::secret::arguments::{
    Hide, SecretName, hide_in_argument, is_said, is_secret_name, shows_secret, word,
};
pub use crate::observe::secret::naming::is_secret;

/// The text in place of a secret.
const REDACTED: &str = "***";
/// How deep values lie within each other that are looked through; deeper ones are redacted.
const DEPTH: usize = 32;

/// The values that are known to be secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The values of the secret ones of these variables, and passwords in addresses.
    pub fn of_environment<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let values = environment
            .into_iter()
            .flat_map(|(key, value)| if is_secret(key) { value } else { password(value) }.lines());
        Self::new(values)
    }

    /// Everything secret that a process is told when it is launched, beside what it inherits: in its
    /// environment and in its arguments.
    pub fn of_launch(launch: &StdioLaunch) -> Self {
        Self::default().and_of_launch(launch)
    }

    /// These and those of a launch.
    #[must_use]
    pub fn and_of_launch(self, launch: &StdioLaunch) -> Self {
        let env = launch.env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let arguments = arguments::secrets_of_arguments(&launch.args);
        let referred = launch.referred.keys().filter_map(|name| launch.env.get(name)).cloned();
        let all = self.0.into_iter().chain(Self::of_environment(env).0);
        let all: Vec<_> = all.chain(arguments).chain(referred).collect();
        Self::new(all.iter().flat_map(|secret| secret.lines()))
    }

    /// Everything secret that a configuration tells others: servers in their environments, in their
    /// arguments, in headers and in addresses, and models by their keys.
    pub fn of_config(config: &Config) -> Self {
        let mut all = Vec::new();
        for server in config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers) {
            match &server.launch {
                Launch::Stdio(launch) => {
                    all.extend(Self::of_launch(launch).0);
                }
                Launch::Http(launch) => {
                    let values = launch.headers.iter().filter_map(|(_, value)| value.to_str().ok());
                    // `Bearer x` holds x.
                    let values = values.flat_map(|value| {
                        [value, value.rsplit_once(' ').map_or("", |(_, last)| last)]
                    });
                    all.extend(Self::new(values.chain(launch.url.password())).0);
                    let url = launch.url.as_str();
                    if shows_secret(url) {
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

    fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<_> = values
            .into_iter()
            // A secret of several lines is written in as many.
            .map(str::trim)
            .filter(|line| line.len() >= MIN_SECRET)
            .map(str::to_owned)
            .collect();
        // A secret may be part of another; the whole one goes first.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self(values)
    }

    /// The text with every secret redacted.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for secret in &self.0 {
            if redacted.contains(secret.as_str()) {
                redacted = Cow::Owned(redacted.replace(secret.as_str(), REDACTED));
            }
        }
        redacted
    }

    /// Takes secrets out of a text that has JSON in it, where they may be written with escapes.
    pub fn redact_written<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = self.redact(text);
        for secret in &self.0 {
            let written = Raw::of_text(secret);
            let written = written.as_str();
            let written = written.trim_matches('"');
            if written != secret && redacted.contains(written) {
                redacted = Cow::Owned(redacted.replace(written, REDACTED));
            }
        }
        redacted
    }

    /// Writes a JSON value, with every text redacted and every member left out whose name says that
    /// it is secret.
    pub fn write_redacted(&self, json: &mut Vec<u8>, value: &Raw) {
        self.write(json, value, DEPTH);
    }

    fn write(&self, json: &mut Vec<u8>, value: &Raw, depth: usize) {
        if depth == 0 {
            raw::push_text(json, REDACTED);
        } else if let Some(members) = value.members() {
            json.push(b'{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    json.push(b',');
                }
                raw::push_text(json, &self.redact(key));
                json.push(b':');
                if is_secret(&snake(key)) {
                    raw::push_text(json, REDACTED);
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
        } else if let Some(text) = value.text() {
            raw::push_text(json, &self.redact(&text));
        } else if value.as_bytes().first().is_some_and(|first| matches!(first, b'{' | b'[')) {
            // It cannot be looked through.
            raw::push_text(json, REDACTED);
        } else {
            json.extend_from_slice(self.redact(&value.as_str()).as_bytes());
        }
    }
}

/// `apiKey` and `api-key` as `api_key`.
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

/// The password in an address such as `postgres://user:password@host`; empty where there is none.
pub fn password(value: &str) -> &str {
    let authority = value.split_once("://").map_or("", |(_, rest)| rest);
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    let user = authority[..end].rsplit_once('@').map_or("", |(user, _)| user);
    user.split_once(':').map_or("", |(_, password)| password)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(secrets: &Secrets, value: &Raw) -> String {
        let mut json = Vec::new();
        secrets.write_redacted(&mut json, value);
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn what_is_called_secret_or_known_to_be_is_redacted_and_the_rest_keeps_its_spelling() {
        let secrets =
            Secrets::of_environment([("DB_TOKEN", "hunter2hunter2"), ("MODE", "reading")]);
        let text = r#"{"path":"/a/hunter2hunter2/b","n":1.50,"big":12345678901234567890123,
            "apiKey":{"x":1},"Authorization":"Bearer x","nested":[{"user-password":null},"reading"]}"#;
        let raw =
            Raw::encode(&serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap());
        assert_eq!(
            redacted(&secrets, &raw),
            r#"{"path":"/a/***/b","n":1.50,"big":12345678901234567890123,"apiKey":"***","Authorization":"***","nested":[{"user-password":"***"},"reading"]}"#
        );
    }

    #[test]
    fn the_keys_of_models_are_secret() {
        let model = |key: &str| crate::settings::LlmConfig {
            base_url: "https://example.org/v1/".parse().unwrap(),
            model: "m".to_owned(),
            api_key: Some(key.to_owned()),
            timeout: std::time::Duration::from_secs(1),
            reasoning_effort: None,
        };
        let mut config = Config::default();
        config.navigator.llm = Some(model("hunter2-hunter2"));
        config.search.embeddings = Some(model("hunter3-hunter3"));
        let secrets = Secrets::of_config(&config);
        assert_eq!(secrets.redact("a hunter2-hunter2 b hunter3-hunter3"), "a *** b ***");
    }

    #[test]
    fn what_is_written_with_escapes_is_seen_through() {
        let secrets = Secrets::of_environment([("TOKEN", "geheim-ä")]);
        let raw = Raw::encode(
            &serde_json::from_str::<Box<serde_json::value::RawValue>>(
                r#"{"a":"x gehei\u006d-\u00e4","\u0074oken":1}"#,
            )
            .unwrap(),
        );
        assert_eq!(redacted(&secrets, &raw), r#"{"a":"x ***","token":"***"}"#);
    }

    #[test]
    fn a_secret_is_seen_in_json_too() {
        let secrets = Secrets::of_environment([("TOKEN", "a\"quoted\\one"), ("KEY", "plain-one")]);
        let text = format!("x a\"quoted\\one {}", json!({"a": "plain-one a\"quoted\\one"}));
        assert_eq!(secrets.redact_written(&text), r#"x *** {"a":"*** ***"}"#);
    }

    #[test]
    fn what_is_too_deep_is_redacted() {
        let mut value = json!("hunter2");
        for _ in 0..=DEPTH {
            value = json!([value]);
        }
        let text = redacted(&Secrets::default(), &Raw::encode(&value));
        assert!(text.contains(REDACTED) && !text.contains("hunter2"), "{text}");
    }
}
