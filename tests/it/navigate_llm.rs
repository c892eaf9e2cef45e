//! `navigate` mode with a language model as selector: the documented flow against a scripted
//! endpoint.

use std::fs;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::llm::{FakeLlm, LlmResponse, RecordedLlmRequest};
use crate::support::{Agent, TestEnvironment, fake};

const TASK: &str = "Schick eine Nachricht an #general in Slack: Hallo Team!";

fn bench(llm: &FakeLlm) -> TestEnvironment {
    let object = json!({"type": "object"});
    let send = json!({
        "name": "send_message",
        "description": "Nachricht an Channel oder User senden",
        "inputSchema": {
            "type": "object",
            "properties": {
                "channel": {"type": "string", "description": "Channel-Name (#general) oder User-ID"},
                "text": {"type": "string", "description": "Nachrichtentext"},
                "thread_ts": {"type": "string", "description": "Thread-ID für Antworten"},
            },
            "required": ["channel", "text"],
        },
    });
    let slack = json!({
        "tools": [
            send,
            {"name": "list_channels", "description": "Channels auflisten", "inputSchema": object},
            {"name": "search_messages", "description": "Nachrichten suchen", "inputSchema": object},
        ],
        "behavior": {"send_message": "echo"},
    });
    let one = |name: &str| {
        fake(json!({"tools": [{"name": name, "inputSchema": object}], "behavior": {name: "echo"}}))
    };
    TestEnvironment::new()
        .set("toolMode", json!("navigate"))
        .set(
            "navigator",
            json!({
                "strategy": "hierarchy",
                "llm": {"baseUrl": llm.base_url(), "model": "small"},
                "budget": {"timeoutMs": 5000},
            }),
        )
        .toolbox("communication", "Messaging, Chat")
        .server("communication", "slack", fake(slack))
        .server("communication", "email", one("send_email"))
        .toolbox("database", "Datenbanken")
        .server("database", "postgres", one("query"))
        .toolbox("files", "Dateien")
        .server("files", "gdrive", one("upload"))
        .toolbox("calendar", "Termine")
        .server("calendar", "google", one("add_event"))
        .toolbox("web", "Das Web")
        .server("web", "browser", one("open"))
}

fn agent(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

/// An endpoint that gives these responses in order and then repeats the last one.
fn saying(answers: Vec<LlmResponse>) -> FakeLlm {
    let next = std::sync::atomic::AtomicUsize::new(0);
    FakeLlm::start(move |_| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        answers[at.min(answers.len() - 1)].clone()
    })
}

fn choice(name: &str) -> LlmResponse {
    LlmResponse::says(&json!({"choice": name}))
}

#[track_caller]
fn asked_of(request: &RecordedLlmRequest, texts: &[&str]) {
    let words = request.words();
    for text in texts {
        assert!(words.contains(text), "{text}: {words}");
    }
}

#[test]
fn follows_the_documented_flow() {
    let message = json!({"channel": "#general", "text": "Hallo Team!"});
    let llm = saying(vec![
        choice("communication"),
        choice("slack"),
        choice("send_message"),
        LlmResponse::says(&message),
    ]);
    let agent = agent(&bench(&llm));
    let done = agent.call("execute_task", json!({"task": TASK}));
    assert_eq!(
        done.structured(),
        json!({"success": true, "tool_used": "slack.send_message", "result": message})
    );
    let request = llm.asked();
    assert_eq!(request.len(), 4);
    asked_of(&request[0], &[TASK, "communication", "database", "files", "calendar", "web"]);
    asked_of(&request[1], &[TASK, "slack", "email"]);
    asked_of(&request[2], &[TASK, "send_message", "list_channels", "search_messages"]);
    asked_of(&request[3], &[TASK, "send_message", "channel", "Nachrichtentext"]);
    assert!(request.iter().all(|request| request.path == "/v1/chat/completions"));
}

#[test]
fn level_with_one_option_costs_no_model_call() {
    let llm = saying(vec![choice("database")]);
    let agent = agent(&bench(&llm));
    let done = agent.call("execute_task", json!({"task": "PostgreSQL Query ausführen"}));
    assert_eq!(done.structured()["tool_used"], "postgres.query");
    assert_eq!(llm.asked().len(), 1, "one LLM request instead of three");
}

#[test]
fn given_arguments_are_not_extracted() {
    let llm = saying(vec![choice("communication"), choice("slack"), choice("send_message")]);
    let agent = agent(&bench(&llm));
    let given = json!({"channel": "#general", "text": "Hallo Team!"});
    let done = agent.call("execute_task", json!({"task": TASK, "arguments": given}));
    assert_eq!(done.structured()["result"], given);
    assert_eq!(llm.asked().len(), 3);
}

#[test]
fn invalid_choice_is_retried_twice() {
    let llm = saying(vec![choice("databse"), choice("database")]);
    let agent = agent(&bench(&llm));
    let done = agent.call("execute_task", json!({"task": "PostgreSQL Query ausführen"}));
    assert_eq!(done.structured()["tool_used"], "postgres.query");
    asked_of(&llm.asked()[1], &["databse"]);

    let llm = saying(vec![choice("rm -rf")]);
    let agent = self::agent(&bench(&llm));
    let failed = agent.call("execute_task", json!({"task": "PostgreSQL Query ausführen"}));
    assert_eq!(failed.structured()["error"]["type"], "invalid_choice");
    assert_eq!(llm.asked().len(), 3);
}

#[test]
fn missing_arguments_are_reported_to_the_agent() {
    let llm = saying(vec![
        choice("communication"),
        choice("slack"),
        choice("send_message"),
        LlmResponse::says(&json!({"channel": "#general"})),
    ]);
    let agent = agent(&bench(&llm));
    let asked = agent.call("execute_task", json!({"task": "Nachricht an #general"}));
    let error = asked.structured()["error"].clone();
    assert_eq!(error["type"], "missing_parameters");
    assert_eq!(error["parameters"][0]["name"], "text");
    assert_eq!(llm.asked().len(), 4, "asking the model again makes it invent a value");
}

// invariant: navigator-never-guesses
#[test]
fn retry_asks_for_wrong_arguments_not_missing_ones() {
    let llm = saying(vec![
        choice("communication"),
        choice("slack"),
        choice("send_message"),
        LlmResponse::says(&json!({"channel": 7})),
        LlmResponse::says(&json!({"channel": "#general"})),
    ]);
    let agent = agent(&bench(&llm));
    let asked = agent.call("execute_task", json!({"task": "Nachricht an #general"}));
    let error = asked.structured()["error"].clone();
    assert_eq!(error["type"], "missing_parameters", "{error}");
    assert_eq!(error["parameters"][0]["name"], "text");
    let request = llm.asked();
    assert_eq!(request.len(), 5);
    let words = request[4].words();
    let problem = words.lines().find(|line| line.starts_with("{\"problem\"")).expect("a problem");
    assert!(problem.contains("`channel` is a number") && !problem.contains("text"), "{problem}");
    asked_of(&request[4], &["omitting them is always right", "omit what the task does not say"]);
}

// invariant: navigator-never-guesses
#[test]
fn too_long_task_is_rejected_instead_of_truncated() {
    let llm = saying(vec![choice("communication"), choice("slack"), choice("send_message")]);
    let agent = agent(&bench(&llm));
    let text = "Hallo Team! ".repeat(2_000);
    let failed = agent.call("execute_task", json!({"task": format!("{TASK} {text}")}));
    assert!(failed.is_tool_error());
    let shape = failed.structured();
    assert_eq!(shape["error"]["type"], "task_too_long", "{}", shape["error"]);
    assert_eq!(shape["tool_used"], "slack.send_message");
    assert_eq!(llm.asked().len(), 3, "the model must not get a request for arguments");
    let arguments = json!({
        "task": "send it",
        "tool": shape["tool_used"],
        "arguments": {"channel": "#general", "text": text},
    });
    let done = agent.call("execute_task", arguments);
    assert_eq!(done.structured()["result"]["text"], text);
    assert_eq!(llm.asked().len(), 3, "the model must not get a second request to choose");
}

#[test]
fn unavailable_model_is_reported_within_the_budget() {
    let html = "<html>Bad Gateway</html>".to_owned();
    for (answer, kinds) in [
        (LlmResponse::Status(401, Vec::new(), "{}".to_owned()), &["llm_error"][..]),
        (
            LlmResponse::Status(200, vec!["Content-Type: text/html".to_owned()], html),
            &["llm_error"],
        ),
        (LlmResponse::Nothing, &["budget_exhausted"]),
        // The response can exceed its size limit before the timeout.
        (LlmResponse::Endless("{"), &["llm_error", "budget_exhausted"]),
    ] {
        let llm = saying(vec![answer.clone()]);
        let mut config = json!({"strategy": "hierarchy", "budget": {"timeoutMs": 800}});
        config["llm"] = json!({"baseUrl": llm.base_url(), "model": "small"});
        let agent = agent(&bench(&llm).set("navigator", config));
        let since = Instant::now();
        let failed = agent.call("execute_task", json!({"task": TASK}));
        // The default timeout of an endpoint is 20 s.
        assert!(since.elapsed() < Duration::from_secs(15), "{answer:?}: {:?}", since.elapsed());
        let error: Value = failed.structured()["error"].clone();
        let kind = error["type"].as_str().unwrap_or_default();
        assert!(kinds.contains(&kind), "{answer:?}: {error}");
    }
}

#[test]
fn prompt_contains_the_configured_description() {
    let llm = saying(vec![choice("web"), choice("none")]);
    let mut pets = fake(json!({"tools": []}));
    pets["description"] = json!("Walks of dogs");
    let agent = agent(&bench(&llm).server("web", "pets", pets));
    agent.call("execute_task", json!({"task": "walk"}));
    asked_of(&llm.asked()[1], &["Walks of dogs"]);
}

#[test]
fn tool_rejected_by_the_model_is_not_called() {
    let llm = saying(vec![choice("none")]);
    let bench = TestEnvironment::new()
        .set("toolMode", json!("navigate"))
        .set("navigator", json!({"llm": {"baseUrl": llm.base_url(), "model": "small"}}));
    let script = json!({"tools": ["wipe"], "requestFile": bench.path_text("requests")});
    let agent = agent(&bench.clone().server("disk", "disk", fake(script)));
    let done = agent.call("execute_task", json!({"task": "wipe the floor"}));
    assert_eq!(done.structured()["error"]["type"], "no_matching_tool", "{}", done.text());
    assert_eq!(llm.asked().len(), 1);
    let requests = fs::read_to_string(bench.path("requests")).expect("requests");
    assert!(!requests.contains("tools/call"), "{requests}");
}

fn with_sampling(settings: &TestEnvironment) -> TestEnvironment {
    let navigator = json!({"strategy": "hierarchy", "chooser": "sampling"});
    settings.clone().set("navigator", navigator)
}

#[test]
fn sampling_selects_in_both_eras() {
    let llm = saying(vec![choice("never requested")]);
    let bench = with_sampling(&bench(&llm));
    for is_modern in [false, true] {
        let answer = json!({
            "role": "assistant",
            "model": "haiku",
            "stopReason": "endTurn",
            "content": {"type": "text", "text": "the second</think>{\"choice\": \"2\"}"},
        });
        let agent = bench.agent().with_reply("sampling/createMessage", answer);
        let agent = agent.begin(is_modern, json!({"sampling": {}}));
        let done = agent.call_to_completion("execute_task", json!({"task": TASK}));
        assert_eq!(done.structured()["tool_used"], "postgres.query", "{}", done.text());
        let asked = agent.next_request("sampling/createMessage");
        let words = asked["params"]["messages"][0]["content"]["text"].as_str().expect("a text");
        assert!(words.contains(TASK) && words.contains("database"), "{words}");
    }
    assert!(llm.asked().is_empty());
}

#[test]
fn ranker_selects_without_sampling_support() {
    let llm = saying(vec![choice("never requested")]);
    let bench = with_sampling(&bench(&llm));
    for is_modern in [false, true] {
        let agent = bench.agent().begin(is_modern, json!({}));
        let done =
            agent.call_to_completion("execute_task", json!({"task": "database: postgres query"}));
        assert_eq!(done.structured()["tool_used"], "postgres.query", "{}", done.text());
    }
}

#[test]
fn canceled_task_aborts_the_model_request() {
    let llm = saying(vec![LlmResponse::Nothing]);
    let agent = agent(&bench(&llm));
    let task = agent.send_call("execute_task", json!({"task": TASK}));
    llm.wait_asked(1);
    assert_eq!(llm.hung_up(), 0);
    agent.cancel(&task);
    llm.wait_hung_up(1);
    agent.tools();
    assert!(agent.answered(&task).is_none(), "a cancelled task got a response");
}

#[test]
fn canceled_task_cancels_the_tool_call() {
    let llm = saying(vec![choice("1")]);
    let bench = TestEnvironment::new()
        .set("toolMode", json!("navigate"))
        .set("navigator", json!({"llm": {"baseUrl": llm.base_url(), "model": "small"}}))
        .server(
            "box",
            "one",
            fake(json!({
                "tools": ["sleep", "count"],
                "behavior": {"sleep": {"sleep": {"ms": 600_000, "progressEveryMs": 10}}},
            })),
        );
    let agent = agent(&bench);
    let task = agent.send_call("execute_task", json!({"task": "sleep well"}));
    // Three steps of the workbench, then the tool's own progress.
    agent.wait_progress(&task, 5);
    agent.cancel(&task);
    let counts = || agent.use_tool(["box", "one", "count"], json!({})).structured();
    while counts()["cancelled"].as_array().is_none_or(Vec::is_empty) {}
    assert_eq!(counts()["calls"]["sleep"], 1);
}
