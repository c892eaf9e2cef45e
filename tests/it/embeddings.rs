//! Tools are found by what a model says they mean, and without it where it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
