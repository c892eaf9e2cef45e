//! Secrets in texts that do not say that they are some: arguments of commands, addresses, JSON.
//!
//! A text that may be a secret is hidden rather than shown.

use std::borrow::Cow;

use serde_json::Value;

use crate::observe::secret::naming::{MIN_SECRET, is_secret};
use crate::observe::secret::shell;

/// Words that stand before a token.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// The name of a secret, as far as the text around it says one.
#[derive(Clone, Copy, Debug)]
pub enum SecretName<'a> {
    /// A flag, a header or a kind of text: several servers may have one.
    Common(&'a str),
    /// A variable of a program that the server starts.
    Variable(&'a str),
}

/// Whoever takes secrets out of texts.
pub trait Hide {
    /// The text without what stands there for something else.
    fn said<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// Returns what is to stand in place of a secret.
    fn instead(&mut self, name: SecretName<'_>, secret: &str) -> String;
}

/// An argument of a command without the secrets in it, if it has any; `before` is the one before it.
pub fn hide_in_argument(hide: &mut dyn Hide, before: &str, text: &str) -> Option<String> {
    if !text.starts_with('-') && is_flag(before) && is_secret_name(before) {
        return is_said(hide, text).then(|| hide.instead(SecretName::Common(&word(before)), text));
    }
    if shell::is_command(before) && text.contains(char::is_whitespace) {
        return shell::replaced(text, |before, word| hide_in_argument(hide, before, word));
    }
    if let Some((name, content)) = split_name(text, '=') {
        let hidden = if is_secret_name(name) {
            // What is no flag is a variable of a program that this one starts.
            let word = word(name);
            let name =
                if is_flag(name) { SecretName::Common(&word) } else { SecretName::Variable(&word) };
            is_said(hide, content).then(|| hide.instead(name, content))?
        } else {
            hide_in_argument(hide, name, content)?
        };
        return Some(format!("{name}={hidden}"));
    }
    if let Some((name, content)) = split_name(text, ':').filter(|(name, _)| is_secret_name(name))
        && !content.starts_with('/')
    {
        let value = content.trim_start();
        let space = &content[..content.len() - value.len()];
        let (scheme, token) = scheme(value);
        return is_said(hide, value).then(|| {
            let hidden = hide.instead(SecretName::Common(&word(name)), token);
            format!("{name}:{space}{scheme}{hidden}")
        });
    }
    let what = if text.contains("://") { "ADDRESS" } else { "SECRET" };
    shows_secret(&hide.said(text)).then(|| hide.instead(SecretName::Common(what), text))
}

/// Returns `true` if anything of a secret stands there itself, beside what is not said and the word
/// before it.
pub fn is_said(hide: &dyn Hide, text: &str) -> bool {
    let said = hide.said(text);
    if said == text {
        return !text.trim().is_empty();
    }
    let mut words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| !SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)))
}

/// Collects the secrets of a command's arguments.
pub(super) fn secrets_of_arguments(args: &[String]) -> Vec<String> {
    #[derive(Default)]
    struct Found(Vec<String>);

    impl Hide for Found {
        fn said<'a>(&self, text: &'a str) -> Cow<'a, str> {
            text.into()
        }

        fn instead(&mut self, _: SecretName<'_>, secret: &str) -> String {
            self.0.extend(secrets_of_text(secret));
            String::new()
        }
    }

    let mut found = Found::default();
    let mut before = "";
    for text in args {
        hide_in_argument(&mut found, before, text);
        before = text;
    }
    found.0
}

/// The secrets in a text that has some: their own places in it, or else all of it.
pub(super) fn secrets_of_text(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = text.split_whitespace().flat_map(secrets_of_address).collect();
    if let Some(value) = json(text) {
        secrets_of_value(&value, &mut parts);
    } else {
        parts.extend(bearers(text).map(str::to_owned));
    }
    parts.retain(|part| !part.is_empty());
    // A part that is too short to be looked for is hidden with what is around it.
    if parts.iter().all(|part| part.len() < MIN_SECRET) {
        parts.push(text.to_owned());
    }
    parts
}

/// Returns `true` if a text has a secret in it, whatever its name.
pub fn shows_secret(said: &str) -> bool {
    said.split_whitespace().any(|word| secrets_of_address(word).next().is_some())
        || bearers(said).next().is_some()
        || json(said).is_some_and(|value| {
            let mut found = Vec::new();
            secrets_of_value(&value, &mut found);
            !found.is_empty()
        })
        || is_token(said)
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

/// Returns `true` if something of this name is likely to be secret: a variable, a header, a flag.
pub fn is_secret_name(name: &str) -> bool {
    is_secret(&word(name))
}

/// A flag or header as a name.
pub fn word(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}

/// A word such as `Bearer ` that stands before a token, and the token.
fn scheme(value: &str) -> (&str, &str) {
    let at = value.find(' ').map_or(0, |at| at + 1);
    let (scheme, token) = value.split_at(at);
    let is_one = SCHEMES.iter().any(|known| scheme.trim().eq_ignore_ascii_case(known));
    if is_one { (scheme, token.trim()) } else { ("", value) }
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

/// The password of an address, and the secrets among its parameters.
fn secrets_of_address(text: &str) -> impl Iterator<Item = String> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    // There, whoever has the name needs no password, and a name may be a token.
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

/// The tokens that stand behind the word that goes before one.
fn bearers(text: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs: Vec<_> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let behind = pairs.into_iter().filter(|(before, token)| {
        let scheme = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && token.starts_with(char::is_alphanumeric)
    });
    behind.map(|(_, token)| token.trim_end_matches(['"', '\'']))
}

/// The JSON that a text is.
fn json(text: &str) -> Option<Value> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    is_json.then(|| serde_json::from_str(text).ok())?
}

/// The texts under the keys that say that they are secret.
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
    fn secrets_among_arguments_are_found_in_their_places() {
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
