//! `completion/complete`.

use serde_json::{Value, json};

use crate::request::Request;
use crate::wire::{Answer, Fault};

const WORDS: [&str; 5] = ["paris", "park", "party", "test", "testing"];
const IDS: [&str; 2] = ["123", "456"];

pub(crate) fn complete(request: &Request) -> Answer {
    let params = &request.params;
    let reference = &params["ref"];
    let argument = params["argument"]["name"].as_str().unwrap_or_default();
    let known = match (reference["type"].as_str(), argument) {
        (Some("ref/prompt"), "arg1" | "arg2")
            if reference["name"] == "test_prompt_with_arguments" =>
        {
            WORDS.as_slice()
        }
        (Some("ref/resource"), "id") if reference["uri"] == "test://template/{id}/data" => {
            IDS.as_slice()
        }
        _ => return Err(Fault::invalid_params("no completions for this reference")),
    };
    let begun = params["argument"]["value"].as_str().unwrap_or_default();
    let values: Vec<Value> =
        known.iter().filter(|word| word.starts_with(begun)).map(|word| json!(word)).collect();
    Ok(json!({ "completion": { "total": values.len(), "hasMore": false, "values": values } }))
}
