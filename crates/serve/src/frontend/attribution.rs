//! Attribution of questions: a server's question to the user comes in the same way as ours, which has a call
//! confirmed, so that its words could be taken for ours. Where the configuration has calls confirmed, it
//! says first that it is a server's.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use crate::backend::Outcome;
use crate::gateway::{Event, Question};
use crate::raw::{self, Member, Raw};
use crate::settings::Config;

/// The method that asks the user.
const ELICIT: &str = "elicitation/create";
/// The line before a server's own words.
const FIRST: &str = "A server asks this, not MCP Workbench:\n\n";

/// A question of a server to the user, marked as one where that matters; anything else as it is.
pub(crate) fn attributed(config: impl FnOnce() -> Arc<Config>, event: Event) -> Event {
    match event {
        Event::Question(question) => Event::Question(attributed_question(&config(), question)),
        event => event,
    }
}

/// A question, marked as a server's if it is one and goes to the user, where that matters.
pub(crate) fn attributed_question(config: &Config, mut question: Question) -> Question {
    if question.is_of_server && question.method == ELICIT && config.policy.has_confirmations() {
        question.params = question.params.take().map(|params| marked(&params).unwrap_or(params));
    }
    question
}

/// An answer of a server, with the questions to the user in it (2026-07-28, `inputRequests`) marked as a
/// server's where `has_confirmations`.
pub(crate) fn attributed_result(
    has_confirmations: impl FnOnce() -> bool,
    outcome: Outcome,
) -> Outcome {
    static METHOD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(ELICIT));
    match outcome {
        Outcome::Result(result)
            if METHOD.find(result.as_bytes()).is_some() && has_confirmations() =>
        {
            Outcome::Result(marked_requests(&result).unwrap_or(result))
        }
        outcome => outcome,
    }
}

/// The parameters with our line before the message; `None` if there is none to be marked.
fn marked(params: &Raw) -> Option<Raw> {
    let message = params.member("message")?;
    let message = format!("{FIRST}{}", message.text()?);
    params.with_member("message", &Raw::encode(&message))
}

/// A result with each of its questions marked; `None` if it asks nothing.
fn marked_requests(result: &Raw) -> Option<Raw> {
    let requests: Vec<Member> = result.member("inputRequests")?.members()?;
    let requests = requests.into_iter().map(|(key, request)| {
        let asked = || {
            if request.member("method")?.text()? != ELICIT {
                return None;
            }
            request.with_member("params", &marked(&request.member("params")?)?)
        };
        let asked = asked().unwrap_or_else(|| request.clone());
        (key, asked)
    });
    let requests: Vec<Member> = requests.collect();
    let requests = raw::object(requests.iter().map(|(key, value)| (&**key, value)));
    result.with_member("inputRequests", &requests)
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
