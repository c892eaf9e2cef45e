//! Finds and replaces secrets in texts without an explicit marker: command arguments, URLs, JSON.
//!
//! When in doubt, a text counts as secret.

use std::borrow::Cow;

use serde_json::Value;

use crate::telemetry::redaction::secret_names::{MIN_SECRET, is_secret_variable};
use crate::telemetry::redaction::shell_words;

/// Authentication schemes that precede a token.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// A name for a secret, derived from its context.
#[derive(Clone, Copy, Debug)]
pub enum SecretName<'a> {
    /// A flag, a header or a kind of value. Several servers can use the same name.
    Common(&'a str),
    /// An environment variable of a program that the server starts.
    Variable(&'a str),
}

/// Decides how secrets are replaced.
pub trait SecretReplacer {
    /// Returns the literal part of a text, without variable references.
    fn literal_text<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// Returns the replacement for a secret.
    fn replacement(&mut self, name: SecretName<'_>, secret: &str) -> String;
}

/// Replaces the secrets in a command argument and returns the result, or `None` if it has none.
/// `before` is the argument before it.
pub fn redact_argument(hide: &mut dyn SecretReplacer, before: &str, text: &str) -> Option<String> {
    if !text.starts_with('-') && is_flag(before) && is_secret_name(before) {
        return has_literal_secret(hide, text)
            .then(|| hide.replacement(SecretName::Common(&normalize_secret_name(before)), text));
    }
    if shell_words::is_command(before) && text.contains(char::is_whitespace) {
        return shell_words::replaced(text, |before, word| redact_argument(hide, before, word));
    }
    if let Some((name, content)) = split_name(text, '=') {
        let hidden = if is_secret_name(name) {
            // `NAME=value` without a dash sets a variable of a program that this one starts.
            let word = normalize_secret_name(name);
            let name =
                if is_flag(name) { SecretName::Common(&word) } else { SecretName::Variable(&word) };
            has_literal_secret(hide, content).then(|| hide.replacement(name, content))?
        } else {
            redact_argument(hide, name, content)?
        };
        return Some(format!("{name}={hidden}"));
    }
    if let Some((name, content)) = split_name(text, ':').filter(|(name, _)| is_secret_name(name))
        && !content.starts_with('/')
    {
        let value = content.trim_start();
        let space = &content[..content.len() - value.len()];
        let (scheme, token) = scheme(value);
        return has_literal_secret(hide, value).then(|| {
            let hidden = hide.replacement(SecretName::Common(&normalize_secret_name(name)), token);
            format!("{name}:{space}{scheme}{hidden}")
        });
    }
    let what = if text.contains("://") { "ADDRESS" } else { "SECRET" };
    contains_secret(&hide.literal_text(text))
        .then(|| hide.replacement(SecretName::Common(what), text))
}

/// Returns `true` if a text contains a literal secret: more than variable references and a scheme
/// such as `Bearer`.
pub fn has_literal_secret(hide: &dyn SecretReplacer, text: &str) -> bool {
    let said = hide.literal_text(text);
    if said == text {
        return !text.trim().is_empty();
    }
    let mut words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| !SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)))
}

pub(super) fn secrets_of_arguments(args: &[String]) -> Vec<String> {
    #[derive(Default)]
    struct Found(Vec<String>);

    impl SecretReplacer for Found {
        fn literal_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
            text.into()
        }

        fn replacement(&mut self, _: SecretName<'_>, secret: &str) -> String {
            self.0.extend(secrets_of_text(secret));
            String::new()
        }
    }

    let mut found = Found::default();
    let mut before = "";
    for text in args {
        redact_argument(&mut found, before, text);
        before = text;
    }
    found.0
}

/// Returns the secrets in a text that contains some: the secret parts, or the whole text if none is
/// found.
pub(super) fn secrets_of_text(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = text.split_whitespace().flat_map(secrets_of_address).collect();
    if let Some(value) = json(text) {
        secrets_of_value(&value, &mut parts);
    } else {
        parts.extend(bearers(text).map(str::to_owned));
    }
    parts.retain(|part| !part.is_empty());
    // A part below the minimum length isn't redacted in output, so the text around it is included.
    if parts.iter().all(|part| part.len() < MIN_SECRET) {
        parts.push(text.to_owned());
    }
    parts
}

/// Returns `true` if a text contains a secret, independent of its name.
pub fn contains_secret(said: &str) -> bool {
    said.split_whitespace().any(|word| secrets_of_address(word).next().is_some())
        || bearers(said).next().is_some()
        || json(said).is_some_and(|value| {
            let mut found = Vec::new();
            secrets_of_value(&value, &mut found);
            !found.is_empty()
        })
        || is_token(said)
}

fn split_name(text: &str, sign: char) -> Option<(&str, &str)> {
    let (name, content) = text.split_once(sign)?;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.is_empty() && !content.is_empty() && name.chars().all(is_part))
        .then_some((name, content))
}

/// Returns `true` if the value of this flag is the next argument.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && !text.contains('=')
}

/// Returns `true` if a variable, header or flag of this name probably holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    is_secret_variable(&normalize_secret_name(name))
}

/// Turns a flag or header name into a variable name: no leading dashes, underscores for other
/// dashes.
pub fn normalize_secret_name(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}

/// Splits off a scheme such as `Bearer `.
fn scheme(value: &str) -> (&str, &str) {
    let at = value.find(' ').map_or(0, |at| at + 1);
    let (scheme, token) = value.split_at(at);
    let is_one = SCHEMES.iter().any(|known| scheme.trim().eq_ignore_ascii_case(known));
    if is_one { (scheme, token.trim()) } else { ("", value) }
}

/// Returns `true` if a text is a token of a well-known service, recognized by its prefix.
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

/// Returns the password of a URL and its secret query parameters.
fn secrets_of_address(text: &str) -> impl Iterator<Item = String> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    // HTTP URLs accept a token as the user name, without a password.
    let is_web = scheme.ends_with("http") || scheme.ends_with("https");
    let end = rest.find(['/', '?', '#']).filter(|_| is_web).unwrap_or(rest.len());
    let user = rest[..end].rsplit_once('@').map_or("", |(user, _)| user);
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let name = if is_web && password.is_empty() { name } else { "" };
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split(['&', ';', '#']).filter_map(|pair| pair.split_once('='));
    let secret = parameters.filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value);
    let found: Vec<_> = [password, name].into_iter().chain(secret).map(str::to_owned).collect();
    found.into_iter().filter(|secret| !secret.is_empty())
}

fn bearers(text: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs: Vec<_> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let behind = pairs.into_iter().filter(|(before, token)| {
        let scheme = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && token.starts_with(char::is_alphanumeric)
    });
    behind.map(|(_, token)| token.trim_end_matches(['"', '\'']))
}

fn json(text: &str) -> Option<Value> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    is_json.then(|| serde_json::from_str(text).ok())?
}

fn secrets_of_value(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str() {
                    Some(text) if is_secret_name(key) && !text.is_empty() => {
                        found.push(scheme(text).1.to_owned());
                    }
                    _ => secrets_of_value(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| secrets_of_value(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn finds_secrets_in_arguments() {
        for (args, wanted) in [
            (&["--api-key", "s3cret-1"][..], &["s3cret-1"][..]),
            (&["--token=s3cret-1", "--verbose", "plain"], &["s3cret-1"]),
            (&["-e", "GH_TOKEN=s3cret-1"], &["s3cret-1"]),
            (&["--header", "Authorization: Bearer s3cret-1"], &["s3cret-1"]),
            (&["postgres://u:s3/cret-1@h/db"], &["s3/cret-1"]),
            (&["https://h/mcp?api_key=s3cret-1&x=1"], &["s3cret-1"]),
            (&["https://s3cret-1@h/x"], &["s3cret-1"]),
            (&["postgres://u:pw@h/db"], &["pw", "postgres://u:pw@h/db"]),
            (&[r#"{"headers": {"Authorization": "Bearer s3cret-1"}, "n": 1}"#], &["s3cret-1"]),
            (&["ghp_0123456789abcdef"], &["ghp_0123456789abcdef"]),
            (&["-c", "A_KEY=s3cret-1 node x --token 's3 cret'"], &["s3cret-1", "s3 cret"]),
            (&["-y", "server", "--port", "80", "-v", "secrets:/run/secrets", "sk-learn"], &[]),
        ] {
            let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(secrets_of_arguments(&args), wanted, "{args:?}");
        }
    }
}
