//! Access control for resources, prompts and completions.
//!
//! If rules or the lock hide some resources of a server, the server's own error for a missing
//! resource would let an agent tell hidden ones from missing ones. Such errors are replaced by the
//! gateway's own.

use std::sync::Arc;

use crate::backend::{AgentHandle, RpcOutcome};
use crate::catalog::Listing;
use crate::gateway::error::server_error;
use crate::gateway::{CallError, Caller, Gateway, RequestContext};
use crate::json::{self, RawJson};
use crate::name::{ServerRef, namespaced_name};
use crate::policy::{Admission, Denial};
use crate::telemetry::{PrimitiveReadGuard, ReadableKind};

/// Error code of a URL elicitation (MCP 2025-11-25, client/elicitation).
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

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
    pub(crate) fn read_primitive(&self) -> Option<(ReadableKind, &str)> {
        match self {
            Self::Resource(uri) => Some((ReadableKind::Resource, uri)),
            Self::Prompt(name) => Some((ReadableKind::Prompt, name)),
            Self::ResourceCompletion(_) | Self::PromptCompletion(_) | Self::Task(_) => None,
        }
    }
}

fn unknown(what: &'static str, wanted: &str) -> CallError {
    CallError::UnknownPrimitive { what, wanted: wanted.to_owned() }
}

impl Gateway {
    /// Decides on a request. Starts the server if its listing is needed and unknown.
    pub(crate) async fn admit(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        context: &RequestContext<'_>,
        mut read: Option<&mut PrimitiveReadGuard<'_>>,
    ) -> Result<Admission, CallError> {
        let is_of_resource =
            matches!(target, RequestTarget::Resource(_) | RequestTarget::ResourceCompletion(_));
        if is_of_resource && self.policy.restricts_resources(at) {
            let server = self.require_server(at)?;
            if self.snapshot().version(server.shared.id()) == 0 {
                self.ensure_server_listed(at, server, context).await?;
            }
            // A server that isn't opened has no listing to decide by.
            self.snapshot().check_open(at)?;
            if let RequestTarget::ResourceCompletion(uri) = target {
                self.check_completed(at, uri)?;
            }
        }
        let decided = self.decide_on(at, target);
        let denial = match decided {
            Ok(admission) => return Ok(admission),
            Err(denial) => denial,
        };
        if let Some(read) = &mut read {
            read.set_rule(denial.rule().map(ToString::to_string));
        }
        let (what, name, error) = match target {
            RequestTarget::Task(_) => return Err(unknown_server(at)),
            _ if denial.rule().is_none() => return Err(unknown_server(at)),
            RequestTarget::Resource(uri) => (ReadableKind::Resource, uri, unknown("resource", uri)),
            RequestTarget::ResourceCompletion(uri) => {
                (ReadableKind::Resource, uri, unknown("resource template", uri))
            }
            RequestTarget::Prompt(name) | RequestTarget::PromptCompletion(name) => {
                (ReadableKind::Prompt, name, unknown("prompt", name))
            }
        };
        if read.is_none() {
            self.instrumentation.note_denied(at, what, name, &denial, context);
        }
        Err(error)
    }

    /// Rejects the completion of unlisted templates. A server completes any URI, so its values
    /// would disclose hidden resources.
    pub(crate) fn check_completed(&self, at: &ServerRef, uri: &str) -> Result<(), CallError> {
        let is_shown = lists_uri(&self.shown_listing(at), uri);
        if is_shown { Ok(()) } else { Err(unknown("resource template", uri)) }
    }

    fn decide_on(&self, at: &ServerRef, target: &RequestTarget) -> Result<Admission, Denial> {
        match target {
            RequestTarget::Resource(uri) | RequestTarget::ResourceCompletion(uri) => {
                self.policy.admit_resource(at, uri, &self.shown_listing(at))
            }
            RequestTarget::Prompt(name) | RequestTarget::PromptCompletion(name) => {
                self.policy.admit_prompt(at, name)
            }
            RequestTarget::Task(_) => self.policy.admit(&at.toolbox, &at.server),
        }
    }

    /// Replaces a server's error about an unlisted resource if some of its resources are hidden.
    pub(crate) async fn mask_missing_resource(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        passed: Result<RpcOutcome, CallError>,
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let Ok(RpcOutcome::Error(error)) = &passed else { return passed };
        let (what, uri) = match target {
            RequestTarget::Resource(uri) => ("resource", uri),
            RequestTarget::ResourceCompletion(uri) => ("resource template", uri),
            RequestTarget::Prompt(_)
            | RequestTarget::PromptCompletion(_)
            | RequestTarget::Task(_) => return passed,
        };
        let asks =
            error.member("code").is_some_and(|code| code.as_bytes() == URL_ELICITATION_REQUIRED);
        if asks || lists_uri(&self.shown_listing(at), uri) {
            return passed;
        }
        let is_kept_back = self.policy.restricts_resources(at)
            || Box::pin(self.has_withheld_resources(at, context)).await;
        if !is_kept_back {
            return passed;
        }
        tracing::debug!(server = %at.server, uri, "replaced an error about a hidden resource: {}", error.as_str());
        Err(unknown(what, uri))
    }

    /// Returns the visible listing of a server; empty if it is unknown or hidden.
    fn shown_listing(&self, at: &ServerRef) -> Arc<Listing> {
        let view = self.snapshot().view(&at.toolbox);
        view.part(at.server.as_str()).map(|part| Arc::clone(part.listing())).unwrap_or_default()
    }

    /// Subscribes an agent to a resource, which it knows as `as_known`.
    pub async fn subscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        as_known: &str,
        (agent, caller): (&AgentHandle, &Caller),
    ) -> Result<RpcOutcome, CallError> {
        let (server, target) = (self.require_server(at)?, RequestTarget::Resource(uri.to_owned()));
        let context = RequestContext { caller, ..RequestContext::detached(agent) };
        let admission = self.admit(at, &target, &context, None).await?;
        self.check_definitions(at, &target, &context).await?;
        let backend = server.backend(agent, &self.pool).map_err(|error| server_error(at, error))?;
        let limits = &self.config.limits.per_caller;
        let subscribed = backend.subscribe(&admission, agent, (uri, as_known), limits).await?;
        let subscribed = subscribed.map_err(|error| server_error(at, error));
        self.mask_missing_resource(at, &target, subscribed, &context).await
    }

    pub(crate) fn admit_subscription(&self, at: &ServerRef, uri: &str) -> Option<Admission> {
        self.decide_on(at, &RequestTarget::Resource(uri.to_owned())).ok()
    }

    /// Records a denial if the prompt with this name exists and a rule hides it.
    pub fn record_denied_prompt(&self, wanted: &str, context: &RequestContext<'_>) {
        let snapshot = self.snapshot();
        for part in snapshot.parts() {
            let at = &part.server_ref;
            let toolbox = self.config.toolbox(at.toolbox.as_str());
            let namespace = toolbox.map(|toolbox| &*toolbox.namespace).unwrap_or_default();
            let is_meant = |own: &str| {
                own == wanted
                    || namespaced_name(namespace, own) == wanted
                    || snapshot.full_prompt(at, own) == wanted
            };
            for prompt in part.listing().prompts.iter().filter(|prompt| is_meant(&prompt.name)) {
                if let Err(denial) = self.policy.admit_prompt(at, &prompt.name) {
                    self.instrumentation.note_denied(
                        at,
                        ReadableKind::Prompt,
                        &prompt.name,
                        &denial,
                        context,
                    );
                    return;
                }
            }
        }
    }
}

fn unknown_server(at: &ServerRef) -> CallError {
    CallError::UnknownServer {
        toolbox: at.toolbox.clone(),
        wanted: at.server.to_string(),
        known: Vec::new(),
    }
}

fn lists_uri(listing: &Listing, uri: &str) -> bool {
    listing.resources.iter().any(|resource| resource.uri == uri)
        || listing.templates.iter().any(|template| template.uri == uri)
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
