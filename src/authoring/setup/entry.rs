//! The entry that a client starts the workbench by, in the client's own form.

use serde_json::{Value, json};

use crate::authoring::client_files::{EntryForm, RemoteForm};
use crate::authoring::setup::NAME;

/// The line that says what it is, where a client's form has room for one.
const DESCRIPTION: &str = "One server for all others: toolboxes are opened when they are wanted";

/// The entry that starts `program` with `args`.
pub fn entry(form: EntryForm, program: &str, args: &[String]) -> Value {
    match form {
        EntryForm::Plain => json!({ "command": program, "args": args }),
        EntryForm::Stdio => json!({ "type": "stdio", "command": program, "args": args }),
        EntryForm::Custom => json!({ "source": "custom", "command": program, "args": args }),
        EntryForm::Local => {
            json!({ "type": "local", "command": program, "args": args, "tools": ["*"] })
        }
        EntryForm::Words => {
            let words: Vec<&str> =
                std::iter::once(program).chain(args.iter().map(String::as_str)).collect();
            json!({ "type": "local", "command": words, "enabled": true })
        }
        EntryForm::Extension => json!({
            "name": NAME,
            "description": DESCRIPTION,
            "type": "stdio",
            "cmd": program,
            "args": args,
            "enabled": true,
            "timeout": 300,
        }),
    }
}

/// The entry that leads to a workbench over HTTP, which is shown this token.
pub fn remote_entry(form: RemoteForm, url: &str, token: &str) -> Value {
    let headers = json!({ "Authorization": format!("Bearer {token}") });
    match form {
        RemoteForm::Plain => json!({ "url": url, "headers": headers }),
        RemoteForm::Typed(word) => json!({ "type": word, "url": url, "headers": headers }),
        RemoteForm::HttpUrl => json!({ "httpUrl": url, "headers": headers }),
        RemoteForm::ServerUrl => json!({ "serverUrl": url, "headers": headers }),
        RemoteForm::HttpHeaders => json!({ "url": url, "http_headers": headers }),
        RemoteForm::Tools => {
            json!({ "type": "http", "url": url, "headers": headers, "tools": ["*"] })
        }
        RemoteForm::Remote => {
            json!({ "type": "remote", "url": url, "headers": headers, "enabled": true })
        }
        RemoteForm::Options => json!({
            "type": "streamable-http",
            "url": url,
            "requestOptions": { "headers": headers },
        }),
        RemoteForm::Extension => json!({
            "name": NAME,
            "description": DESCRIPTION,
            "type": "streamable_http",
            "uri": url,
            "headers": headers,
            "enabled": true,
            "timeout": 300,
        }),
    }
}

/// Returns `true` if an entry starts the workbench as `ours` does, or leads to the one that `ours` leads
/// to, whatever else it says: the program may have moved since, and somebody may have added to it.
pub fn is_ours(value: &Value, ours: &Value) -> bool {
    let program = |value: &Value| {
        let word = words(value).into_iter().next()?;
        let last = word.rsplit(['/', '\\']).next().unwrap_or(&word).to_owned();
        Some(last.trim_end_matches(".exe").to_owned())
    };
    if let Some(address) = address(ours) {
        return self::address(value) == Some(address);
    }
    let serves = words(value).iter().any(|word| word == "--config");
    serves && program(value).is_some_and(|name| Some(name) == program(ours))
}

/// Returns `true` if both start the same program with the same arguments, or lead to the same address
/// with the same headers.
pub fn is_same_launch(one: &Value, other: &Value) -> bool {
    let headers = |entry: &Value| {
        let options = entry.get("requestOptions").and_then(|options| options.get("headers"));
        let headers = entry.get("headers").or_else(|| entry.get("http_headers")).or(options);
        headers.cloned()
    };
    words(one) == words(other)
        && address(one) == address(other)
        && (address(one).is_none() || headers(one) == headers(other))
}

/// Returns `true` if a token stands in an entry of ours.
pub fn has_token(ours: &Value) -> bool {
    address(ours).is_some()
}

/// The address that an entry leads to.
fn address(entry: &Value) -> Option<&str> {
    let keys = ["url", "httpUrl", "serverUrl", "uri"];
    keys.iter().find_map(|key| entry.get(key)).and_then(Value::as_str)
}

/// The program that an entry starts, and its arguments.
fn words(entry: &Value) -> Vec<String> {
    let texts = |value: &Value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(texts) => {
            texts.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    ["command", "cmd", "args"].iter().filter_map(|key| entry.get(key)).flat_map(texts).collect()
}
