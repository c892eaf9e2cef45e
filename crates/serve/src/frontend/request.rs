//! An agent's request, parsed as far as every handler needs it, and functions to answer it.

use std::borrow::Cow;
use std::pin::Pin;

use crate::frontend::era::{RequestMeta, check_names};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::QuotaGuard;
use mcp_workbench_wire::code::{INVALID_PARAMS, METHOD_NOT_FOUND};
use mcp_workbench_wire::incoming::{Responder, error_object};
use mcp_workbench_wire::json::{Member, RawJson};

pub(crate) struct AgentRequest {
    pub(crate) method: String,
    /// Without `_meta`.
    pub(crate) params: Vec<Member>,
    pub(crate) meta: RequestMeta,
    /// Counts the request toward the caller's limit of requests in flight.
    pub(crate) permit: Option<QuotaGuard>,
}

impl AgentRequest {
    /// Parses a request. The error is the JSON-RPC error object to answer with.
    pub(crate) fn read(method: String, params: Option<&RawJson>) -> Result<Self, RawJson> {
        let not_an_object =
            || error_object(INVALID_PARAMS, "the parameters are not an object", None);
        let mut params =
            params.map(|params| params.members().ok_or_else(not_an_object)).transpose()?;
        let params = params.get_or_insert_default();
        check_names(params, params_read(&method))?;
        let meta = params.iter().position(|(key, _)| key == "_meta").map(|at| params.remove(at).1);
        let meta = RequestMeta::read(meta.as_ref())?;
        Ok(Self { method, params: std::mem::take(params), meta, permit: None })
    }

    pub(crate) fn param(&self, key: &str) -> Option<&RawJson> {
        self.params.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn string_param(&self, key: &str) -> Result<String, RpcOutcome> {
        self.borrowed_text(key).map(Cow::into_owned)
    }

    /// Returns a string parameter, without a copy unless it has escapes.
    pub(crate) fn borrowed_text(&self, key: &str) -> Result<Cow<'_, str>, RpcOutcome> {
        self.param(key).and_then(RawJson::decode_string).ok_or_else(|| {
            let message = format!("`{key}` is missing or not a string");
            RpcOutcome::Error(error_object(INVALID_PARAMS, &message, None))
        })
    }
}

/// Returns the parameters of a method that the gateway reads. Variants of these names in another
/// case are rejected. Extensions have their own parameters.
fn params_read(method: &str) -> &'static [&'static str] {
    match method {
        "tools/call" | "prompts/get" => {
            &["_meta", "requestState", "inputResponses", "name", "arguments"]
        }
        "resources/read" => &["_meta", "requestState", "inputResponses", "uri"],
        "completion/complete" => &["_meta", "requestState", "inputResponses", "ref", "argument"],
        task if task.starts_with("tasks/") => {
            &["_meta", "requestState", "inputResponses", "taskId"]
        }
        _ => &["_meta", "requestState", "inputResponses"],
    }
}

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) async fn send(responder: Responder, outcome: RpcOutcome) {
    if responder.respond(outcome).await.is_err() {
        tracing::debug!("the agent disconnected before the response was sent");
    }
}

pub(crate) fn method_not_found(method: &str) -> RpcOutcome {
    let message = format!("unknown method `{method}`");
    RpcOutcome::Error(error_object(METHOD_NOT_FOUND, &message, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(params: &str) -> Option<String> {
        let params: RawJson = serde_json::from_str(params).unwrap();
        let error = AgentRequest::read("m".to_owned(), Some(&params)).err()?;
        error.member("message")?.decode_string_lossy().map(Cow::into_owned)
    }

    #[test]
    fn repeated_parameters_are_rejected() {
        for (params, name) in [
            (r#"{"uri":"a","uri":"b"}"#, "uri"),
            (r#"{"name":"a","arguments":{},"n\u0061me":"b"}"#, "name"),
            (r#"{"_meta":{},"a":1,"_meta":{}}"#, "_meta"),
            (r#"{"_meta":{"progressToken":1,"progressToken":2}}"#, "progressToken"),
        ] {
            let expected = format!("the parameter `{name}` is repeated");
            assert_eq!(refusal(params), Some(expected), "{params}");
        }
        assert_eq!(refusal(r#"{"name":"a","arguments":{"a":1,"a":2}}"#), None);
    }

    #[test]
    fn parameters_that_differ_only_in_case_are_rejected() {
        let refusal = |method: &str, params: &str| {
            let params: RawJson = serde_json::from_str(params).unwrap();
            let error = AgentRequest::read(method.to_owned(), Some(&params)).err()?;
            error.member("message")?.decode_string().map(Cow::into_owned)
        };
        for (method, params, expected) in [
            ("m", r#"{"a":1,"A":2}"#, "the parameters `a` and `A` differ only in case"),
            (
                "m",
                r#"{"URI":1,"x":0,"uri":2}"#,
                "the parameters `URI` and `uri` differ only in case",
            ),
            (
                "m",
                r#"{"ta\u017fk":1,"task":2}"#,
                "the parameters `ta\u{17f}k` and `task` differ only in case",
            ),
            ("m", r#"{"_Meta":{}}"#, "the parameter `_Meta` must be spelled `_meta`"),
            (
                "m",
                r#"{"RequestState":"x"}"#,
                "the parameter `RequestState` must be spelled `requestState`",
            ),
            ("tools/call", r#"{"NAME":"x"}"#, "the parameter `NAME` must be spelled `name`"),
            (
                "tools/call",
                r#"{"name":"x","Arguments":{}}"#,
                "the parameter `Arguments` must be spelled `arguments`",
            ),
            ("prompts/get", r#"{"Name":"x"}"#, "the parameter `Name` must be spelled `name`"),
            (
                "resources/read",
                r#"{"ur\u0130":"x"}"#,
                "the parameter `ur\u{130}` must be spelled `uri`",
            ),
            ("completion/complete", r#"{"Ref":{}}"#, "the parameter `Ref` must be spelled `ref`"),
            ("tasks/get", r#"{"taskID":"1"}"#, "the parameter `taskID` must be spelled `taskId`"),
            (
                "m",
                r#"{"_meta":{"ProgressToken":1}}"#,
                "the parameter `ProgressToken` must be spelled `progressToken`",
            ),
            ("m", r#"{"_meta":{"a":1,"A":2}}"#, "the parameters `a` and `A` differ only in case"),
        ] {
            assert_eq!(refusal(method, params).as_deref(), Some(expected), "{method} {params}");
        }
        for (method, params) in [
            ("acme/query", r#"{"Name":"x","Uri":"y"}"#),
            ("tools/call", r#"{"name":"x","arguments":{"a":1,"A":2},"Other":1}"#),
            ("tools/call", r#"{"name":"x","_meta":{"Example.com/a":1}}"#),
        ] {
            assert_eq!(refusal(method, params), None, "{method} {params}");
        }
    }

    #[test]
    fn progress_token_must_be_valid_unicode() {
        assert_eq!(refusal(r#"{"_meta":{"progressToken":"\ud83d\ude00"}}"#), None);
        let why = refusal(r#"{"_meta":{"progressToken":"\ud83d"}}"#).unwrap();
        assert_eq!(why, "`progressToken` is not valid Unicode");
    }
}
