//! `tools/call`: the implementation of each tool.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::change::Change;
use crate::content::{audio, embedded, failure, image, result, saying, text};
use crate::dialogue::{Dialogue, Outcome};
use crate::forms;
use crate::request::Request;
use crate::resources::WATCHED;
use crate::server::Server;
use crate::tasks;
use crate::tool_list::list;
use crate::wire::{Answer, Fault};

const STEP: Duration = Duration::from_millis(50);

pub(crate) fn call(server: &Arc<Server>, request: &Request) -> Answer {
    let name = request.text("name")?;
    let arguments = request.arguments()?;
    let tools = list(&server.lists.lock().unwrap());
    let tool = tools.iter().find(|tool| tool["name"] == name);
    let tool = tool.ok_or_else(|| Fault::invalid_params(format!("Unknown tool: {name}")))?;
    let required = tool["inputSchema"]["required"].as_array().into_iter().flatten();
    for argument in required.filter_map(Value::as_str) {
        if arguments[argument].is_null() {
            return Ok(failure(format!("The argument `{argument}` is missing")));
        }
    }
    if let "slow_compute" | "failing_job" | "protocol_error_job" = name {
        return work(server, request, name, &arguments);
    }
    if let Some(dialogue) = forms::dialogue(name, &arguments) {
        return talk(server, request, name, &arguments, dialogue);
    }
    act(server, request, name, &arguments)
}

/// Runs the dialogue of a tool. On failure, a modern client gets a protocol error and a legacy one
/// an `isError` result.
fn talk(
    server: &Arc<Server>,
    request: &Request,
    name: &str,
    arguments: &Value,
    dialogue: Dialogue,
) -> Answer {
    if name == "test_tool_with_task" && request.modern {
        request.need_tasks()?;
    }
    if let "confirm_delete" | "multi_input" = name
        && request.has_tasks()
    {
        let (name, arguments) = (name.to_owned(), arguments.clone());
        return Ok(tasks::start(server, move |task| {
            let answers = task.ask(dialogue);
            Ok(saying(forms::conclusion(&name, &arguments, &answers)))
        }));
    }
    match dialogue.hold(server, request, name) {
        Ok(Outcome::Asked(result)) => Ok(result),
        Ok(Outcome::Answers(answers)) => {
            let conclusion = forms::conclusion(name, arguments, &answers);
            if name == "test_tool_with_task" && request.modern {
                return Ok(tasks::start(server, move |_| Ok(saying(conclusion))));
            }
            Ok(saying(conclusion))
        }
        Err(fault) if request.modern => Err(fault),
        Err(fault) => Ok(failure(fault.message())),
    }
}

fn work(server: &Arc<Server>, request: &Request, name: &str, arguments: &Value) -> Answer {
    if name == "failing_job" && request.modern {
        request.need_tasks()?;
    }
    let seconds = arguments["seconds"].as_f64().filter(|_| name == "slow_compute");
    let time = Duration::try_from_secs_f64(seconds.unwrap_or(0.2)).unwrap_or_default();
    let label = arguments["label"].as_str().unwrap_or("nothing").to_owned();
    let name = name.to_owned();
    let outcome = move || match name.as_str() {
        "slow_compute" => Ok(saying(format!("Computed {label}"))),
        "failing_job" => Ok(failure("The job has failed")),
        _ => Err(Fault::internal("The job has broken down")),
    };
    if request.has_tasks() {
        return Ok(tasks::start(server, move |task| {
            task.rest(time);
            outcome()
        }));
    }
    // Simulates the work.
    sleep(time);
    outcome()
}

fn act(server: &Arc<Server>, request: &Request, name: &str, arguments: &Value) -> Answer {
    Ok(match name {
        "test_simple_text" => saying("This is a simple text response for testing."),
        "test_image_content" => result(&[image()]),
        "test_audio_content" => result(&[audio()]),
        "test_embedded_resource" => {
            let content = "This is an embedded resource content.";
            result(&[embedded("test://embedded-resource", "text/plain", content)])
        }
        "test_multiple_content_types" => result(&[
            text("Multiple content types test:"),
            image(),
            embedded(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]),
        "test_error_handling" => failure("This tool intentionally returns an error for testing"),
        "test_tool_with_logging" => {
            server.log(request, "Tool execution started");
            // Separates the log messages in time.
            sleep(STEP);
            server.log(request, "Tool processing data");
            // Separates the log messages in time.
            sleep(STEP);
            server.log(request, "Tool execution completed");
            saying("Logged three messages")
        }
        "test_logging_tool" => {
            server.log(request, "A message of test_logging_tool");
            saying("Logged if requested")
        }
        "test_tool_with_progress" => {
            progress(server, request);
            saying("Reported three times")
        }
        "test_reconnection" => {
            // Long enough for the suite to close the stream before the response.
            sleep(2 * STEP);
            saying("Reconnection test completed")
        }
        "test_missing_capability" => match request.need(&["sampling"]) {
            Ok(()) => saying("The client can sample"),
            Err(fault) if request.modern => return Err(fault),
            Err(fault) => failure(fault.message()),
        },
        "test_trigger_tool_change" => {
            server.lists.lock().unwrap().has_dynamic_tool ^= true;
            server.tell(Change::Tools);
            saying("The list of tools has changed")
        }
        "test_trigger_prompt_change" => {
            server.lists.lock().unwrap().has_dynamic_prompt ^= true;
            server.tell(Change::Prompts);
            saying("The list of prompts has changed")
        }
        "test_trigger_resource_change" => {
            server.lists.lock().unwrap().revision += 1;
            server.tell(Change::Resource(WATCHED));
            saying("The watched resource has changed")
        }
        "greet" => saying(format!("Hello, {}!", arguments["name"].as_str().unwrap_or_default())),
        "test_dynamic_tool" => saying("Here for now"),
        _ => saying(format!("Arguments: {arguments}")),
    })
}

fn progress(server: &Server, request: &Request) {
    let token = &request.params["_meta"]["progressToken"];
    for (step, done) in [0, 50, 100].into_iter().enumerate() {
        if step > 0 {
            // Separates the progress notifications in time.
            sleep(STEP);
        }
        if !token.is_null() {
            let params = json!({ "progressToken": token, "progress": done, "total": 100 });
            server.output.notify("notifications/progress", &params);
        }
    }
}
