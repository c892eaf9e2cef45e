//! The response to a request.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// The exact line, without the line end.
    pub(crate) line: String,
    outcome: Result<Value, Value>,
}

impl Response {
    /// `None` if the message isn't a valid response.
    pub(crate) fn new(line: &str, message: &Value) -> Option<Self> {
        let outcome = match (message.get("result"), message.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (None, Some(error)) if error["code"].is_i64() && error["message"].is_string() => {
                Err(error.clone())
            }
            _ => return None,
        };
        Some(Self { line: line.to_owned(), outcome })
    }

    pub(crate) fn kind(&self) -> &'static str {
        match &self.outcome {
            Ok(result) if result["isError"] == true => "tool error",
            Ok(_) => "result",
            Err(_) => "error",
        }
    }

    pub(crate) fn result(&self) -> Option<&Value> {
        self.outcome.as_ref().ok()
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        match &self.outcome {
            Ok(result) => result.clone(),
            Err(error) => panic!("expected a result, got the error {error}"),
        }
    }

    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        match &self.outcome {
            Ok(result) => panic!("expected an error, got the result {result}"),
            Err(error) => error.clone(),
        }
    }

    /// The exact text of the result.
    #[track_caller]
    pub(crate) fn raw_result(&self) -> String {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            result: &'a RawValue,
        }
        let line: Line<'_> = serde_json::from_str(&self.line).expect("a result");
        line.result.get().to_owned()
    }

    /// The text blocks of a tool result, one per line.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        let result = self.ok();
        let blocks = result["content"].as_array().expect("a tool's result");
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        texts.join("\n")
    }

    #[track_caller]
    pub(crate) fn structured(&self) -> Value {
        self.ok()["structuredContent"].clone()
    }

    #[track_caller]
    pub(crate) fn is_tool_error(&self) -> bool {
        self.ok()["isError"] == true
    }
}
