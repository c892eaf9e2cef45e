//! Lists and calls of tools: from an agent's raw request to its raw answer.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::backend::Outcome;
use crate::exposure::{Reply, Request};
use crate::frontend::era::{RequestMeta, fit_result};
use crate::frontend::session::Session;
use crate::gateway::Origin;
use crate::raw::{self, Raw};
use crate::wire::Closed;
use crate::wire::agent::{self, error_object};

/// JSON-RPC: the parameters are not what the method takes.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: something went wrong behind us.
const INTERNAL_ERROR: i64 = -32603;
/// How many progress notifications of one call may wait for the agent to take them.
const PROGRESS_QUEUE: usize = 64;

/// Answers one request of the relay lane; returns when the answer is written, or at once when
/// the agent cancels the request.
pub(crate) async fn answer(session: Arc<Session>, request: agent::Request) {
    let agent::Request { method, params, reply } = request;
    let is_list = method == "tools/list";
    let outcome = if is_list {
        list(&session, params, reply).await
    } else {
        call(&session, params, reply).await
    };
    if outcome.is_err() {
        tracing::debug!(method, "the agent left before its answer");
    }
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// What of a request's `params` we look at; an error is the error object to answer with.
struct Parsed {
    name: Option<String>,
    arguments: Option<Raw>,
    meta: RequestMeta,
}

fn parse(params: Option<Raw>) -> Result<Parsed, Raw> {
    let bytes = params.map(Raw::into_bytes).unwrap_or_default();
    let params: Params<'_> = if bytes.is_empty() {
        Params::default()
    } else {
        serde_json::from_slice(&bytes).map_err(|error| {
            error_object(INVALID_PARAMS, &format!("the parameters cannot be read: {error}"), None)
        })?
    };
    // serde also takes an array for a struct.
    if bytes.first() == Some(&b'[') {
        return Err(error_object(INVALID_PARAMS, "the parameters are not an object", None));
    }
    let meta = params.meta.map(|meta| Raw::slice_of(&bytes, meta));
    Ok(Parsed {
        name: params.name.map(Cow::into_owned),
        arguments: params.arguments.map(|arguments| Raw::slice_of(&bytes, arguments)),
        meta: RequestMeta::read(meta.as_ref())?,
    })
}

async fn list(session: &Session, params: Option<Raw>, reply: agent::Reply) -> Result<(), Closed> {
    let meta = match parse(params) {
        Ok(parsed) => parsed.meta,
        Err(error) => return reply.error(error).await,
    };
    let (opened, version) = session.opened();
    let tools = session.exposure().tools(meta.surface(), &opened);
    let mut members = vec![("tools", raw::array(&tools))];
    if meta.is_modern {
        // Clients of the modern revision would keep the list this long (server/utilities/caching).
        members.push(("ttlMs", Raw::encode(&0)));
        members.push(("cacheScope", Raw::encode(&"private")));
    }
    let result = raw::object(members.iter().map(|(key, value)| (*key, value)));
    reply.result(fit_result(result, meta.is_modern)).await?;
    if !meta.is_modern {
        session.has_listed(version);
    }
    Ok(())
}

async fn call(session: &Session, params: Option<Raw>, reply: agent::Reply) -> Result<(), Closed> {
    let Parsed { name, arguments, meta } = match parse(params) {
        Ok(parsed) => parsed,
        Err(error) => return reply.error(error).await,
    };
    let Some(name) = name else {
        return reply.error(error_object(INVALID_PARAMS, "`name` is missing", None)).await;
    };
    let (progress, mut progressed) = mpsc::channel(PROGRESS_QUEUE);
    let request = Request {
        name: &name,
        arguments: arguments.as_ref(),
        origin: Origin {
            meta: &meta.passed_on,
            progress: meta.progress_token.is_some().then_some(&progress),
        },
        surface: meta.surface(),
    };
    let work = async {
        let Reply { outcome, opened, awaits_relisting } = session.exposure().call(request).await;
        if let Some(toolbox) = opened
            && !meta.is_modern
        {
            session.open(toolbox, awaits_relisting).await;
        }
        outcome
    };
    tokio::pin!(work);
    let outcome = loop {
        tokio::select! {
            biased;
            () = reply.cancelled() => return Ok(()),
            Some(params) = progressed.recv() => pass_on(&reply, &meta, params).await?,
            outcome = &mut work => break outcome,
        }
    };
    while let Ok(params) = progressed.try_recv() {
        pass_on(&reply, &meta, params).await?;
    }
    match outcome {
        Outcome::Result(result) => reply.result(fit_result(result, meta.is_modern)).await,
        Outcome::Error(error) => reply.error(harmless(error)).await,
    }
}

/// Passes a progress notification on under the agent's own token.
async fn pass_on(reply: &agent::Reply, meta: &RequestMeta, params: Raw) -> Result<(), Closed> {
    let Some(token) = &meta.progress_token else {
        return Ok(());
    };
    let params = params.with_member("progressToken", token).unwrap_or(params);
    reply.notify("notifications/progress", params).await
}

/// A server's error object as it is, but for codes that speak of the connection: they would make
/// the agent renegotiate with us what concerns the server alone.
fn harmless(error: Raw) -> Raw {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }

    match error.parse::<Code>() {
        Ok(Code { code: -32601 | -32022..=-32020 }) => error_object(
            INTERNAL_ERROR,
            "the server answered with an error of the protocol",
            Some(&raw::object([("error", &error)])),
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_an_object() {
        assert!(parse(Some(Raw::encode(&json!({"name": "x"})))).is_ok());
        assert!(parse(Some(Raw::encode(&json!(["x"])))).is_err());
        assert!(parse(Some(Raw::encode(&json!("x")))).is_err());
    }

    #[test]
    fn errors_pass_as_they_are_but_for_those_of_the_connection() {
        let own = Raw::encode(&json!({"code": -32050, "message": "m", "data": {"x": 1.0}}));
        assert_eq!(harmless(own.clone()), own);
        for code in [-32601, -32020, -32021, -32022] {
            let error = Raw::encode(&json!({"code": code, "message": "m"}));
            let told = harmless(error).parse::<serde_json::Value>().unwrap();
            assert_eq!(told["code"], -32603);
            assert_eq!(told["data"]["error"]["code"], code);
        }
    }
}
