//! The question to the user: which call, and with which arguments. All of them are in it, or it is not
//! asked: whoever agrees to a part would not know to what.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::name::seen::escaped;
use crate::name::{AgentName, ToolId};
use crate::observe::Secrets;
use crate::policy::{Concern, strict};
use crate::raw::Raw;

/// The most characters of all arguments. What is said of more, nobody reads.
const MAX_ARGUMENTS: usize = 8000;
/// Arguments with more bytes are not read for it.
const MAX_READ: usize = 4 * 1024 * 1024;
/// How much of a long text is shown at either end, in characters, if not all has room.
const EDGE: usize = 400;
/// How much of a long name is shown at either end.
const NAME_EDGE: usize = 100;

/// The question whether a call may be made; if not all of it can be shown, why not.
pub(crate) fn ask(
    agent: Option<&AgentName>,
    tool: &ToolId,
    concern: Concern,
    arguments: Option<&Raw>,
    secrets: &Secrets,
) -> Result<String, String> {
    let named = |name: &str| format!("`{}`", escaped(&edges(name, NAME_EDGE)));
    let who = match agent {
        Some(agent) => format!("Agent {}", named(agent.as_str())),
        None => "The agent".to_owned(),
    };
    let (what, server) = (named(&tool.tool), named(tool.server.as_str()));
    let arguments = arguments.map_or_else(|| Ok("{}".to_owned()), |raw| describe(raw, secrets))?;
    Ok(format!(
        "{who} wants to call the tool {what} of server {server}. You are asked because {concern}.\n\
         Arguments: {arguments}\n\
         May it be called?"
    ))
}

/// All arguments, however many and however deep. Of texts that are too long for that there are both
/// ends, and how much lies between.
fn describe(arguments: &Raw, secrets: &Secrets) -> Result<String, String> {
    if arguments.len() > MAX_READ {
        return Err(format!("its arguments have {} bytes", arguments.len()));
    }
    // Of what is written twice the server may take what the user does not see.
    let read = strict::parse(arguments.as_bytes());
    let read = read
        .map_err(|why| format!("its arguments cannot be read: {}", escaped(&edges(&why, EDGE))))?;
    let in_words = |most: usize| {
        escaped(
            &map_texts(read.clone(), &|text| edges(&secrets.redact(text), most).into_owned())
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
        length => Err(format!(
            "its arguments are too many to be shown: {length} characters, of which {MAX_ARGUMENTS} have room"
        )),
    }
}

/// A value with every text in it, keys included, made into another.
fn map_texts(value: Value, made: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(made(&text)),
        Value::Array(items) => items.into_iter().map(|item| map_texts(item, made)).collect(),
        Value::Object(members) => {
            let mut all = Map::new();
            for (key, value) in members {
                let mut key = made(&key);
                // Two that look alike are two.
                while all.contains_key(&key) {
                    key.push('\'');
                }
                all.insert(key, map_texts(value, made));
            }
            Value::Object(all)
        }
        other => other,
    }
}

/// The text, or `most` characters of either end and how many bytes lie between.
fn edges(text: &str, most: usize) -> Cow<'_, str> {
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
    use serde_json::json;

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
        let secrets = Secrets::of_environment([("API_TOKEN", "hunter2hunter2")]);
        describe(&Raw::encode(value), &secrets)
    }

    #[test]
    fn the_question_names_the_call() {
        let arguments = Raw::encode(&json!({"path": "/tmp/a\nYes", "force": true}));
        let asked = |agent: Option<&AgentName>, tool: &ToolId, arguments| {
            ask(agent, tool, Concern::Dangerous, arguments, &Secrets::default()).unwrap()
        };
        assert_eq!(
            asked(Some(&AgentName::new("ann")), &tool("de`lete\u{202e}"), Some(&arguments)),
            "Agent `ann` wants to call the tool `de'lete\\u{202e}` of server `files`. You are \
             asked because the configuration says that it is dangerous.\n\
             Arguments: {\"path\":\"/tmp/a\\nYes\",\"force\":true}\n\
             May it be called?"
        );
        let long = format!("{}_delete_all", "read_".repeat(100));
        let asked = asked(None, &tool(&long), None);
        assert!(asked.starts_with("The agent wants to call") && asked.contains("_delete_all`"));
    }

    #[test]
    fn every_argument_is_shown_however_many_and_however_deep() {
        let command = format!("ls {}; rm -rf ~", "x".repeat(327));
        let many: Map<String, Value> = (0..30).map(|n| (format!("a{n}"), n.into())).collect();
        let deep = json!({"a": [[[[{"b": [{"c": "the end"}]}]]]], "cookie_jar": "rm -rf /"});
        for value in [json!({ "command": command }), Value::Object(many), deep] {
            assert_eq!(described(&value), Ok(value.to_string()));
        }
    }

    #[test]
    fn of_a_long_text_both_ends_are_shown_and_how_much_lies_between() {
        let text = format!("begin {} end", "x".repeat(100_000));
        let shown = described(&json!({ "text": text, "then": "rm" })).unwrap();
        assert!(shown.starts_with(r#"{"text":"begin xxx"#), "{shown}");
        assert!(shown.ends_with(r#"x end","then":"rm"}"#), "{shown}");
        assert!(shown.contains(" … 99210 bytes … "), "{shown}");
    }

    #[test]
    fn what_cannot_be_shown_whole_is_not_asked() {
        let many: Vec<_> = (0..10_000).collect();
        let why = described(&json!(many)).unwrap_err();
        assert!(why.starts_with("its arguments are too many to be shown: 48891 "), "{why}");
        let why = described(&json!("x".repeat(MAX_READ))).unwrap_err();
        assert_eq!(why, "its arguments have 4194306 bytes");
        let twice = serde_json::from_str::<Box<serde_json::value::RawValue>>(
            r#"{"path":"/etc","p\u0061th":"/tmp"}"#,
        );
        let why = describe(&Raw::encode(&twice.unwrap()), &Secrets::default()).unwrap_err();
        let expected = "its arguments cannot be read: 'path' is written twice at line 1 column 34";
        assert_eq!(why, expected);
    }

    #[test]
    fn nothing_but_the_secrets_of_the_configuration_is_hidden() {
        let value =
            json!({"apiKey": "abcdef", "url": "https://u:$(reboot)@x", "say": "hunter2hunter2"});
        let shown = r#"{"apiKey":"abcdef","url":"https://u:$(reboot)@x","say":"***"}"#;
        assert_eq!(described(&value), Ok(shown.to_owned()));
        let value = json!({"hunter2hunter2": 1, "***": 2});
        assert_eq!(described(&value), Ok(r#"{"***":1,"***'":2}"#.to_owned()));
    }
}
