//! The questions of each tool and prompt, and the results made from the answers.

use serde_json::{Map, Value, json};

use crate::dialogue::{Dialogue, Question};

pub(crate) fn dialogue(name: &str, arguments: &Value) -> Option<Dialogue> {
    let who = || form("user_name", "What is your name?", "name", "string");
    let confirm = || form("confirm", "Please confirm", "ok", "boolean");
    let roots = || Question { key: "client_roots", method: "roots/list", params: None };
    Some(match name {
        "test_sampling" => {
            Dialogue::once(vec![sample("sampling", &text(arguments, "prompt"), 100)])
        }
        "test_elicitation" => Dialogue::once(vec![contact(&text(arguments, "message"))]),
        "test_elicitation_sep1034_defaults" => Dialogue::once(vec![defaults()]),
        "test_elicitation_sep1330_enums" => Dialogue::once(vec![choices()]),
        "test_list_roots" | "test_input_required_result_list_roots" => {
            Dialogue::once(vec![roots()])
        }
        "test_streaming_elicitation"
        | "test_input_required_result_elicitation"
        | "test_tool_with_task" => Dialogue::once(vec![who()]),
        "test_input_required_result_sampling" => {
            let question = "What is the capital of France?";
            Dialogue::once(vec![sample("capital_question", question, 100)])
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            Dialogue { keeps_state: true, ..Dialogue::once(vec![confirm()]) }
        }
        "test_input_required_result_multiple_inputs" => Dialogue {
            keeps_state: true,
            ..Dialogue::once(vec![who(), sample("greeting", "Generate a greeting", 50), roots()])
        },
        "test_input_required_result_multi_round" => Dialogue {
            rounds: vec![
                vec![form("step1", "Step 1: What is your name?", "name", "string")],
                vec![form("step2", "Step 2: What is your favorite color?", "color", "string")],
            ],
            keeps_state: true,
            adapts: false,
        },
        "test_input_required_result_capabilities" => Dialogue {
            adapts: true,
            ..Dialogue::once(vec![who(), sample("greeting", "Generate a greeting", 50)])
        },
        "test_input_required_result_prompt" => {
            let question = "What context should the prompt use?";
            Dialogue::once(vec![form("user_context", question, "context", "string")])
        }
        "confirm_delete" => {
            let question = format!("Delete {}?", text(arguments, "filename"));
            Dialogue::once(vec![form("confirm", &question, "confirm", "boolean")])
        }
        "multi_input" => Dialogue::once(vec![
            form("first", "What is the first name?", "name", "string"),
            form("second", "What is the second name?", "name", "string"),
        ]),
        _ => return None,
    })
}

pub(crate) fn conclusion(name: &str, arguments: &Value, answers: &Map<String, Value>) -> String {
    let answer = |key: &str| answers.get(key).unwrap_or(&Value::Null);
    let content = |key: &str, field: &str| text(&answer(key)["content"], field);
    match name {
        "test_sampling" => {
            format!("LLM response: {}", text(&answer("sampling")["content"], "text"))
        }
        "test_elicitation" => {
            let answer = answer("contact");
            let (action, content) = (text(answer, "action"), &answer["content"]);
            format!("User response: action={action}, content={content}")
        }
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            let answer = answer("form");
            let (action, content) = (text(answer, "action"), &answer["content"]);
            format!("Elicitation completed: action={action}, content={content}")
        }
        "test_streaming_elicitation"
        | "test_input_required_result_elicitation"
        | "test_tool_with_task" => format!("Hello, {}!", content("user_name", "name")),
        "test_input_required_result_multi_round" => {
            format!("{} likes {}.", content("step1", "name"), content("step2", "color"))
        }
        "test_input_required_result_prompt" => content("user_context", "context"),
        "confirm_delete" if answer("confirm")["content"]["confirm"] == true => {
            format!("Deleted {}.", text(arguments, "filename"))
        }
        "confirm_delete" => format!("Kept {}.", text(arguments, "filename")),
        "multi_input" => format!("{}, {}", content("first", "name"), content("second", "name")),
        _ => format!("Answers: {}", Value::Object(answers.clone())),
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn elicit(key: &'static str, message: &str, schema: &Value) -> Question {
    let params = json!({ "message": message, "requestedSchema": schema });
    Question { key, method: "elicitation/create", params: Some(params) }
}

fn form(key: &'static str, message: &str, field: &str, kind: &str) -> Question {
    let properties = json!({ field: { "type": kind } });
    let schema = json!({ "type": "object", "properties": properties, "required": [field] });
    elicit(key, message, &schema)
}

fn sample(key: &'static str, prompt: &str, tokens: u32) -> Question {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    let params = json!({ "messages": [message], "maxTokens": tokens });
    Question { key, method: "sampling/createMessage", params: Some(params) }
}

fn contact(message: &str) -> Question {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    });
    elicit("contact", message, &schema)
}

/// One field of every primitive type, each with a default (SEP-1034).
fn defaults() -> Question {
    let states = ["active", "inactive", "pending"];
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "User name", "default": "John Doe" },
            "age": { "type": "integer", "description": "User age", "default": 30 },
            "score": { "type": "number", "description": "User score", "default": 95.5 },
            "status": { "type": "string", "enum": states, "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
        "required": [],
    });
    elicit("form", "Please review the prefilled form", &schema)
}

/// Every form of enum schema (SEP-1330).
fn choices() -> Question {
    let plain = ["option1", "option2", "option3"];
    let titled = |word: &str| {
        let ordinals = [("value1", "First"), ("value2", "Second"), ("value3", "Third")];
        ordinals.map(|(value, nth)| json!({ "const": value, "title": format!("{nth} {word}") }))
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
        "required": [],
    });
    elicit("form", "Please choose", &schema)
}
