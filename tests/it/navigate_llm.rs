//! `navigate` mode with a language model that chooses: the flow of the document, against a scripted
//! endpoint.

use std::fs;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::llm::{AskedLlm, Llm, LlmAnswer};
use crate::support::{Agent, Bench, fake};

const TASK: &str = "Schick eine Nachricht an #general in Slack: Hallo Team!";

fn bench(llm: &Llm) -> Bench {
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
    Bench::new()
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

fn agent(bench: &Bench) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

/// An endpoint that gives these answers, one after the other, and the last one for ever.
fn saying(answers: Vec<LlmAnswer>) -> Llm {
    let next = std::sync::atomic::AtomicUsize::new(0);
    Llm::start(move |_| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        answers[at.min(answers.len() - 1)].clone()
    })
}

fn choice(name: &str) -> LlmAnswer {
    LlmAnswer::says(&json!({"choice": name}))
}

/// Asserts that each of these texts stands in what the model was asked.
#[track_caller]
fn asked_of(asked: &AskedLlm, texts: &[&str]) {
    let words = asked.words();
    for text in texts {
        assert!(words.contains(text), "{text}: {words}");
    }
}

#[test]
fn the_flow_of_the_document() {
    let message = json!({"channel": "#general", "text": "Hallo Team!"});
    let llm = saying(vec![
        choice("communication"),
        choice("slack"),
        choice("send_message"),
        LlmAnswer::says(&message),
    ]);
    let agent = agent(&bench(&llm));
    let done = agent.call("execute_task", json!({"task": TASK}));
    assert_eq!(
        done.structured(),
        json!({"success": true, "tool_used": "slack.send_message", "result": message})
    );
    let asked = llm.asked();
    assert_eq!(asked.len(), 4);
    asked_of(&asked[0], &[TASK, "communication", "database", "files", "calendar", "web"]);
    asked_of(&asked[1], &[TASK, "slack", "email"]);
    asked_of(&asked[2], &[TASK, "send_message", "list_channels", "search_messages"]);
    asked_of(&asked[3], &[TASK, "send_message", "channel", "Nachrichtentext"]);
    assert!(asked.iter().all(|asked| asked.path == "/v1/chat/completions"));
}

#[test]
fn a_level_with_one_option_costs_no_question() {
    let llm = saying(vec![choice("database")]);
    let agent = agent(&bench(&llm));
    let done = agent.call("execute_task", json!({"task": "PostgreSQL Query ausführen"}));
    assert_eq!(done.structured()["tool_used"], "postgres.query");
    assert_eq!(llm.asked().len(), 1, "one in place of three");
}

#[test]
fn arguments_that_are_given_are_not_asked_for() {
    let llm = saying(vec![choice("communication"), choice("slack"), choice("send_message")]);
    let agent = agent(&bench(&llm));
    let given = json!({"channel": "#general", "text": "Hallo Team!"});
    let done = agent.call("execute_task", json!({"task": TASK, "arguments": given}));
    assert_eq!(done.structured()["result"], given);
    assert_eq!(llm.asked().len(), 3);
}

#[test]
fn a_choice_that_is_none_is_asked_again_and_given_up() {
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
fn what_the_model_does_not_find_is_asked_of_the_agent() {
    let llm = saying(vec![
        choice("communication"),
        choice("slack"),
        choice("send_message"),
        LlmAnswer::says(&json!({"channel": "#general"})),
    ]);
    let agent = agent(&bench(&llm));
    let asked = agent.call("execute_task", json!({"task": "Nachricht an #general"}));
    let error = asked.structured()["error"].clone();
    assert_eq!(error["type"], "missing_parameters");
    assert_eq!(error["parameters"][0]["name"], "text");
    assert_eq!(llm.asked().len(), 4, "who is asked again makes something up");
}

#[test]
fn a_second_question_asks_for_what_is_wrong_and_not_for_what_is_left_out() {
    let llm = saying(vec![
        choice("communication"),
        choice("slack"),
        choice("send_message"),
        LlmAnswer::says(&json!({"channel": 7})),
        LlmAnswer::says(&json!({"channel": "#general"})),
    ]);
    let agent = agent(&bench(&llm));
    let asked = agent.call("execute_task", json!({"task": "Nachricht an #general"}));
    let error = asked.structured()["error"].clone();
    assert_eq!(error["type"], "missing_parameters", "{error}");
    assert_eq!(error["parameters"][0]["name"], "text");
    let asked = llm.asked();
    assert_eq!(asked.len(), 5);
    let words = asked[4].words();
    let problem = words.lines().find(|line| line.starts_with("{\"problem\"")).expect("a problem");
    assert!(problem.contains("`channel` is a number") && !problem.contains("text"), "{problem}");
    asked_of(
        &asked[4],
        &["leaving it out is always right", "leave out what the task does not say"],
    );
}

#[test]
fn a_task_that_is_too_long_for_the_model_is_refused_and_never_cut() {
    let llm = saying(vec![choice("communication"), choice("slack"), choice("send_message")]);
    let agent = agent(&bench(&llm));
    let text = "Hallo Team! ".repeat(2_000);
    let failed = agent.call("execute_task", json!({"task": format!("{TASK} {text}")}));
    assert!(failed.is_tool_error());
    let shape = failed.structured();
    assert_eq!(shape["error"]["type"], "task_too_long", "{}", shape["error"]);
    assert_eq!(shape["tool_used"], "slack.send_message");
    assert_eq!(llm.asked().len(), 3, "nobody is asked for arguments");
    // The way that the answer proposes.
    let arguments = json!({
        "task": "send it",
        "tool": shape["tool_used"],
        "arguments": {"channel": "#general", "text": text},
    });
    let done = agent.call("execute_task", arguments);
    assert_eq!(done.structured()["result"]["text"], text);
    assert_eq!(llm.asked().len(), 3, "nothing is left to choose");
}

#[test]
fn a_model_that_cannot_be_had_is_told_of_within_the_budget() {
    let html = "<html>Bad Gateway</html>".to_owned();
    for (answer, kinds) in [
        (LlmAnswer::Status(401, Vec::new(), "{}".to_owned()), &["llm_error"][..]),
        (LlmAnswer::Status(200, vec!["Content-Type: text/html".to_owned()], html), &["llm_error"]),
        (LlmAnswer::Nothing, &["budget_exhausted"]),
        // It may be too long before it has taken too long.
        (LlmAnswer::Endless("{"), &["llm_error", "budget_exhausted"]),
    ] {
        let llm = saying(vec![answer.clone()]);
        let mut config = json!({"strategy": "hierarchy", "budget": {"timeoutMs": 800}});
        config["llm"] = json!({"baseUrl": llm.base_url(), "model": "small"});
        let agent = agent(&bench(&llm).set("navigator", config));
        let since = Instant::now();
        let failed = agent.call("execute_task", json!({"task": TASK}));
        // An endpoint is given 20 s where nothing is said.
        assert!(since.elapsed() < Duration::from_secs(15), "{answer:?}: {:?}", since.elapsed());
        let error: Value = failed.structured()["error"].clone();
        let kind = error["type"].as_str().unwrap_or_default();
        assert!(kinds.contains(&kind), "{answer:?}: {error}");
    }
}

#[test]
fn what_the_file_says_of_a_server_is_told() {
    let llm = saying(vec![choice("web"), choice("none")]);
    let mut pets = fake(json!({"tools": []}));
    pets["description"] = json!("Walks of dogs");
    let agent = agent(&bench(&llm).server("web", "pets", pets));
    agent.call("execute_task", json!({"task": "walk"}));
    asked_of(&llm.asked()[1], &["Walks of dogs"]);
}

#[test]
fn a_tool_that_the_model_rejects_is_not_called() {
    let llm = saying(vec![choice("none")]);
    let bench = Bench::new()
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

fn with_sampling(settings: &Bench) -> Bench {
    let navigator = json!({"strategy": "hierarchy", "chooser": "sampling"});
    settings.clone().set("navigator", navigator)
}

#[test]
fn the_clients_own_model_chooses_in_both_eras() {
    let llm = saying(vec![choice("nobody asks it")]);
    let bench = with_sampling(&bench(&llm));
    for is_modern in [false, true] {
        let answer = json!({
            "role": "assistant",
            "model": "haiku",
            "stopReason": "endTurn",
            "content": {"type": "text", "text": "the second</think>{\"choice\": \"2\"}"},
        });
        let agent = bench.agent().answering("sampling/createMessage", answer);
        let agent = agent.begin(is_modern, json!({"sampling": {}}));
        let done = agent.call_through("execute_task", json!({"task": TASK}));
        assert_eq!(done.structured()["tool_used"], "postgres.query", "{}", done.text());
        let asked = agent.next_request("sampling/createMessage");
        let words = asked["params"]["messages"][0]["content"]["text"].as_str().expect("a text");
        assert!(words.contains(TASK) && words.contains("database"), "{words}");
    }
    assert!(llm.asked().is_empty());
}

#[test]
fn where_the_client_lends_no_model_the_ranker_chooses() {
    let llm = saying(vec![choice("nobody asks it")]);
    let bench = with_sampling(&bench(&llm));
    for is_modern in [false, true] {
        let agent = bench.agent().begin(is_modern, json!({}));
        let done = agent.call_through("execute_task", json!({"task": "database: postgres query"}));
        assert_eq!(done.structured()["tool_used"], "postgres.query", "{}", done.text());
    }
}

#[test]
fn who_is_asked_is_left_alone_when_the_task_is_cancelled() {
    let llm = saying(vec![LlmAnswer::Nothing]);
    let agent = agent(&bench(&llm));
    let task = agent.send_call("execute_task", json!({"task": TASK}));
    llm.wait_asked(1);
    assert_eq!(llm.hung_up(), 0);
    agent.cancel(&task);
    llm.wait_hung_up(1);
    agent.tools();
    assert!(agent.answered(&task).is_none(), "what is cancelled is not answered");
}

#[test]
fn a_call_ends_at_its_server_when_the_task_is_cancelled() {
    let llm = saying(vec![choice("1")]);
    let bench = Bench::new()
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
    // Three steps, and what the tool says itself.
    agent.wait_progress(&task, 5);
    agent.cancel(&task);
    let counts = || agent.use_tool(["box", "one", "count"], json!({})).structured();
    while counts()["cancelled"].as_array().is_none_or(Vec::is_empty) {}
    assert_eq!(counts()["calls"]["sleep"], 1);
}
