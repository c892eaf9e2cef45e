//! The confirmation message. It has all arguments of the call, because users can't consent to a
//! call that they see only in part.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::json::RawJson;
use crate::json::exact::ExactJson;
use crate::name::untrusted_text::escape_invisible;
use crate::name::{AgentName, ToolId};
use crate::policy::RiskReason;
use crate::telemetry::Redactor;

/// Maximum length of the displayed arguments, in characters.
const MAX_ARGUMENTS: usize = 8000;
/// Arguments with more bytes aren't parsed.
const MAX_READ: usize = 4 * 1024 * 1024;
/// Number of characters at each end of a shortened text.
const EDGE: usize = 400;
/// Number of characters at each end of a shortened name.
const NAME_EDGE: usize = 100;

/// Returns the message, or the reason why the call can't be displayed in full.
pub(crate) fn confirmation_message(
    agent: Option<&AgentName>,
    tool: &ToolId,
    concern: RiskReason,
    arguments: Option<&RawJson>,
    secrets: &Redactor,
) -> Result<String, String> {
    let named = |name: &str| format!("`{}`", escape_invisible(&elide_middle(name, NAME_EDGE)));
    let who = match agent {
        Some(agent) => format!("Agent {}", named(agent.as_str())),
        None => "The agent".to_owned(),
    };
    let (what, server) = (named(&tool.tool), named(tool.server.as_str()));
    let arguments = arguments.map_or_else(|| Ok("{}".to_owned()), |raw| describe(raw, secrets))?;
    Ok(format!(
        "{who} wants to call the tool {what} of server {server}. It needs your confirmation \
         because {concern}.\n\
         Arguments: {arguments}\n\
         Allow this call?"
    ))
}

/// Formats the arguments. If they are too long, shortens the texts in them.
fn describe(arguments: &RawJson, secrets: &Redactor) -> Result<String, String> {
    if arguments.len() > MAX_READ {
        return Err(format!("its arguments are too long ({} bytes)", arguments.len()));
    }
    // Rejects duplicate keys, since the server could use the hidden one, and keeps numbers as they
    // are written.
    let read = ExactJson::parse(arguments.as_bytes());
    let read = read.map_err(|why| {
        format!("its arguments are invalid: {}", escape_invisible(&elide_middle(&why, EDGE)))
    })?;
    let in_words = |most: usize| {
        escape_invisible(
            &map_texts(read.clone(), &|text| {
                elide_middle(&secrets.redact(text), most).into_owned()
            })
            .to_string(),
        )
    };
    let whole = in_words(usize::MAX);
    if whole.chars().count() <= MAX_ARGUMENTS {
        return Ok(whole);
    }
    let cut = in_words(EDGE);
    match cut.chars().count() {
        length if length <= MAX_ARGUMENTS => Ok(cut),
        length => {
            Err(format!("its arguments are too long ({length} characters, limit {MAX_ARGUMENTS})"))
        }
    }
}

fn map_texts(value: ExactJson, made: &impl Fn(&str) -> String) -> ExactJson {
    match value {
        ExactJson::Text(text) => ExactJson::Text(made(&text)),
        ExactJson::Array(items) => {
            ExactJson::Array(items.into_iter().map(|item| map_texts(item, made)).collect())
        }
        ExactJson::Object(members) => {
            let (mut all, mut keys) = (Vec::with_capacity(members.len()), HashSet::new());
            for (key, value) in members {
                let mut key = made(&key);
                // Keep keys distinct that look alike after redaction.
                while !keys.insert(key.clone()) {
                    key.push('\'');
                }
                all.push((key, map_texts(value, made)));
            }
            ExactJson::Object(all)
        }
        other => other,
    }
}

/// Elides the middle of a text with more than `most` characters at each end.
fn elide_middle(text: &str, most: usize) -> Cow<'_, str> {
    let Some((begin, _)) = text.char_indices().nth(most) else { return text.into() };
    let Some((end, _)) = text.char_indices().rev().nth(most.saturating_sub(1)) else {
        return text.into();
    };
    if end <= begin {
        return text.into();
    }
    format!("{} … {} bytes … {}", &text[..begin], end - begin, &text[end..]).into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::name::{ServerName, ToolboxName};

    fn tool(name: &str) -> ToolId {
        ToolId {
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new("files"),
            tool: name.to_owned(),
        }
    }

    fn described(value: &Value) -> Result<String, String> {
        let secrets = Redactor::from_environment([("API_TOKEN", "hunter2hunter2")]);
        describe(&RawJson::encode(value), &secrets)
    }

    #[test]
    fn message_names_the_agent_tool_and_arguments() {
        let arguments = RawJson::encode(&json!({"path": "/tmp/a\nYes", "force": true}));
        let asked = |agent: Option<&AgentName>, tool: &ToolId, arguments| {
            confirmation_message(
                agent,
                tool,
                RiskReason::Dangerous,
                arguments,
                &Redactor::default(),
            )
            .unwrap()
        };
        assert_eq!(
            asked(Some(&AgentName::new("ann")), &tool("de`lete\u{202e}"), Some(&arguments)),
            "Agent `ann` wants to call the tool `de'lete\\u{202e}` of server `files`. It \
             needs your confirmation because the configuration marks it as dangerous.\nArguments: \
             {\"path\":\"/tmp/a\\nYes\",\"force\":true}\nAllow this call?"
        );
        let long = format!("{}_delete_all", "read_".repeat(100));
        let asked = asked(None, &tool(&long), None);
        assert!(asked.starts_with("The agent wants to call") && asked.contains("_delete_all`"));
    }

    #[test]
    fn nested_and_numerous_arguments_are_displayed() {
        let command = format!("ls {}; rm -rf ~", "x".repeat(327));
        let many: Map<String, Value> = (0..30).map(|n| (format!("a{n}"), n.into())).collect();
        let deep = json!({"a": [[[[{"b": [{"c": "the end"}]}]]]], "cookie_jar": "rm -rf /"});
        for value in [json!({ "command": command }), Value::Object(many), deep] {
            assert_eq!(described(&value), Ok(value.to_string()));
        }
    }

    #[test]
    fn long_text_is_elided_in_the_middle() {
        let text = format!("begin {} end", "x".repeat(100_000));
        let shown = described(&json!({ "text": text, "then": "rm" })).unwrap();
        assert!(shown.starts_with(r#"{"text":"begin xxx"#), "{shown}");
        assert!(shown.ends_with(r#"x end","then":"rm"}"#), "{shown}");
        assert!(shown.contains(" … 99210 bytes … "), "{shown}");
    }

    // invariant: confirm-before-send
    #[test]
    fn call_that_cannot_be_displayed_in_full_is_not_confirmed() {
        let many: Vec<_> = (0..10_000).collect();
        let why = described(&json!(many)).unwrap_err();
        assert!(why.starts_with("its arguments are too long (48891 "), "{why}");
        let why = described(&json!("x".repeat(MAX_READ))).unwrap_err();
        assert_eq!(why, "its arguments are too long (4194306 bytes)");
        let twice = serde_json::from_str::<Box<serde_json::value::RawValue>>(
            r#"{"path":"/etc","p\u0061th":"/tmp"}"#,
        );
        let why = describe(&RawJson::encode(&twice.unwrap()), &Redactor::default()).unwrap_err();
        let expected = "its arguments are invalid: duplicate name 'path'";
        assert_eq!(why, expected);
    }

    // invariant: confirm-before-send
    #[test]
    fn numbers_are_displayed_as_written() {
        let text = r#"{"n":9007199254740993,"e":[1e400,-0,1.50],"d":0.1000000000000000055511151}"#;
        let raw: RawJson = serde_json::from_str(text).unwrap();
        assert_eq!(describe(&raw, &Redactor::default()).as_deref(), Ok(text));
    }

    #[test]
    fn only_secrets_of_the_configuration_are_redacted() {
        let value =
            json!({"apiKey": "abcdef", "url": "https://u:$(reboot)@x", "say": "hunter2hunter2"});
        let shown = r#"{"apiKey":"abcdef","url":"https://u:$(reboot)@x","say":"***"}"#;
        assert_eq!(described(&value), Ok(shown.to_owned()));
        let value = json!({"hunter2hunter2": 1, "***": 2});
        assert_eq!(described(&value), Ok(r#"{"***":1,"***'":2}"#.to_owned()));
    }
}
