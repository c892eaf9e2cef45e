//! `prompts/list` and `prompts/get`.

use serde_json::{Value, json};

use crate::change::Lists;
use crate::content;
use crate::dialogue::Outcome;
use crate::forms;
use crate::request::Request;
use crate::server::Server;
use crate::wire::{Answer, Fault};

pub(crate) fn list(lists: &Lists) -> Vec<Value> {
    let mut prompts = vec![
        prompt("test_simple_prompt", "A prompt without arguments", &[]),
        prompt(
            "test_prompt_with_arguments",
            "A prompt that repeats its arguments",
            &["arg1", "arg2"],
        ),
        prompt("test_prompt_with_embedded_resource", "A prompt with a resource", &["resourceUri"]),
        prompt("test_prompt_with_image", "A prompt with an image", &[]),
        prompt("test_input_required_result_prompt", "A prompt that asks for its context", &[]),
    ];
    if lists.has_dynamic_prompt {
        prompts.push(prompt("test_dynamic_prompt", "A prompt that appears and disappears", &[]));
    }
    prompts
}

fn prompt(name: &str, description: &str, arguments: &[&str]) -> Value {
    let arguments = arguments.iter().map(
        |name| json!({ "name": name, "description": format!("The {name}"), "required": true }),
    );
    let mut prompt = json!({ "name": name, "description": description });
    let arguments: Vec<Value> = arguments.collect();
    if !arguments.is_empty() {
        prompt["arguments"] = arguments.into();
    }
    prompt
}

pub(crate) fn get(server: &Server, request: &Request) -> Answer {
    let name = request.text("name")?;
    if !list(&server.lists.lock().unwrap()).iter().any(|prompt| prompt["name"] == name) {
        return Err(Fault::invalid_params(format!("Unknown prompt: {name}")));
    }
    let arguments = request.arguments()?;
    let argument = |name: &str| {
        let value = arguments[name].as_str();
        value.ok_or_else(|| Fault::invalid_params(format!("the argument `{name}` is missing")))
    };
    let messages = match name {
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            let text = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
            vec![content::text(text)]
        }
        "test_prompt_with_embedded_resource" => {
            let text = "Embedded resource content for testing.";
            vec![
                content::embedded(argument("resourceUri")?, "text/plain", text),
                content::text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => {
            vec![content::image(), content::text("Please analyze the image above.")]
        }
        "test_input_required_result_prompt" => {
            let dialogue = forms::dialogue(name, &arguments).expect("a question");
            match dialogue.hold(server, request, name)? {
                Outcome::Asked(result) => return Ok(result),
                Outcome::Answers(answers) => {
                    let context = forms::conclusion(name, &arguments, &answers);
                    vec![content::text(format!("Answer in this context: {context}"))]
                }
            }
        }
        _ => vec![content::text("This is a simple prompt for testing.")],
    };
    let messages: Vec<Value> =
        messages.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Ok(json!({ "messages": messages }))
}
