//! Builds the entry for the workbench in a client's file.

use serde_json::{Value, json};

use crate::authoring::client_files::{EntryForm, RemoteForm};
use crate::authoring::setup::ENTRY_NAME;

const DESCRIPTION: &str = "All your MCP servers in one: toolboxes open on demand";

/// Builds the entry that starts `program` with `args`.
pub fn stdio_entry(form: EntryForm, program: &str, args: &[String]) -> Value {
    match form {
        EntryForm::Plain => json!({ "command": program, "args": args }),
        EntryForm::Stdio => json!({ "type": "stdio", "command": program, "args": args }),
        EntryForm::Custom => json!({ "source": "custom", "command": program, "args": args }),
        EntryForm::Local => {
            json!({ "type": "local", "command": program, "args": args, "tools": ["*"] })
        }
        EntryForm::CommandList => {
            let words: Vec<&str> =
                std::iter::once(program).chain(args.iter().map(String::as_str)).collect();
            json!({ "type": "local", "command": words, "enabled": true })
        }
        EntryForm::Extension => json!({
            "name": ENTRY_NAME,
            "description": DESCRIPTION,
            "type": "stdio",
            "cmd": program,
            "args": args,
            "enabled": true,
            "timeout": 300,
        }),
    }
}

/// Builds the entry for a workbench at `url`, with `token` as bearer token.
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
            "name": ENTRY_NAME,
            "description": DESCRIPTION,
            "type": "streamable_http",
            "uri": url,
            "headers": headers,
            "enabled": true,
            "timeout": 300,
        }),
    }
}

/// Returns `true` if an entry starts the same program as `ours` with a `--config` option, or has
/// the same URL. The path of the program and all other members may differ.
pub fn is_workbench_entry(value: &Value, ours: &Value) -> bool {
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

/// Returns `true` if both start the same program with the same arguments, or have the same URL and
/// headers.
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

/// Returns `true` if a workbench entry contains a bearer token, as all remote entries do.
pub fn has_bearer_token(ours: &Value) -> bool {
    address(ours).is_some()
}

fn address(entry: &Value) -> Option<&str> {
    let keys = ["url", "httpUrl", "serverUrl", "uri"];
    keys.iter().find_map(|key| entry.get(key)).and_then(Value::as_str)
}

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
