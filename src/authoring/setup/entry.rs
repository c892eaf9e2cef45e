//! Builds the entry for the workbench in a client's file.

use serde_json::{Map, Value, json};

use crate::authoring::client_files::{EntryForm, EnvForm, RemoteForm};
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
        EntryForm::AlwaysLoaded => {
            json!({ "command": program, "args": args, "alwaysLoadTools": true })
        }
        EntryForm::Required => json!({ "command": program, "args": args, "required": true }),
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
        RemoteForm::AlwaysLoadedHttpUrl => {
            json!({ "httpUrl": url, "headers": headers, "alwaysLoadTools": true })
        }
        RemoteForm::ServerUrl => json!({ "serverUrl": url, "headers": headers }),
        RemoteForm::HttpHeaders => {
            json!({ "url": url, "http_headers": headers, "required": true })
        }
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

/// Adds variables of the client's environment to an entry.
pub fn pass_variables(entry: &mut Value, form: EnvForm, variables: &[String]) {
    let (key, value) = match form {
        EnvForm::Inherited => return,
        EnvForm::Names => ("env_vars", json!(variables)),
        EnvForm::Reference(before, after) => {
            let reference = |name: &String| (name.clone(), format!("{before}{name}{after}").into());
            ("env", Value::Object(variables.iter().map(reference).collect()))
        }
    };
    if let Some(entry) = entry.as_object_mut().filter(|_| !variables.is_empty()) {
        entry.insert(key.to_owned(), value);
    }
}

/// Returns `true` if `present` passes on all variables that `wanted` passes on, and says itself
/// whether the client requires it.
pub fn is_complete(present: &Value, wanted: &Value) -> bool {
    merge_entries(present, wanted) == *present
}

/// Returns an earlier entry of the workbench with the variables and other members that only
/// `wanted` has. Members that the user has added or changed stay, apart from the launch.
pub fn merge_entries(earlier: &Value, wanted: &Value) -> Value {
    let (Some(earlier), Some(wanted)) = (earlier.as_object(), wanted.as_object()) else {
        return wanted.clone();
    };
    let mut merged: Map<String, Value> = earlier.clone();
    for (key, value) in wanted {
        match (key.as_str(), merged.get_mut(key)) {
            ("env", Some(Value::Object(own))) => {
                for (name, reference) in value.as_object().into_iter().flatten() {
                    own.entry(name.clone()).or_insert_with(|| reference.clone());
                }
            }
            ("env_vars", Some(Value::Array(own))) => {
                for name in value.as_array().into_iter().flatten() {
                    let names_it = |other: &Value| other == name || other.get("name") == Some(name);
                    if !own.iter().any(names_it) {
                        own.push(name.clone());
                    }
                }
            }
            ("env" | "env_vars" | "required" | "alwaysLoadTools", None) => {
                merged.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(merged)
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
