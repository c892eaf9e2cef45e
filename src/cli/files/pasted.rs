//! Server entries pasted from a README: whole files of a client, parts of them, or one entry.

use std::io::Read;

use serde_json::{Map, Value, json};

use crate::authoring::import::SourceFile;
use crate::cli::output::CommandError;
use mcp_workbench_config::syntax::document::{parse_jsonc, strip_bom};

const EXAMPLE: &str = "paste an entry such as '{\"mcpServers\": {\"time\": {\"command\": \"uvx\", \
    \"args\": [\"mcp-server-time\"]}}}'";
/// Keys of a server entry that no file has at its top level.
const ENTRY_KEYS: [&str; 5] = ["command", "url", "serverUrl", "httpUrl", "cmd"];

/// Returns `true` if the word is JSON, or `-` for JSON on stdin.
pub(crate) fn is_pasted(word: &str) -> bool {
    let word = word.trim_start();
    word == "-" || word.starts_with(['{', '[', '"', '`'])
}

/// Returns the word, or the text on stdin for `-`.
pub(crate) fn read(word: &str) -> Result<String, CommandError> {
    if word.trim() != "-" {
        return Ok(word.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| CommandError::usage("failed to read stdin").because(&error))?;
    Ok(text)
}

/// Converts pasted text to a file that `import` can read. `name` is the name of a single entry.
pub(crate) fn as_file(text: &str, name: Option<&str>) -> Result<SourceFile, CommandError> {
    let text = strip_bom(text).trim();
    // Markdown fences are pasted along.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("```"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.trim().trim_end_matches(',');
    if text.starts_with('[') && !text[1..].trim_start().starts_with(['{', ']']) {
        return Ok(SourceFile { file: "pasted.toml".to_owned(), text: text.to_owned() });
    }
    let parse = |text: &str| parse_jsonc(text).map(Value::from);
    let value = match parse(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        // A member without the braces around it.
        Ok(_) | Err(_) => parse(&format!("{{{text}}}")).map_err(|finding| {
            CommandError::usage(format!("the pasted text is not valid JSON: {}", finding.message))
                .with_hint(EXAMPLE)
        })?,
    };
    let file = match value {
        Value::Object(members) if ENTRY_KEYS.iter().any(|key| members.contains_key(*key)) => {
            let name = name.ok_or_else(|| {
                CommandError::usage("the pasted entry has no name")
                    .with_hint("put a name before it: `mcp-workbench add NAME '{…}'`")
            })?;
            json!({"mcpServers": {name: members}})
        }
        Value::Object(members) if is_server_map(&members) => json!({"mcpServers": members}),
        Value::Array(list) => json!({"mcpServers": list}),
        other => other,
    };
    Ok(SourceFile { file: "pasted.json".to_owned(), text: file.to_string() })
}

fn is_server_map(members: &Map<String, Value>) -> bool {
    let is_entry = |value: &Value| ENTRY_KEYS.iter().any(|key| value.get(key).is_some());
    !members.is_empty() && members.values().all(is_entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authoring::import::{NoExtraction, collect_candidates};

    fn servers(text: &str, name: Option<&str>) -> Result<Vec<String>, String> {
        let file = as_file(text, name).map_err(|error| error.to_string())?;
        let found = collect_candidates(None, &[file], &mut NoExtraction).expect("no target");
        Ok(found.servers().iter().map(|server| server.name.clone()).collect())
    }

    #[test]
    fn every_usual_snippet_is_understood() {
        let entry = r#"{"command": "npx", "args": ["-y", "x"]}"#;
        for text in [
            format!("{{\"mcpServers\": {{\"time\": {entry}}}}}"),
            format!("\"mcpServers\": {{\"time\": {entry}}},"),
            format!("{{\"servers\": {{\"time\": {entry}}}}}"),
            format!("{{\"mcp\": {{\"servers\": {{\"time\": {entry}}}}}}}"),
            format!("{{\"context_servers\": {{\"time\": {entry}}}}}"),
            format!("{{\"time\": {entry}}}"),
            format!("\"time\": {entry},"),
            format!("```json\n{{\"time\": {entry}, /* here */ }}\n```"),
            "[mcp_servers.time]\ncommand = \"npx\"\n".to_owned(),
            "[{\"name\": \"time\", \"command\": \"npx\"}]".to_owned(),
            "{\"time\": {\"url\": \"https://example.com/mcp\"}}".to_owned(),
        ] {
            assert_eq!(servers(&text, None), Ok(vec!["time".to_owned()]), "{text}");
        }
        assert_eq!(servers(entry, Some("time")), Ok(vec!["time".to_owned()]));
        let error = servers(entry, None).unwrap_err();
        assert!(error.contains("the pasted entry has no name"), "{error}");
        for text in ["", "{", "time", "{\"a\": }", "[", "`"] {
            assert!(
                servers(text, None).is_err() || servers(text, None) == Ok(Vec::new()),
                "{text}"
            );
        }
    }
}
