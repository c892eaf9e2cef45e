//! Resources, prompts, completions and logs: what servers have besides tools.

use std::sync::Arc;

use serde_json::json;

use crate::backend::Outcome;
use crate::exposure::explain;
use crate::frontend::asked::{Answering, Asked, send};
use crate::frontend::calls::{Passed, pass};
use crate::frontend::era::harmless;
use crate::frontend::resolve;
use crate::frontend::session::Session;
use crate::gateway::{CallError, Caller, Gateway, LogLevel, Presence};
use crate::name::ServerRef;
use crate::raw::{self, Raw};
use crate::wire::code::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::wire::incoming::{Reply, error_object};

/// Reads a resource.
pub(crate) fn read(session: Arc<Session>, asked: Asked, reply: Reply) -> Answering {
    let uri = match asked.text("uri") {
        Ok(uri) => uri,
        Err(refusal) => return Box::pin(send(reply, refusal)),
    };
    pass(session, asked, reply, move |passed| async move {
        if let Some(rest) = resolve::rest(&passed, &uri).await {
            return rest.map_or_else(
                |refusal| refusal,
                |rest| with_cache_hints(Outcome::Result(rest), passed.asked.meta.is_modern),
            );
        }
        let candidates = match resolve::resource(&passed, &uri).await {
            Ok(candidates) => candidates,
            Err(refusal) => return refusal,
        };
        let mut outcome = resolve::no_resource(&uri, passed.asked.meta.is_modern);
        for (server, own) in candidates {
            let answer = forward(&passed, &server, "uri", &own).await;
            outcome = answer.unwrap_or_else(|Forbidden| {
                resolve::no_resource(&uri, passed.asked.meta.is_modern)
            });
            if !resolve::is_missing(&outcome) {
                let outcome = resolve::with_uri(outcome, &own, &uri);
                return with_cache_hints(outcome, passed.asked.meta.is_modern);
            }
        }
        outcome
    })
}

/// Adds to what was read from a server of an older revision how long it holds, as the modern one
/// wants it (2026-07-28, server/utilities/caching): not at all, and for us alone.
fn with_cache_hints(outcome: Outcome, is_modern: bool) -> Outcome {
    let Outcome::Result(result) = &outcome else { return outcome };
    if !is_modern || result.member("resultType").is_some() {
        return outcome;
    }
    let (ttl, scope) = (Raw::encode(&0), Raw::encode(&"private"));
    let hints = [("ttlMs", &ttl), ("cacheScope", &scope)];
    let missing: Vec<_> =
        hints.into_iter().filter(|(key, _)| result.member(key).is_none()).collect();
    result.with_first(&missing).map_or(outcome, Outcome::Result)
}

/// Gets a prompt.
pub(crate) fn get_prompt(session: Arc<Session>, asked: Asked, reply: Reply) -> Answering {
    let name = match asked.text("name") {
        Ok(name) => name,
        Err(refusal) => return Box::pin(send(reply, refusal)),
    };
    pass(session, asked, reply, move |passed| async move {
        let Some((server, own)) = resolve::prompt(&passed, &name).await else {
            note_unknown_prompt(&passed, &name);
            return unknown("prompt", name);
        };
        match forward(&passed, &server, "name", &own).await {
            Ok(outcome) => passed.exposure.with_addresses(&server, outcome),
            Err(Forbidden) => unknown("prompt", name),
        }
    })
}

/// Completes an argument of a prompt or of a resource template.
pub(crate) fn complete(session: Arc<Session>, asked: Asked, reply: Reply) -> Answering {
    let Some(reference) = asked.param("ref").cloned() else {
        let error = error_object(INVALID_PARAMS, "`ref` is missing", None);
        return Box::pin(send(reply, Outcome::Error(error)));
    };
    pass(session, asked, reply, move |passed| async move {
        let text = |key| reference.member(key).and_then(|name| name.parse::<String>().ok());
        let (key, found) = match (text("name"), text("uri")) {
            (Some(name), _) => ("name", resolve::prompt(&passed, &name).await),
            (None, Some(uri)) => ("uri", resolve::template(&passed, &uri).await),
            (None, None) => ("name", None),
        };
        let nothing = || unknown("prompt or resource template", reference.as_str().into_owned());
        let Some((server, own)) = found else {
            if let Some(name) = text("name") {
                note_unknown_prompt(&passed, &name);
            }
            return nothing();
        };
        let own = reference.with_member(key, &Raw::encode(&own));
        let own = own.unwrap_or_else(|| reference.clone());
        let answer = forward_with(&passed, &server, "ref", &own).await;
        answer.unwrap_or_else(|Forbidden| nothing())
    })
}

/// The server has nothing of that name, or the agent may not know of it.
struct Forbidden;

/// Takes note of a prompt that the agent may not know of, if it has asked for one.
fn note_unknown_prompt(passed: &Passed, name: &str) {
    passed.exposure.gateway().note_unknown_prompt(name, &passed.context());
}

/// Makes the same request of a server, with the server's own name for what it is about.
async fn forward(
    passed: &Passed,
    server: &ServerRef,
    key: &str,
    own: &str,
) -> Result<Outcome, Forbidden> {
    forward_with(passed, server, key, &Raw::encode(&own)).await
}

async fn forward_with(
    passed: &Passed,
    server: &ServerRef,
    key: &str,
    value: &Raw,
) -> Result<Outcome, Forbidden> {
    let Passed { exposure, asked, .. } = passed;
    let params = asked.params.iter().map(|(name, given)| {
        (name.clone(), if name == key { value.clone() } else { given.clone() })
    });
    let params: Vec<_> = params.collect();
    let context = passed.context();
    let outcome = exposure.gateway().request(server, &asked.method, &params, &context).await;
    let outcome = match outcome {
        Err(CallError::UnknownPrimitive { .. }) => return Err(Forbidden),
        outcome => outcome.unwrap_or_else(|error| failed(&error)),
    };
    Ok(harmless(outcome, asked.meta.is_modern))
}

/// Turns what kept a request from its server into an error of the protocol.
pub(crate) fn failed(error: &CallError) -> Outcome {
    Outcome::Error(error_object(INTERNAL_ERROR, &explain(error), None))
}

fn unknown(what: &'static str, wanted: String) -> Outcome {
    let error = CallError::UnknownPrimitive { what, wanted };
    Outcome::Error(error_object(INVALID_PARAMS, &explain(&error), None))
}

/// Says what a legacy agent wants to hear of servers' logs.
pub(crate) async fn set_log_level(
    session: &Arc<Session>,
    asked: &Asked,
) -> Result<Outcome, Outcome> {
    let word = asked.text("level")?;
    let level = LogLevel::from_word(&word).ok_or_else(|| {
        let message = format!("there is no log level `{word}`");
        Outcome::Error(error_object(INVALID_PARAMS, &message, None))
    })?;
    let presence = session.presence(&asked.meta);
    presence.set_log(level);
    session.save().await;
    session.exposure(&asked.meta).gateway().pass_on_log_level(&presence).await;
    Ok(Outcome::Result(raw::object([])))
}

/// Hears of changes of a resource.
pub(crate) async fn subscribe(session: &Arc<Session>, asked: &Asked) -> Result<Outcome, Outcome> {
    let uri = asked.text("uri")?;
    let exposure = session.exposure(&asked.meta);
    let presence = session.presence(&asked.meta);
    let known = resolve::known(session, &exposure, &asked.meta, &uri)?;
    let subscriber = (&presence, session.caller());
    let subscribed = subscribe_at_first(exposure.gateway(), known, &uri, subscriber).await;
    match subscribed {
        Some(Ok(outcome)) => {
            if matches!(outcome, Outcome::Result(_)) {
                session.has_subscribed(&uri, true).await;
            }
            Ok(outcome)
        }
        None | Some(Err(CallError::UnknownPrimitive { .. })) => {
            Err(resolve::no_resource(&uri, false))
        }
        Some(Err(error)) => Err(failed(&error)),
    }
}

/// Subscribes at the first of these servers that may have the resource, as far as the agent may know;
/// `None`: there is none.
pub(crate) async fn subscribe_at_first(
    gateway: &Gateway,
    known: Vec<(ServerRef, String)>,
    uri: &str,
    subscriber: (&Presence, &Caller),
) -> Option<Result<Outcome, CallError>> {
    let mut last = None;
    for (server, own) in known {
        let subscribed = gateway.subscribe(&server, &own, uri, subscriber).await;
        let is_elsewhere = matches!(subscribed, Err(CallError::UnknownPrimitive { .. }));
        last = Some(subscribed);
        if !is_elsewhere {
            break;
        }
    }
    last
}

/// Takes that back.
pub(crate) async fn unsubscribe(session: &Arc<Session>, asked: &Asked) -> Result<Outcome, Outcome> {
    let uri = asked.text("uri")?;
    let exposure = session.exposure(&asked.meta);
    let presence = session.presence(&asked.meta);
    // What was switched off since can be let go all the same.
    for (server, own) in resolve::all_known(&exposure, &uri) {
        let gateway = exposure.gateway();
        gateway.unsubscribe(&server, &own, &presence).await.map_err(|error| failed(&error))?;
    }
    session.has_subscribed(&uri, false).await;
    Ok(Outcome::Result(Raw::encode(&json!({}))))
}
