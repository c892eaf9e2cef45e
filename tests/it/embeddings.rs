//! Semantic tool search with an embedding model, and the fallback when the model fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::llm::{FakeLlm, LlmResponse, RecordedLlmRequest};
use crate::support::{TestEnvironment, fake};

/// A query word that only the model knows: neither the tools nor the synonym table contain it.
const WORD: &str = "зонтик";
const KEY: &str = "hunter2-hunter2";

/// Embeds everything about adding as one vector, and every other text as zero.
fn model(request: &RecordedLlmRequest) -> LlmResponse {
    assert_eq!(request.path, "/v1/embeddings");
    assert_eq!(request.authorization, format!("Bearer {KEY}"));
    let texts = request.body["input"].as_array().expect("texts");
    let is_meant = |text: &Value| {
        let text = text.as_str().expect("a text");
        text.contains(WORD) || text.starts_with("calc add:")
    };
    let vector = |text: &Value| if is_meant(text) { [1.0, 0.0] } else { [0.0, 0.0] };
    let data = texts.iter().map(|text| json!({ "embedding": vector(text) }));
    let body = json!({ "data": data.collect::<Vec<_>>() }).to_string();
    LlmResponse::Status(200, vec!["Content-Type: application/json".to_owned()], body)
}

fn bench(llm: &FakeLlm) -> TestEnvironment {
    let embeddings = json!({ "baseUrl": llm.base_url(), "model": "m-1", "apiKey": "${MODEL_KEY}" });
    let calc = json!({ "tools": ["add", "echo", "secret_add"] });
    let mut calc = fake(calc);
    calc["toolFilters"] = json!(["*", "!secret_*"]);
    let bench = TestEnvironment::new().server("dev", "calc", calc).env("MODEL_KEY", KEY);
    bench.set("search", json!({ "embeddings": embeddings }))
}

fn found(bench: &TestEnvironment, query: &str) -> (Vec<String>, String) {
    let output = bench.run(["search", query, "--json"]);
    let answer: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let tools = answer[0]["tools"].as_array().expect("tools");
    let name = |tool: &Value| tool["tool"].as_str().expect("a name").to_owned();
    (tools.iter().map(name).collect(), output.stderr)
}

fn sizes(llm: &FakeLlm) -> Vec<usize> {
    let request = llm.asked();
    request.iter().map(|request| request.body["input"].as_array().expect("texts").len()).collect()
}

#[test]
fn embeds_each_tool_once_and_falls_back_without_the_model() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let llm = FakeLlm::start(move |request| {
        if broken.load(Ordering::Relaxed) {
            let body = format!("<html>{KEY}</html>");
            return LlmResponse::Status(503, vec!["Retry-After: 60".to_owned()], body);
        }
        model(request)
    });
    let bench = bench(&llm);
    assert_eq!(found(&bench, WORD).0, ["add"]);
    let first = sizes(&llm);
    assert!(first.len() == 2 && first[1] == 1, "{first:?}");
    let sent = format!("{:?}", llm.asked());
    assert!(sent.contains("calc echo:") && !sent.contains("secret"), "{sent}");

    // Definitions are cached, so the second run embeds only the query.
    assert_eq!(found(&bench, WORD).0, ["add"]);
    assert_eq!(sizes(&llm)[2..], [1]);

    // Without the model, search falls back to the synonym table.
    is_broken.store(true, Ordering::Relaxed);
    let (tools, said) = found(&bench, "add two numbers");
    assert_eq!(tools[0], "add");
    assert_eq!(said.matches("`search.embeddings` failed").count(), 1, "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(found(&bench, WORD).0, [""; 0]);
}

// A server that gets listed between ranking and response was not searched, so it is reported even
// though its tools are known by then.
#[test]
fn server_listed_during_ranking_is_reported_as_not_searched() {
    let (go, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let llm = FakeLlm::start(move |request| {
        // The index is complete, but the query has no embedding yet.
        let going = gate.lock().expect("no panic").recv_timeout(Duration::from_secs(30));
        assert!(going.is_ok(), "the test did not release the request");
        model(request)
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
    // The search's own attempt to start the server fails.
    assert!(!agent.use_tool(["dev", "late", "sum"], json!({})).is_tool_error());
    // One request embeds the tools, the other the query.
    for _ in 0..2 {
        go.send(()).expect("a waiting request");
    }
    let answer = agent.wait(&searching).text();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    assert!(answer["not_searched"]["dev/late"].is_string(), "{answer}");
    assert!(!answer["results"].to_string().contains("\"sum\""), "{answer}");
}
