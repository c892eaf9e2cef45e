//! Resources, prompts, completions and logs: what servers have besides tools.

use std::sync::Arc;

use serde_json::json;

use crate::backend::Outcome;
use crate::exposure::explain;
use crate::frontend::asked::{Answering, Asked, send};
use crate::frontend::calls::{Passed, context, pass};
use crate::frontend::era::harmless;
use crate::frontend::resolve;
use crate::frontend::session::Session;
use crate::gateway::{CallError, LogLevel};
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
            outcome = forward(&passed, &server, "uri", &own).await;
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
        match resolve::prompt(&passed, &name).await {
            Some((server, own)) => {
                let outcome = forward(&passed, &server, "name", &own).await;
                passed.exposure.with_addresses(&server, outcome)
            }
            None => unknown("prompt", name),
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
        let Some((server, own)) = found else {
            return unknown("prompt or resource template", reference.as_str().into_owned());
        };
        let reference = reference.with_member(key, &Raw::encode(&own)).unwrap_or(reference);
        forward_with(&passed, &server, "ref", &reference).await
    })
}

/// Makes the same request of a server, with the server's own name for what it is about.
async fn forward(passed: &Passed, server: &ServerRef, key: &str, own: &str) -> Outcome {
    forward_with(passed, server, key, &Raw::encode(&own)).await
}

async fn forward_with(passed: &Passed, server: &ServerRef, key: &str, value: &Raw) -> Outcome {
    let Passed { session, exposure, presence, asked, events } = passed;
    let params = asked.params.iter().map(|(name, given)| {
        (name.clone(), if name == key { value.clone() } else { given.clone() })
    });
    let params: Vec<_> = params.collect();
    let context = context(session, presence, &asked.meta, events);
    let outcome = exposure.gateway().request(server, &asked.method, &params, context).await;
    harmless(outcome.unwrap_or_else(|error| failed(&error)), asked.meta.is_modern)
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
    let found = resolve::known(session, &exposure, &asked.meta, &uri)?.into_iter().next();
    let (server, own) = found.ok_or_else(|| resolve::no_resource(&uri, false))?;
    let subscribed = exposure.gateway().subscribe(&server, &own, &uri, &presence).await;
    if matches!(subscribed, Ok(Outcome::Result(_))) {
        session.has_subscribed(&uri, true).await;
    }
    subscribed.map_err(|error| failed(&error))
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
