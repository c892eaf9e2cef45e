//! Targets of requests other than tool calls.

use crate::catalog::PrimitiveKind;
use mcp_workbench_wire::json::{self, RawJson};

/// The methods about tasks, the only requests besides those about primitives and tools.
const TASK_METHODS: [&str; 5] =
    ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"];

/// A request other than a tool call, with the server's own name of the primitive that it is about.
/// One value is judged and sent, so that a server can't read another name than policy did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    Resource(String),
    /// Completion of an argument of a resource template.
    ResourceCompletion(String),
    Prompt(String),
    PromptCompletion(String),
    /// A request about tasks, by its method.
    Task(&'static str),
}

impl RequestTarget {
    /// Returns the target of a request about tasks; `None` if MCP has no such method.
    pub fn of_task_method(method: &str) -> Option<Self> {
        TASK_METHODS.into_iter().find(|known| *known == method).map(Self::Task)
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Resource(_) => "resources/read",
            Self::Prompt(_) => "prompts/get",
            Self::ResourceCompletion(_) | Self::PromptCompletion(_) => "completion/complete",
            Self::Task(method) => method,
        }
    }

    /// Returns the parameter that identifies the primitive.
    fn identity(&self) -> Option<(&'static str, RawJson)> {
        let reference = |kind: &str, key: &'static str, name: &str| {
            let (kind, name) = (RawJson::from_text(kind), RawJson::from_text(name));
            Some(("ref", json::object([("type", &kind), (key, &name)])))
        };
        match self {
            Self::Resource(uri) => Some(("uri", RawJson::from_text(uri))),
            Self::Prompt(name) => Some(("name", RawJson::from_text(name))),
            Self::ResourceCompletion(uri) => reference("ref/resource", "uri", uri),
            Self::PromptCompletion(name) => reference("ref/prompt", "name", name),
            Self::Task(_) => None,
        }
    }

    /// Returns the parameters to send: `given`, with the identity of the target.
    pub(crate) fn with_identity(&self, given: &[json::Member]) -> Vec<json::Member> {
        let Some((key, own)) = self.identity() else { return given.to_vec() };
        let others = given.iter().filter(|(name, _)| name != key).cloned();
        [(key.into(), own)].into_iter().chain(others).collect()
    }

    /// Returns the kind and the name of the primitive that the request reads, if it reads one.
    pub(crate) fn read_primitive(&self) -> Option<(PrimitiveKind, &str)> {
        match self {
            Self::Resource(uri) => Some((PrimitiveKind::Resource, uri)),
            Self::Prompt(name) => Some((PrimitiveKind::Prompt, name)),
            Self::ResourceCompletion(_) | Self::PromptCompletion(_) | Self::Task(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn sent(target: &RequestTarget, given: &str) -> String {
        let given: Box<RawValue> = serde_json::from_str(given).unwrap();
        let params = target.with_identity(&RawJson::encode(&given).members().unwrap());
        json::object(params.iter().map(|(key, value)| (&**key, value))).as_str().into_owned()
    }

    #[test]
    fn only_the_judged_identity_is_sent() {
        let own = || "own".to_owned();
        for (target, given, expected) in [
            (
                RequestTarget::Resource(own()),
                r#"{"uri":"a","x":1.50,"\u0075ri":"file:///secret","uri":7}"#,
                r#"{"uri":"own","x":1.50}"#,
            ),
            (
                RequestTarget::Prompt(own()),
                r#"{"arguments":{"n":1.0},"name":"a","name":"b"}"#,
                r#"{"name":"own","arguments":{"n":1.0}}"#,
            ),
            (
                RequestTarget::PromptCompletion(own()),
                r#"{"argument":{"name":"a","value":""},"ref":{"type":"ref/resource","name":"own","uri":"x"}}"#,
                r#"{"ref":{"type":"ref/prompt","name":"own"},"argument":{"name":"a","value":""}}"#,
            ),
            (
                RequestTarget::ResourceCompletion(own()),
                r#"{"ref":{"type":"ref/prompt","name":"b"},"ref":{"type":"ref/resource","uri":"x"}}"#,
                r#"{"ref":{"type":"ref/resource","uri":"own"}}"#,
            ),
        ] {
            assert_eq!(sent(&target, given), expected, "{given}");
        }
    }

    #[test]
    fn only_known_methods_about_tasks_are_forwarded() {
        for method in TASK_METHODS {
            let target = RequestTarget::of_task_method(method).unwrap();
            assert_eq!(
                (target.method(), sent(&target, r#"{"taskId":"1"}"#)),
                (method, r#"{"taskId":"1"}"#.to_owned())
            );
        }
        for method in ["tasks/run", "tasks/", "Tasks/get", "tasks", "tools/call"] {
            assert_eq!(RequestTarget::of_task_method(method), None, "{method}");
        }
    }
}
