//! Tasks in `navigate` mode on a catalog folder: tool choice, files read and servers started.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::llm::{FakeLlm, LlmResponse, RecordedLlmRequest};
use crate::support::real::entry;
use crate::support::{Agent, TestEnvironment, fake};

const SERVICES: [(&str, &[&str]); 4] = [
    ("slack", &["send_message", "list_channels", "search_messages"]),
    ("gmail", &["send_email"]),
    ("postgres", &["query"]),
    ("gdrive", &["upload", "download"]),
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for item in fs::read_dir(from).expect("a folder") {
        let item = item.expect("an entry");
        let (from, to) = (item.path(), to.join(item.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copied");
        }
    }
}

/// The catalog of `examples/catalog`, with scripted servers that record their requests.
fn bench(settings: &Value) -> TestEnvironment {
    let bench = TestEnvironment::new();
    let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/catalog");
    copy(&shown, &bench.path("catalog"));
    let mut config = settings.clone();
    for (server, tools) in SERVICES {
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}}))
            .collect();
        let behavior: Value = tools.iter().fold(json!({}), |mut all, tool| {
            all[tool["name"].as_str().unwrap_or_default()] = json!("echo");
            all
        });
        let script =
            json!({"tools": tools, "behavior": behavior, "requestFile": bench.path_text(server)});
        config["mcp_servers"][format!("{server}-mcp")] = fake(script);
    }
    for (category, about) in [("calendar", "Termine"), ("web", "Das Web")] {
        let folder = bench.path("catalog").join(category);
        copy(&bench.path("catalog/files"), &folder);
        fs::write(folder.join("_category.yaml"), format!("description: {about}")).expect("written");
    }
    // JSON is YAML.
    bench.write("catalog/_config.yaml", &config.to_string());
    bench
}

fn serve(bench: &TestEnvironment, arguments: &[&str]) -> Agent {
    let folder = bench.path_text("catalog");
    let arguments = [&["serve", "--config", folder.as_str()], arguments].concat();
    let agent = bench.direct(&entry(env!("CARGO_BIN_EXE_mcp-workbench"), &arguments));
    agent.initialize();
    agent
}

fn started(bench: &TestEnvironment) -> Vec<&'static str> {
    let names = SERVICES.iter().map(|(name, _)| *name);
    names.filter(|name| bench.path(name).exists()).collect()
}

/// A fake LLM that returns these answers in order and then repeats the last.
fn saying(answers: Vec<Value>) -> FakeLlm {
    let next = std::sync::atomic::AtomicUsize::new(0);
    FakeLlm::start(move |_| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        LlmResponse::says(&answers[at.min(answers.len() - 1)])
    })
}

fn settings(llm: &FakeLlm) -> Value {
    json!({"llm": {"base_url": llm.base_url(), "model": "small"}})
}

#[test]
fn task_takes_four_llm_requests_and_starts_one_server() {
    let message = json!({"channel": "#general", "text": "Hallo Team!"});
    let steps = ["communication", "slack", "send_message"];
    let mut answers: Vec<_> = steps.iter().map(|step| json!({"choice": step})).collect();
    answers.push(message.clone());
    let llm = saying(answers);
    let bench = bench(&settings(&llm));
    // The task doesn't need this broken file, so it is never read.
    bench.write("catalog/files/gdrive/upload.yaml", "parameters: [");
    let agent = serve(&bench, &[]);
    assert_eq!(agent.tool_names(), ["execute_task"]);
    let task = "Schick eine Nachricht an #general in Slack: Hallo Team!";
    let done = agent.call("execute_task", json!({"task": task}));
    let expected = json!({"success": true, "tool_used": "slack.send_message", "result": message});
    assert_eq!(done.structured(), expected);
    let asked: Vec<_> = llm.asked().iter().map(RecordedLlmRequest::words).collect();
    assert_eq!(asked.len(), 4);
    let options = [
        &["calendar", "communication", "database", "files", "web"][..],
        &["email", "slack"],
        &["list_channels", "search_messages", "send_message"],
        &["channel", "thread_ts", "Was geschrieben wird"],
    ];
    for (words, options) in asked.iter().zip(options) {
        assert!(words.contains(task), "{words}");
        for option in options {
            assert!(words.contains(option), "{option}: {words}");
        }
    }
    assert_eq!(started(&bench), ["slack"]);
}

#[test]
fn single_option_is_chosen_without_an_llm_request() {
    let llm = saying(vec![json!({"choice": "database"}), json!({"sql": "select 1"})]);
    let bench = bench(&settings(&llm));
    let agent = serve(&bench, &[]);
    let done = agent.call("execute_task", json!({"task": "PostgreSQL Query ausführen: select 1"}));
    assert_eq!(done.structured()["tool_used"], "postgres.query", "{}", done.text());
    let chosen = llm.asked().iter().filter(|request| request.words().contains("web")).count();
    assert_eq!(chosen, 1, "one LLM request instead of three");
    assert_eq!(started(&bench), ["postgres"]);
}

#[test]
fn ranker_picks_a_tool_and_reports_missing_parameters() {
    let bench = bench(&json!({}));
    let agent = serve(&bench, &[]);
    let task = "communication: Schreibe eine Nachricht an einen Channel in slack";
    let asked = agent.call("execute_task", json!({"task": task})).structured();
    assert_eq!(asked["error"]["type"], "missing_parameters", "{asked}");
    assert_eq!(asked["tool_used"], "slack.send_message", "{asked}");
    assert_eq!(started(&bench), [""; 0], "missing parameters are known without a start");
    let message = json!({"channel": "#general", "text": "Hallo"});
    let done = agent.call("execute_task", json!({"task": task, "arguments": message}));
    assert_eq!(done.structured()["result"], message);
}

#[test]
fn broken_tool_file_is_left_out_of_retrieval() {
    let bench = bench(&json!({"navigator": {"strategy": "retrieve"}}));
    bench.write("catalog/files/gdrive/upload.yaml", "parameters: [");
    let agent = serve(&bench, &[]);
    let task = "Nachricht in einen Channel in slack schreiben";
    let message = json!({"channel": "#general", "text": "Hallo"});
    let done = agent.call("execute_task", json!({"task": task, "arguments": message}));
    assert_eq!(done.structured()["tool_used"], "slack.send_message", "{}", done.text());
    agent.wait_stderr("skipped a tool: ");
}

#[test]
fn denied_tools_are_never_offered_to_the_llm() {
    let llm = saying(vec![json!({"choice": "send_message"}), json!({"choice": "1"})]);
    let mut settings = settings(&llm);
    settings["agent_policies"] = json!({"ann": {
        "allowed_servers": ["slack"],
        "tool_overrides": {"slack": ["list_channels", "search_messages"]},
    }});
    let bench = bench(&settings);
    let agent = serve(&bench, &["--agent", "ann"]);
    let done = agent.call("execute_task", json!({"task": "Schreibe eine Nachricht in Slack"}));
    assert!(!llm.asked().is_empty(), "choosing between two tools needs a request");
    for request in llm.asked() {
        let words = request.words();
        for hidden in ["Schreibt eine", "postgres", "gdrive", "database", "email"] {
            assert!(!words.contains(hidden), "{hidden}: {words}");
        }
    }
    assert!(!done.text().contains("send_message"), "{}", done.text());
    let described = agent.tools()[0].to_string();
    assert!(!described.contains("database") && described.contains("communication"), "{described}");
}
