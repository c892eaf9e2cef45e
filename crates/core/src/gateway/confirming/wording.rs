//! The question to the user: which call, with which arguments, in a few lines and without secrets.

use serde_json::{Map, Value};

use crate::catalog::shorten;
use crate::name::{AgentName, ToolId};
use crate::observe::{is_secret, password};
use crate::policy::{Concern, strict};
use crate::raw::Raw;

/// The most characters of a name.
const MAX_NAME: usize = 100;
/// The most characters of one text in the arguments, and of all of them.
const MAX_TEXT: usize = 300;
const MAX_ARGUMENTS: usize = 2000;
/// The most members of an object, or items of an array.
const MAX_MEMBERS: usize = 20;
/// How deep arguments are shown.
const MAX_DEPTH: usize = 4;
/// Arguments that are longer are not read for it.
const MAX_READ: usize = 256 * 1024;
/// The mark in place of a secret.
const REDACTED: &str = "***";

/// The question whether a call may be made.
pub(crate) fn ask(
    agent: Option<&AgentName>,
    tool: &ToolId,
    concern: Concern,
    arguments: Option<&Raw>,
) -> String {
    let named = |name: &str| format!("`{}`", shown(&shorten(name, MAX_NAME)));
    let who = match agent {
        Some(agent) => format!("Agent {}", named(agent.as_str())),
        None => "The agent".to_owned(),
    };
    let (what, server) = (named(&tool.tool), named(tool.server.as_str()));
    let arguments = arguments.map_or_else(|| "{}".to_owned(), describe);
    format!(
        "{who} wants to call the tool {what} of server {server}. You are asked because {concern}.\n\
         Arguments: {arguments}\n\
         May it be called?"
    )
}

/// Arguments as far as they are short, without what looks like a secret.
fn describe(arguments: &Raw) -> String {
    if arguments.len() > MAX_READ {
        return format!("{} bytes", arguments.len());
    }
    // Of what is written twice the server may take what the user does not see.
    let read = match strict::parse(arguments.as_bytes()) {
        Ok(read) => read,
        Err(why) => {
            let why = shown(&shorten(&why, MAX_TEXT));
            return format!("{} bytes that cannot be shown: {why}", arguments.len());
        }
    };
    let text = shown(&short(read, 0).to_string());
    if text.chars().count() <= MAX_ARGUMENTS {
        return text;
    }
    let text: String = text.chars().take(MAX_ARGUMENTS).collect();
    format!("{text}… (cut; {} bytes in all)", arguments.len())
}

/// A value with what is long or deep in it cut, so that something of every part is seen.
fn short(value: Value, depth: usize) -> Value {
    match value {
        Value::String(text) => Value::String(without_password(&text)),
        Value::Array(items) if depth < MAX_DEPTH => {
            let more = items.len().saturating_sub(MAX_MEMBERS);
            let items = items.into_iter().take(MAX_MEMBERS).map(|item| short(item, depth + 1));
            let more = (more > 0).then(|| Value::String(format!("… and {more} more")));
            Value::Array(items.chain(more).collect())
        }
        Value::Object(members) if depth < MAX_DEPTH => {
            let more = members.len().saturating_sub(MAX_MEMBERS);
            let mut kept = Map::new();
            for (key, value) in members.into_iter().take(MAX_MEMBERS) {
                let value = if hides(&key) { REDACTED.into() } else { short(value, depth + 1) };
                kept.insert(shorten(&key, MAX_NAME), value);
            }
            if more > 0 {
                kept.insert("…".to_owned(), format!("and {more} more").into());
            }
            Value::Object(kept)
        }
        Value::Array(_) | Value::Object(_) => "…".into(),
        other => other,
    }
}

/// Returns `true` if an argument of this name is likely to hold a secret. A plain `key` is what
/// something is kept under.
fn hides(key: &str) -> bool {
    let folded = key.to_ascii_lowercase();
    let is_plain = matches!(folded.as_str(), "key" | "keys");
    let is_header = folded.contains("authorization") || folded.contains("cookie");
    is_header || (!is_plain && is_secret(key))
}

fn without_password(text: &str) -> String {
    let password = password(text);
    // What stands there and can be no password is to be seen: a command, say, for a shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~%!*+=".contains(c);
    let is_password = !password.is_empty() && password.chars().all(is_plain);
    let text = if is_password { &text.replace(password, REDACTED) } else { text };
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// A text in which nothing is invisible, or makes the rest look otherwise than it is.
fn shown(text: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '`')
            || ('\u{200b}'..='\u{200f}').contains(&c)
            || ('\u{2028}'..='\u{202e}').contains(&c)
            || ('\u{2060}'..='\u{206f}').contains(&c)
            || ('\u{e0000}'..='\u{e007f}').contains(&c)
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '`' => shown.push('\''),
            c if is_odd(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::name::{ServerName, ToolboxName};

    #[test]
    fn the_question_names_the_call() {
        let tool = ToolId {
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new("files"),
            tool: "de`lete\u{202e}".to_owned(),
        };
        let arguments = Raw::encode(&json!({"path": "/tmp/a\nYes", "force": true}));
        assert_eq!(
            ask(Some(&AgentName::new("ann")), &tool, Concern::Dangerous, Some(&arguments)),
            "Agent `ann` wants to call the tool `de'lete\\u{202e}` of server `files`. You are \
             asked because the configuration says that it is dangerous.\n\
             Arguments: {\"path\":\"/tmp/a\\nYes\",\"force\":true}\n\
             May it be called?"
        );
        assert!(ask(None, &tool, Concern::Dangerous, None).starts_with("The agent wants to call"));
    }

    #[test]
    fn arguments_are_short_and_have_no_secrets() {
        let described = |value: Value| describe(&Raw::encode(&value));
        let said = described(json!({
            "apiKey": "abcdef", "key": "users", "headers": {"Authorization": "Bearer x"},
            "password": {"new": 1}, "url": "https://me:hunter2@example.com/hunter2",
        }));
        assert_eq!(
            said,
            r#"{"apiKey":"***","key":"users","headers":{"Authorization":"***"},"password":"***","url":"https://me:***@example.com/***"}"#
        );
        let long = described(json!({"a": "x".repeat(1000), "b": [[[[[1]]]]], "c": 1}));
        assert_eq!(
            long,
            format!(r#"{{"a":"{}… (1000 bytes)","b":[[["…"]]],"c":1}}"#, "x".repeat(300))
        );
        let many: Vec<_> = (0..100).map(|n| format!("{n}{}", "y".repeat(500))).collect();
        let many = described(json!({"all": many, "last": 1}));
        assert!(many.chars().count() < 2100 && many.ends_with(" bytes in all)"), "{many}");
        assert_eq!(described(json!("z".repeat(300_000))), "300002 bytes");
    }

    #[test]
    fn nothing_is_hidden_from_the_user_that_the_server_may_see() {
        let described = |text: &str| {
            describe(&Raw::encode(
                &serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap(),
            ))
        };
        assert_eq!(
            described(r#"{"path":"/etc","p\u0061th":"/tmp"}"#),
            "34 bytes that cannot be shown: 'path' is written twice at line 1 column 34"
        );
        let command = r#"{"command":"curl https://u:$(reboot)@example.com"}"#;
        assert_eq!(described(command), command);
    }
}
