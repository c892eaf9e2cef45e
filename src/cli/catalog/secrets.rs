//! Blocks of servers without the secrets in them: what is one becomes a variable.

use serde_json::{Map, Value};
use url::Url;

use crate::observe::is_secret;

/// Puts variables in place of what looks secret; the names of those, to be set before the start.
pub(super) fn replace(server: &str, block: &mut Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    let mut hide = |value: &mut Value, name: String| {
        *value = format!("${{{name}}}").into();
        set.push(name);
    };
    for (key, value) in members(block, "env") {
        if is_plain(value) && (is_secret(key) || is_secret_address(value)) {
            hide(value, variable(key));
        }
    }
    for (key, value) in members(block, "headers") {
        if is_plain(value) && is_secret(key) {
            hide(value, variable(&format!("{server}_{key}")));
        }
    }
    if let Some(url) = block.get_mut("url")
        && is_plain(url)
        && is_secret_address(url)
    {
        hide(url, variable(&format!("{server}_URL")));
    }
    let mut flag: Option<String> = None;
    for value in block.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
        let text = value.as_str().unwrap_or_default().to_owned();
        let before = flag.take();
        if !is_plain(value) {
            continue;
        }
        match (text.starts_with('-'), text.split_once('=')) {
            (true, Some((name, content))) if is_secret(&word(name)) && !content.is_empty() => {
                let variable = variable(&format!("{server}_{}", word(name)));
                *value = format!("{name}=${{{variable}}}").into();
                set.push(variable);
            }
            (true, _) => flag = Some(word(&text)).filter(|word| is_secret(word)),
            (false, _) => {
                if let Some(flag) = before {
                    hide_argument(value, &variable(&format!("{server}_{flag}")), &mut set);
                } else if is_secret_address(value) {
                    hide_argument(value, &variable(&format!("{server}_ADDRESS")), &mut set);
                }
            }
        }
    }
    set.sort_unstable();
    set.dedup();
    set
}

fn hide_argument(value: &mut Value, name: &str, set: &mut Vec<String>) {
    *value = format!("${{{name}}}").into();
    set.push(name.to_owned());
}

fn members<'a>(
    block: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let members = block.get_mut(key).and_then(Value::as_object_mut);
    members.into_iter().flat_map(Map::iter_mut)
}

/// Whether something stands there, and no variable.
fn is_plain(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && !text.contains("${"))
}

/// Whether this is an address with a password, or with a secret among its parameters.
fn is_secret_address(value: &Value) -> bool {
    let url = value.as_str().and_then(|text| Url::parse(text).ok());
    url.is_some_and(|url| {
        url.password().is_some() || url.query_pairs().any(|(name, _)| is_secret(&name))
    })
}

/// A flag without its dashes.
fn word(flag: &str) -> String {
    flag.trim_start_matches('-').replace('-', "_")
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

    #[test]
    fn secrets_become_variables_and_variables_stay() {
        let block = json!({
            "command": "x",
            "args": ["--api-key", "s3cret", "--token=s3cret", "--verbose", "plain",
                     "postgres://u:s3cret@h/db", "--key=${SET}", "--password", "${SET}"],
            "env": { "GITHUB_TOKEN": "s3cret", "LEVEL": "debug", "API_KEY": "${SET}" },
        });
        let mut block = block.as_object().unwrap().clone();
        let set = replace("my-db", &mut block);
        assert_eq!(set, ["GITHUB_TOKEN", "MY_DB_ADDRESS", "MY_DB_API_KEY", "MY_DB_TOKEN"]);
        assert_eq!(
            Value::Object(block),
            json!({
                "command": "x",
                "args": ["--api-key", "${MY_DB_API_KEY}", "--token=${MY_DB_TOKEN}", "--verbose",
                         "plain", "${MY_DB_ADDRESS}", "--key=${SET}", "--password", "${SET}"],
                "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}", "LEVEL": "debug", "API_KEY": "${SET}" },
            })
        );
        let remote = json!({
            "url": "https://h/mcp?api_key=s3cret",
            "headers": { "Authorization": "Bearer s3cret", "X-Team": "a" },
        });
        let mut remote = remote.as_object().unwrap().clone();
        assert_eq!(replace("h", &mut remote), ["H_AUTHORIZATION", "H_URL"]);
        assert!(!Value::Object(remote).to_string().contains("s3cret"));
    }
}
