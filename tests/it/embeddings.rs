//! Tools are found by what a model says they mean, and without it where it fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::llm::{AskedLlm, Llm, LlmAnswer};
use crate::support::{Bench, fake};

/// A word that neither the tools nor the table have, and the model does.
const WORD: &str = "зонтик";
const KEY: &str = "hunter2-hunter2";

/// The model: what has to do with adding points one way, and all else nowhere.
fn model(asked: &AskedLlm) -> LlmAnswer {
    assert_eq!(asked.path, "/v1/embeddings");
    assert_eq!(asked.authorization, format!("Bearer {KEY}"));
    let texts = asked.body["input"].as_array().expect("texts");
    let is_meant = |text: &Value| {
        let text = text.as_str().expect("a text");
        text.contains(WORD) || text.starts_with("calc add:")
    };
    let vector = |text: &Value| if is_meant(text) { [1.0, 0.0] } else { [0.0, 0.0] };
    let data = texts.iter().map(|text| json!({ "embedding": vector(text) }));
    let body = json!({ "data": data.collect::<Vec<_>>() }).to_string();
    LlmAnswer::Status(200, vec!["Content-Type: application/json".to_owned()], body)
}

fn bench(llm: &Llm) -> Bench {
    let embeddings = json!({ "baseUrl": llm.base_url(), "model": "m-1", "apiKey": "${MODEL_KEY}" });
    let calc = json!({ "tools": ["add", "echo", "secret_add"] });
    let mut calc = fake(calc);
    calc["toolFilters"] = json!(["*", "!secret_*"]);
    let bench = Bench::new().server("dev", "calc", calc).env("MODEL_KEY", KEY);
    bench.set("search", json!({ "embeddings": embeddings }))
}

/// The tools that a search finds, and what it says besides.
fn found(bench: &Bench, query: &str) -> (Vec<String>, String) {
    let output = bench.run(["search", query, "--json"]);
    let answer: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let tools = answer[0]["tools"].as_array().expect("tools");
    let name = |tool: &Value| tool["tool"].as_str().expect("a name").to_owned();
    (tools.iter().map(name).collect(), output.stderr)
}

/// How many texts each request had.
fn sizes(llm: &Llm) -> Vec<usize> {
    let asked = llm.asked();
    asked.iter().map(|asked| asked.body["input"].as_array().expect("texts").len()).collect()
}

#[test]
fn tools_are_found_by_what_a_model_says_they_mean_and_each_is_asked_for_once() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let llm = Llm::start(move |asked| {
        if broken.load(Ordering::Relaxed) {
            let body = format!("<html>{KEY}</html>");
            return LlmAnswer::Status(503, vec!["Retry-After: 60".to_owned()], body);
        }
        model(asked)
    });
    let bench = bench(&llm);
    assert_eq!(found(&bench, WORD).0, ["add"]);
    let first = sizes(&llm);
    assert!(first.len() == 2 && first[1] == 1, "{first:?}");
    let sent = format!("{:?}", llm.asked());
    assert!(sent.contains("calc echo:") && !sent.contains("secret"), "{sent}");

    // Another run asks for the query alone.
    assert_eq!(found(&bench, WORD).0, ["add"]);
    assert_eq!(sizes(&llm)[2..], [1]);

    // Without the model there is the table.
    is_broken.store(true, Ordering::Relaxed);
    let (tools, said) = found(&bench, "add two numbers");
    assert_eq!(tools[0], "add");
    assert_eq!(said.matches("tools are found without `search.embeddings`").count(), 1, "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(found(&bench, WORD).0, [""; 0]);
}

// A server that is listed between the ranking and the answer was not searched, whatever is known of it
// in the end.
#[test]
fn a_server_that_is_listed_while_tools_are_ranked_is_said_to_be_missed() {
    let (go, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let llm = Llm::start(move |asked| {
        // The index is made, and what it says of the query is not known yet.
        let going = gate.lock().expect("no panic").recv_timeout(Duration::from_secs(30));
        assert!(going.is_ok(), "nobody opened the gate");
        model(asked)
    });
    let bench = bench(&llm).set("toolMode", json!("search"));
    let starts = bench.path_text("starts");
    let late = json!({"tools": ["sum"], "failTimes": {"n": 1, "counterFile": starts}});
    let bench = bench.server("dev", "late", fake(late));
    let agent = bench.agent();
    agent.initialize();
    let wanted = json!({"name": "search_tools", "arguments": {"queries": "sum of numbers"}});
    let searching = agent.send_request("tools/call", wanted);
    llm.wait_asked(1);
    // It fails once, when the search tries it.
    assert!(!agent.use_tool(["dev", "late", "sum"], json!({})).is_tool_error());
    // Once for what the tools mean, once for the query.
    for _ in 0..2 {
        go.send(()).expect("somebody waits");
    }
    let answer = agent.wait(&searching).text();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    assert!(answer["not_searched"]["dev/late"].is_string(), "{answer}");
    assert!(!answer["results"].to_string().contains("\"sum\""), "{answer}");
}
