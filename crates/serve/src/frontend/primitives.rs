//! Handlers for resources, prompts, completions and log levels.

use std::sync::Arc;

use serde_json::json;

use crate::exposure::error_text;
use crate::frontend::era::sanitize_outcome;
use crate::frontend::forwarding::{ForwardedRequest, forward};
use crate::frontend::name_resolution;
use crate::frontend::request::{AgentRequest, ResponseFuture, send};
use crate::frontend::session::AgentSession;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{
    AgentHandle, CallError, Caller, Gateway, LogLevel, RequestTarget,
};
use mcp_workbench_names::ServerRef;
use mcp_workbench_wire::code::{INTERNAL_ERROR, INVALID_PARAMS, UNAVAILABLE};
use mcp_workbench_wire::incoming::{Responder, error_object};
use mcp_workbench_wire::json::{self, RawJson};

/// Handles `resources/read`. Tries the candidate servers in order until one has the resource.
pub(crate) fn read(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
) -> ResponseFuture {
    let uri = match request.string_param("uri") {
        Ok(uri) => uri,
        Err(refusal) => return Box::pin(send(responder, refusal)),
    };
    forward(session, request, responder, move |passed| async move {
        if let Some(rest) = name_resolution::read_result_remainder(&passed, &uri).await {
            return rest.map_or_else(
                |refusal| refusal,
                |rest| with_cache_hints(RpcOutcome::Result(rest), passed.request.meta.is_modern),
            );
        }
        let candidates = match name_resolution::resolve_resource(&passed, &uri).await {
            Ok(candidates) => candidates,
            Err(refusal) => return refusal,
        };
        let mut outcome = name_resolution::resource_not_found(&uri, passed.request.meta.is_modern);
        for (server, own) in candidates {
            let target = RequestTarget::Resource(own.clone());
            let answer = relay(&passed, &server, &target).await;
            outcome = answer.unwrap_or_else(|NotVisible| {
                name_resolution::resource_not_found(&uri, passed.request.meta.is_modern)
            });
            if !name_resolution::is_missing(&outcome) {
                let outcome = name_resolution::with_uri(outcome, &own, &uri);
                return with_cache_hints(outcome, passed.request.meta.is_modern);
            }
        }
        outcome
    })
}

/// Adds the cache hints that the modern revision requires (2026-07-28, server/utilities/caching) to
/// results of legacy servers: not cacheable, and private.
fn with_cache_hints(outcome: RpcOutcome, is_modern: bool) -> RpcOutcome {
    let RpcOutcome::Result(result) = &outcome else { return outcome };
    if !is_modern || result.member("resultType").is_some() {
        return outcome;
    }
    let (ttl, scope) = (RawJson::encode(&0), RawJson::encode(&"private"));
    let hints = [("ttlMs", &ttl), ("cacheScope", &scope)];
    let missing: Vec<_> =
        hints.into_iter().filter(|(key, _)| result.member(key).is_none()).collect();
    RpcOutcome::from_edit(result.with_first(&missing))
}

pub(crate) fn get_prompt(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
) -> ResponseFuture {
    let name = match request.string_param("name") {
        Ok(name) => name,
        Err(refusal) => return Box::pin(send(responder, refusal)),
    };
    forward(session, request, responder, move |passed| async move {
        let Some((server, own)) = name_resolution::resolve_prompt(&passed, &name).await else {
            note_unknown_prompt(&passed, &name);
            return unknown("prompt", name);
        };
        match relay(&passed, &server, &RequestTarget::Prompt(own)).await {
            Ok(outcome) => passed.exposure.rewrite_uris(&server, outcome),
            Err(NotVisible) => unknown("prompt", name),
        }
    })
}

pub(crate) fn complete(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
) -> ResponseFuture {
    let reference = match CompletionRef::read(&request) {
        Ok(reference) => reference,
        Err(refusal) => return Box::pin(send(responder, refusal)),
    };
    forward(session, request, responder, move |passed| async move {
        let found = match &reference {
            CompletionRef::Prompt(name) => {
                let found = name_resolution::resolve_prompt(&passed, name).await;
                found.map(|(server, own)| (server, RequestTarget::PromptCompletion(own)))
            }
            CompletionRef::Resource(uri) => {
                let found = name_resolution::resolve_template(&passed, uri).await;
                found.map(|(server, own)| (server, RequestTarget::ResourceCompletion(own)))
            }
        };
        let nothing = || match &reference {
            CompletionRef::Prompt(name) => unknown("prompt", name.clone()),
            CompletionRef::Resource(uri) => unknown("resource template", uri.clone()),
        };
        let Some((server, target)) = found else {
            if let CompletionRef::Prompt(name) = &reference {
                note_unknown_prompt(&passed, name);
            }
            return nothing();
        };
        relay(&passed, &server, &target).await.unwrap_or_else(|NotVisible| nothing())
    })
}

/// The `ref` of a completion. Only its `type` decides which of its members counts.
enum CompletionRef {
    Prompt(String),
    Resource(String),
}

impl CompletionRef {
    fn read(request: &AgentRequest) -> Result<Self, RpcOutcome> {
        let invalid = |why: &str| RpcOutcome::Error(error_object(INVALID_PARAMS, why, None));
        let reference = request.param("ref").ok_or_else(|| invalid("`ref` is missing"))?;
        let text = |key: &str| Some(reference.member(key)?.decode_string()?.into_owned());
        let needed = |key: &str| {
            text(key).ok_or_else(|| invalid(&format!("`ref.{key}` is missing or not a string")))
        };
        match text("type").as_deref() {
            Some("ref/prompt") => Ok(Self::Prompt(needed("name")?)),
            Some("ref/resource") => Ok(Self::Resource(needed("uri")?)),
            _ => Err(invalid("`ref.type` must be `ref/prompt` or `ref/resource`")),
        }
    }
}

/// The server doesn't have the primitive, or the agent has no access to it.
struct NotVisible;

/// Reports a prompt that was withheld from the agent, if `name` is one.
fn note_unknown_prompt(passed: &ForwardedRequest, name: &str) {
    passed.exposure.gateway().access().record_denied_prompt(name, &passed.context());
}

async fn relay(
    passed: &ForwardedRequest,
    server: &ServerRef,
    target: &RequestTarget,
) -> Result<RpcOutcome, NotVisible> {
    let ForwardedRequest { exposure, request, .. } = passed;
    let context = passed.context();
    let outcome =
        exposure.gateway().calls().request(server, target, &request.params, &context).await;
    let outcome = match outcome {
        Err(CallError::UnknownPrimitive { .. }) => return Err(NotVisible),
        outcome => outcome.unwrap_or_else(|error| call_error_outcome(&error)),
    };
    Ok(sanitize_outcome(outcome, request.meta.is_modern))
}

pub(crate) fn call_error_outcome(error: &CallError) -> RpcOutcome {
    let code = match error {
        CallError::TooManySubscriptions(_) => UNAVAILABLE,
        _ => INTERNAL_ERROR,
    };
    RpcOutcome::Error(error_object(code, &error_text(error), None))
}

fn unknown(what: &'static str, wanted: String) -> RpcOutcome {
    let error = CallError::UnknownPrimitive { what, wanted };
    RpcOutcome::Error(error_object(INVALID_PARAMS, &error_text(&error), None))
}

/// Handles `logging/setLevel`, which only the legacy era has.
pub(crate) async fn set_log_level(
    session: &Arc<AgentSession>,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let word = request.string_param("level")?;
    let level = LogLevel::from_word(&word).ok_or_else(|| {
        let message = format!("unknown log level `{word}`");
        RpcOutcome::Error(error_object(INVALID_PARAMS, &message, None))
    })?;
    let agent = session.presence(&request.meta);
    agent.set_log_level(level);
    session.save().await;
    session.exposure(&request.meta).gateway().servers().pass_on_log_level(&agent).await;
    Ok(RpcOutcome::Result(json::object([])))
}

pub(crate) async fn subscribe(
    session: &Arc<AgentSession>,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let uri = request.string_param("uri")?;
    let exposure = session.exposure(&request.meta);
    let agent = session.presence(&request.meta);
    let known = name_resolution::resource_owners(session, &exposure, &request.meta, &uri)?;
    let subscriber = (&agent, session.caller());
    let subscribed = subscribe_at_first(exposure.gateway(), known, &uri, subscriber).await;
    match subscribed {
        Some(Ok(outcome)) => {
            if matches!(outcome, RpcOutcome::Result(_)) {
                session.record_subscription(&uri, true).await;
            }
            Ok(outcome)
        }
        None | Some(Err(CallError::UnknownPrimitive { .. })) => {
            Err(name_resolution::resource_not_found(&uri, false))
        }
        Some(Err(error)) => Err(call_error_outcome(&error)),
    }
}

/// Subscribes at the first server that has the resource. `None` without candidates.
pub(crate) async fn subscribe_at_first(
    gateway: &Gateway,
    known: Vec<(ServerRef, String)>,
    uri: &str,
    subscriber: (&AgentHandle, &Caller),
) -> Option<Result<RpcOutcome, CallError>> {
    let mut last = None;
    for (server, own) in known {
        let subscribed = gateway.calls().subscribe(&server, &own, uri, subscriber).await;
        let is_elsewhere = matches!(subscribed, Err(CallError::UnknownPrimitive { .. }));
        last = Some(subscribed);
        if !is_elsewhere {
            break;
        }
    }
    last
}

pub(crate) async fn unsubscribe(
    session: &Arc<AgentSession>,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let uri = request.string_param("uri")?;
    let exposure = session.exposure(&request.meta);
    let agent = session.presence(&request.meta);
    // Unsubscribing also works for resources deactivated since.
    for (server, own) in name_resolution::all_resource_owners(&exposure, &uri) {
        let gateway = exposure.gateway();
        gateway
            .calls()
            .unsubscribe(&server, &own, &agent)
            .await
            .map_err(|error| call_error_outcome(&error))?;
    }
    session.record_subscription(&uri, false).await;
    Ok(RpcOutcome::Result(RawJson::encode(&json!({}))))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn type_of_a_reference_decides_which_member_counts() {
        let read = |reference: &str| {
            let params = format!(r#"{{"ref":{reference}}}"#);
            let params: Box<RawValue> = serde_json::from_str(&params).unwrap();
            let request = AgentRequest::read(
                "completion/complete".to_owned(),
                Some(&RawJson::encode(&params)),
            );
            match CompletionRef::read(&request.ok().unwrap()) {
                Ok(CompletionRef::Prompt(name)) => Some(("prompt", name)),
                Ok(CompletionRef::Resource(uri)) => Some(("resource", uri)),
                Err(_) => None,
            }
        };
        for (reference, expected) in [
            (r#"{"type":"ref/prompt","name":"ok","uri":"file:///secret"}"#, Some(("prompt", "ok"))),
            (r#"{"type":"ref/resource","name":"ok","uri":"x://y"}"#, Some(("resource", "x://y"))),
            (r#"{"type":"ref/resource","\u0075ri":"a","uri":"b"}"#, Some(("resource", "a"))),
            (r#"{"type":"ref/resource","name":"ok"}"#, None),
            (r#"{"type":"ref/prompt","name":7,"uri":"x"}"#, None),
            (r#"{"type":"REF/PROMPT","name":"ok"}"#, None),
            (r#"{"type":["ref/prompt"],"name":"ok"}"#, None),
            (r#"{"name":"ok"}"#, None),
            (r#""ok""#, None),
        ] {
            let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
            assert_eq!(read(reference), expected, "{reference}");
        }
    }
}
