//! Attribution of questions: a server's question to the user comes in the same way as ours, which has a call
//! confirmed, so that its words could be taken for ours. Where the configuration has calls confirmed, it
//! says first that it is a server's.

use std::sync::Arc;

use bytes::Bytes;

use crate::backend::Outcome;
use crate::gateway::{Event, Question, may_ask};
use crate::raw::{self, Member, Raw};
use crate::settings::Config;
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::incoming::error_object;

/// The method that asks the user.
const ELICIT: &str = "elicitation/create";
/// The line before a server's own words, as it stands in JSON.
const FIRST: &str = r"A server asks this, not MCP Workbench:\n\n";
const UNREADABLE: &str = "the server asks for input in a way that cannot be read";

/// A question of a server to the user, marked as one where that matters; anything else as it is.
pub(crate) fn attributed(config: impl FnOnce() -> Arc<Config>, event: Event) -> Event {
    match event {
        Event::Question(question) => attributed_question(&config(), *question).into(),
        event => event,
    }
}

/// A question, marked as a server's if it is one and goes to the user, where that matters.
pub(crate) fn attributed_question(config: &Config, mut question: Question) -> Question {
    if question.is_of_server && question.method == ELICIT && config.policy.has_confirmations() {
        // Without parameters the client refuses what nobody can read.
        question.params = question.params.take().and_then(|params| marked(&params));
    }
    question
}

/// An answer of a server, with the questions to the user in it (2026-07-28, `inputRequests`) marked as a
/// server's where `has_confirmations`; an error in place of one that cannot be read.
///
/// Some readers take the first of repeated members and some the last, so all of them are marked.
pub(crate) fn attributed_result(
    has_confirmations: impl FnOnce() -> bool,
    outcome: Outcome,
) -> Outcome {
    match outcome {
        Outcome::Result(result) if may_ask(&result) && has_confirmations() => {
            let requests = |requests: &Raw| each(requests, |_| true, marked_request);
            match each(&result, |key| key == "inputRequests", requests) {
                Some(marked) => Outcome::Result(marked),
                None => Outcome::Error(error_object(INTERNAL_ERROR, UNREADABLE, None)),
            }
        }
        outcome => outcome,
    }
}

fn marked_request(request: &Raw) -> Option<Raw> {
    // What is no object asks nothing.
    let Some(members) = request.members() else { return unless_object(request) };
    let mut methods = members.iter().filter(|(key, _)| key == "method");
    let asks_user = |method: &Raw| method.parse::<String>().map_or(true, |method| method == ELICIT);
    if !methods.any(|(_, method)| asks_user(method)) {
        return Some(request.clone());
    }
    each(request, |key| key == "params", marked)
}

/// The parameters with our line before each message that is a text; `None` if they cannot be read.
fn marked(params: &Raw) -> Option<Raw> {
    each(
        params,
        |key| key == "message",
        |message| {
            let Some(rest) = message.as_bytes().strip_prefix(b"\"") else {
                return Some(message.clone());
            };
            // Its own words stay as they are spelled.
            let text = Bytes::from([b"\"", FIRST.as_bytes(), rest].concat());
            Some(Raw::part_of(&text, 0..text.len()))
        },
    )
}

/// An object with these of its members changed; another value as it is, and `None` for an object that
/// cannot be read.
fn each(
    object: &Raw,
    is_meant: impl Fn(&str) -> bool,
    change: impl Fn(&Raw) -> Option<Raw>,
) -> Option<Raw> {
    let Some(members) = object.members() else { return unless_object(object) };
    if !members.iter().any(|(key, _)| is_meant(key)) {
        return Some(object.clone());
    }
    let changed = members.into_iter().map(|(key, value)| {
        let value = if is_meant(&key) { change(&value)? } else { value };
        Some((key, value))
    });
    let changed: Vec<Member> = changed.collect::<Option<_>>()?;
    Some(raw::object(changed.iter().map(|(key, value)| (&**key, value))))
}

/// The value as it is, unless it is an object.
fn unless_object(value: &Raw) -> Option<Raw> {
    (value.as_bytes().first() != Some(&b'{')).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn marked_value(result: &Value) -> Value {
        let outcome = Outcome::Result(Raw::encode(result));
        let Outcome::Result(marked) = attributed_result(|| true, outcome) else { unreachable!() };
        serde_json::from_slice(marked.as_bytes()).unwrap()
    }

    #[test]
    fn what_a_server_asks_of_the_user_says_that_it_does() {
        let asks = |message: &str| {
            json!({
                "resultType": "input_required",
                "inputRequests": {
                    "a": { "method": "elicitation/create", "params": { "message": message, "mode": "form" } },
                    "b": { "method": "sampling/createMessage", "params": { "message": "x" } },
                    "c": { "method": "elicitation/create", "params": { "message": 7 } },
                },
                "requestState": "s",
            })
        };
        let first = "A server asks this, not MCP Workbench:\n\n";
        assert_eq!(marked_value(&asks("Pay \u{202e}?")), asks(&format!("{first}Pay \u{202e}?")));
        for other in [
            json!({ "content": [{ "type": "text", "text": "elicitation/create" }] }),
            json!({ "inputRequests": "elicitation/create" }),
            json!({ "inputRequests": { "a": "elicitation/create" } }),
        ] {
            assert_eq!(marked_value(&other), other);
        }
    }

    #[test]
    fn no_spelling_of_a_question_goes_without_it() {
        let marked = |text: &str| {
            let text = Bytes::from(text.to_owned());
            let outcome = Outcome::Result(Raw::part_of(&text, 0..text.len()));
            match attributed_result(|| true, outcome) {
                Outcome::Result(marked) => String::from_utf8(marked.as_bytes().to_vec()).unwrap(),
                Outcome::Error(_) => "refused".to_owned(),
            }
        };
        for (method, params) in [
            (r#""method":"elicitation\/create""#, r#""params":{"message":"Pay"}"#),
            (r#""method":"x","method":"elicitation/create""#, r#""params":{"message":"Pay"}"#),
            (r#""method":"\u0065licitation/create","method":"x""#, r#""params":{"message":"Pay"}"#),
            (r#""\u006dethod":"elicitation/create""#, r#""p\u0061rams":{"mess\u0061ge":"Pay"}"#),
            (r#""method":"elicitation/create""#, r#""params":{"message":"\ud800Pay"}"#),
        ] {
            let request = format!(r#"{{"a":{{{method},{params}}}}}"#);
            let said = marked(&format!(r#"{{"input\u0052equests":{request}}}"#));
            assert!(said.contains(r#"":"A server asks this, not MCP Workbench:\n\n"#), "{said}");
        }
        let twice = r#"{"method":"elicitation/create","params":{"message":1,"message":"Pay"},"params":{"message":"Pay"}}"#;
        let said = marked(&format!(
            r#"{{"inputRequests":{{"a":{twice}}},"inputRequests":{{"a":{twice}}}}}"#
        ));
        assert_eq!(said.matches("A server asks this").count(), 4, "{said}");
        assert!(!said.contains(r#":"Pay""#), "{said}");
    }

    #[test]
    fn where_nothing_is_confirmed_nothing_is_changed() {
        let asks = Raw::encode(&json!({
            "inputRequests": { "a": { "method": "elicitation/create", "params": { "message": "?" } } },
        }));
        let Outcome::Result(same) = attributed_result(|| false, Outcome::Result(asks.clone()))
        else {
            unreachable!()
        };
        assert_eq!(same.as_bytes(), asks.as_bytes());
    }
}
