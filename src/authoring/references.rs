//! Rebases secret references when a configuration is written to another directory.

use serde_json::Value;

/// Rewrites the paths of secret references in settings or in a server entry. `full` returns the
/// absolute form of a relative path, and `None` for a path to leave as it is.
pub fn relocate_references(settings: &mut Value, full: &dyn Fn(&str) -> Option<String>) {
    match settings {
        Value::Object(members) => {
            for (key, member) in members {
                match key.as_str() {
                    "env" | "environment" | "headers" => {
                        let values = member.as_object_mut().into_iter();
                        values
                            .flat_map(serde_json::Map::values_mut)
                            .for_each(|v| relocate_reference(v, full));
                    }
                    "apiKey" | "api_key" | "token" => relocate_reference(member, full),
                    _ => relocate_references(member, full),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| relocate_references(item, full)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn relocate_reference(value: &mut Value, full: &dyn Fn(&str) -> Option<String>) {
    let program = value.get("command").and_then(|words| words.get(0)).and_then(Value::as_str);
    let program = program.filter(|path| path.contains('/')).and_then(full);
    let file = value.get("file").and_then(Value::as_str).and_then(full);
    if let (Some(path), Some(words)) = (program, value.get_mut("command")) {
        words[0] = path.into();
    }
    if let (Some(path), Some(file)) = (file, value.get_mut("file")) {
        *file = path.into();
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn reference_paths_keep_their_base_directory() {
        let full = |path: &str| (!path.starts_with('/')).then(|| format!("/full/{path}"));
        let mut settings = json!({
            "command": ["./server.sh"],
            "env": { "A": { "file": "a" }, "B": { "file": "/b" }, "C": "c", "D": 4 },
            "headers": { "X": { "command": ["bin/get", "./x"] }, "Y": { "command": ["pass"] } },
            "llm": { "apiKey": { "file": "key" }, "model": "file" },
            "tokens": [{ "token": { "file": "token" } }, { "env": "NAME" }],
        });
        relocate_references(&mut settings, &full);
        let wanted = json!({
            "command": ["./server.sh"],
            "env": { "A": { "file": "/full/a" }, "B": { "file": "/b" }, "C": "c", "D": 4 },
            "headers": { "X": { "command": ["/full/bin/get", "./x"] }, "Y": { "command": ["pass"] } },
            "llm": { "apiKey": { "file": "/full/key" }, "model": "file" },
            "tokens": [{ "token": { "file": "/full/token" } }, { "env": "NAME" }],
        });
        assert_eq!(settings, wanted);
    }
}
