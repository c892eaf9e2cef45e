//! The confirmation message. It has all arguments of the call, because users can't consent to a
//! call that they see only in part.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use crate::policy::RiskReason;
use crate::telemetry::Redactor;
use mcp_workbench_names::untrusted_text::{escape_invisible, escape_with};
use mcp_workbench_names::{AgentName, ToolId};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::exact::ExactJson;

/// Maximum length of the displayed arguments, in characters.
const MAX_ARGUMENTS: usize = 8000;
/// The same in the approval queue, which shows them in full.
const MAX_WHOLE: usize = 64 * 1024;
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
    let named = |name: &str| format!("`{}`", shown_name(name));
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

/// Returns a name as a confirmation shows it.
pub(crate) fn shown_name(name: &str) -> String {
    escape_invisible(&elide_middle(name, NAME_EDGE))
}

/// Formats the arguments for the approval queue: all of them, never shortened.
pub(crate) fn whole_arguments(
    arguments: Option<&RawJson>,
    secrets: &Redactor,
) -> Result<String, String> {
    let Some(arguments) = arguments else { return Ok("{}".to_owned()) };
    let whole = in_words(&read(arguments)?, secrets, usize::MAX);
    match whole.chars().count() {
        length if length <= MAX_WHOLE => Ok(whole),
        length => Err(too_long(length, MAX_WHOLE)),
    }
}

/// Formats the arguments. If they are too long, shortens the texts in them.
fn describe(arguments: &RawJson, secrets: &Redactor) -> Result<String, String> {
    let read = read(arguments)?;
    let whole = in_words(&read, secrets, usize::MAX);
    if whole.chars().count() <= MAX_ARGUMENTS {
        return Ok(whole);
    }
    let cut = in_words(&read, secrets, EDGE);
    match cut.chars().count() {
        length if length <= MAX_ARGUMENTS => Ok(cut),
        length => Err(too_long(length, MAX_ARGUMENTS)),
    }
}

fn too_long(length: usize, most: usize) -> String {
    format!("its arguments are too long ({length} characters, limit {most})")
}

/// Rejects duplicate keys, since the server could use the hidden one, and keeps numbers as they are
/// written.
fn read(arguments: &RawJson) -> Result<ExactJson, String> {
    if arguments.len() > MAX_READ {
        return Err(format!("its arguments are too long ({} bytes)", arguments.len()));
    }
    ExactJson::parse(arguments.as_bytes()).map_err(|why| {
        format!("its arguments are invalid: {}", escape_invisible(&elide_middle(&why, EDGE)))
    })
}

/// Formats a value. Texts with more than twice `most` characters lose their middle.
fn in_words(value: &ExactJson, secrets: &Redactor, most: usize) -> String {
    let mut shown = String::new();
    write_value(&mut shown, value, &|text| quote(&secrets.redact(text), most));
    shown
}

/// Appends a value, with `quoted` for its texts and names.
fn write_value(shown: &mut String, value: &ExactJson, quoted: &impl Fn(&str) -> String) {
    let mut separator = "";
    match value {
        ExactJson::Text(text) => shown.push_str(&quoted(text)),
        ExactJson::Array(items) => {
            shown.push('[');
            for item in items {
                shown.push_str(std::mem::replace(&mut separator, ","));
                write_value(shown, item, quoted);
            }
            shown.push(']');
        }
        ExactJson::Object(members) => {
            let mut names = HashSet::new();
            shown.push('{');
            for (name, value) in members {
                let mut name = quoted(name);
                // Keep names distinct that look alike after redaction.
                while !names.insert(name.clone()) {
                    name.push('\'');
                }
                shown.push_str(std::mem::replace(&mut separator, ","));
                shown.push_str(&name);
                shown.push(':');
                write_value(shown, value, quoted);
            }
            shown.push('}');
        }
        other => shown.push_str(&other.to_string()),
    }
}

/// Returns the text as JSON, with invisible characters escaped, and without its middle if that has
/// more than `most` characters at each end. Omissions are outside the quotes, so that no text looks
/// like one.
fn quote(text: &str, most: usize) -> String {
    match middle(text, most) {
        Some(Range { start, end }) => {
            let (begin, rest) = (quote_whole(&text[..start]), quote_whole(&text[end..]));
            format!("{begin} … {} bytes … {rest}", end - start)
        }
        None => quote_whole(text),
    }
}

fn quote_whole(text: &str) -> String {
    let json = ExactJson::Text(text.to_owned()).to_string();
    escape_with(&json, |spaces| format!("\" … {spaces} spaces … \""))
}

/// Elides the middle of a text with more than `most` characters at each end.
fn elide_middle(text: &str, most: usize) -> Cow<'_, str> {
    match middle(text, most) {
        Some(Range { start, end }) => {
            format!("{} … {} bytes … {}", &text[..start], end - start, &text[end..]).into()
        }
        None => text.into(),
    }
}

/// Returns the middle of a text with more than `most` characters at each end.
fn middle(text: &str, most: usize) -> Option<Range<usize>> {
    let (start, _) = text.char_indices().nth(most)?;
    let (end, _) = text.char_indices().rev().nth(most.saturating_sub(1))?;
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Map, Value, json};

    use super::*;
    use mcp_workbench_names::{ServerName, ToolboxName};

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
        assert!(shown.contains("xxx\" … 99210 bytes … \"xxx"), "{shown}");
    }

    // invariant: confirm-before-send
    #[test]
    fn different_arguments_look_different() {
        let long = |middle: &str| format!("{}{middle}{}", "a".repeat(EDGE), "a".repeat(EDGE));
        let wide = " ".repeat(9);
        let values = [
            json!("echo `id`"),
            json!("echo 'id'"),
            json!("echo \u{2018}id\u{2019}"),
            json!({"`": 1, "'": 2}),
            json!({"'": 1, "`": 2}),
            json!(long(" … 9 bytes … ")),
            json!(long("\" … 9 bytes … \"")),
            json!(format!("a{wide}b")),
            json!("a … 9 spaces … b"),
            json!("a\" … 9 spaces … \"b"),
            json!("a\u{202e}"),
            json!("a\\u{202e}"),
            json!("a\\\\u{202e}"),
            json!({"a": 1, "a'": 2}),
            json!({"a\"'": 1, "a": 2}),
        ];
        let shown: Vec<_> = values.iter().map(|value| described(value).unwrap()).collect();
        let distinct: HashSet<_> = shown.iter().collect();
        assert_eq!(distinct.len(), values.len(), "{shown:#?}");
        assert_eq!(shown[0], r#""echo `id`""#);
        assert_eq!(shown[7], r#""a" … 9 spaces … "b""#);
        assert_eq!(shown[10], r#""a\u{202e}""#);
        assert_eq!(shown[11], r#""a\\u{202e}""#);
    }

    // invariant: confirm-before-send
    #[test]
    fn approval_shows_every_character_or_fails() {
        let shown =
            |value: &Value| whole_arguments(Some(&RawJson::encode(value)), &Redactor::default());
        let long = json!({ "text": "x".repeat(50_000) });
        assert_eq!(shown(&long), Ok(long.to_string()));
        let why = shown(&json!("x".repeat(MAX_WHOLE))).unwrap_err();
        assert_eq!(why, "its arguments are too long (65538 characters, limit 65536)");
        assert_eq!(whole_arguments(None, &Redactor::default()).as_deref(), Ok("{}"));
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
        assert_eq!(described(&value), Ok(r#"{"***":1,"***"':2}"#.to_owned()));
    }
}
