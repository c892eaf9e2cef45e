//! The entry that a client starts the workbench by, in the client's own form.

use serde_json::{Value, json};

use crate::authoring::client_files::EntryForm;
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

/// Returns `true` if an entry starts the workbench as `ours` does, whatever else it says: the program
/// may have moved since, and somebody may have added to it.
pub fn is_ours(value: &Value, ours: &Value) -> bool {
    let program = |value: &Value| {
        let word = words(value).into_iter().next()?;
        let last = word.rsplit(['/', '\\']).next().unwrap_or(&word).to_owned();
        Some(last.trim_end_matches(".exe").to_owned())
    };
    let serves = words(value).iter().any(|word| word == "--config");
    serves && program(value).is_some_and(|name| Some(name) == program(ours))
}

/// Returns `true` if both start the same program with the same arguments.
pub fn is_same_launch(one: &Value, other: &Value) -> bool {
    words(one) == words(other)
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
