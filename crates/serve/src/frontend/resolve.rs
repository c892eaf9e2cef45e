//! The owners of resources and prompts, found by the names that an agent knows.

use serde::Deserialize;

use crate::backend::Outcome;
use crate::exposure::{Chosen, Exposure, Refusal, Surface};
use crate::frontend::calls::Passed;
use crate::frontend::era::RequestMeta;
use crate::frontend::session::Session;
use crate::gateway::Snapshot;
use crate::name::{ServerRef, has_our_scheme};
use crate::raw::{self, Raw};
use crate::toolbox::Kind;
use crate::wire::code::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::wire::incoming::error_object;

/// The servers that may have a resource, most likely first, each with its own address for it.
/// Where everything is shown, everything is listed first.
pub(crate) async fn resource(
    passed: &Passed,
    uri: &str,
) -> Result<Vec<(ServerRef, String)>, Outcome> {
    start_everything(passed).await;
    run_everything_unless(passed, |snapshot| snapshot.uris().resolve(uri).is_some()).await;
    known(&passed.session, &passed.exposure, &passed.asked.meta, uri)
}

/// The rest of a result that was too long, if that is what is to be read; an error is the answer
/// where there is no such primitive for this agent.
pub(crate) async fn rest(passed: &Passed, uri: &str) -> Option<Result<Raw, Outcome>> {
    let Passed { session, exposure, asked, .. } = passed;
    if exposure.stands_for_server() {
        // Nothing is cut here, so the address is one of the server, which may be a workbench too.
        return None;
    }
    let found = exposure.gateway().read_rest(uri, &passed.context()).await?;
    Some(found.ok_or_else(|| {
        let refusal = known(session, exposure, &asked.meta, uri).err();
        refusal.unwrap_or_else(|| no_resource(uri, asked.meta.is_modern))
    }))
}

/// The servers that a known address may lead to now; an error is the answer to an address that the
/// agent may not read.
pub(crate) fn known(
    session: &Session,
    exposure: &Exposure,
    meta: &RequestMeta,
    uri: &str,
) -> Result<Vec<(ServerRef, String)>, Outcome> {
    let (chosen, _) = session.chosen();
    match exposure.addressed(uri, meta.surface(), &chosen) {
        None => Ok(in_views(exposure, uri)),
        Some(Ok(found)) => Ok(found),
        Some(Err(Refusal { message, data })) => {
            let code = if meta.is_modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
            Err(Outcome::Error(error_object(code, &message, Some(&data))))
        }
    }
}

/// The servers that a known address may lead to, including those that the agent may not read now.
pub(crate) fn all_known(exposure: &Exposure, uri: &str) -> Vec<(ServerRef, String)> {
    let all = exposure.addressed(uri, Surface::Constant, &Chosen::default());
    all.map_or_else(|| in_views(exposure, uri), Result::unwrap_or_default)
}

/// The servers that give this address themselves.
fn in_views(exposure: &Exposure, uri: &str) -> Vec<(ServerRef, String)> {
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    if let Some(primitive) = snapshot.uris().resolve(uri) {
        return vec![(primitive.server_ref.clone(), primitive.name.clone())];
    }
    // An address of ours means the server in it, whether or not that runs, and no other.
    if has_our_scheme(uri) {
        return gateway.addressed(uri).into_iter().collect();
    }
    let running = gateway.running();
    // It may be made of a template, or have been told in a result alone.
    let mut likely = Vec::new();
    let mut others = Vec::new();
    for server_ref in running {
        let view = snapshot.view(&server_ref.toolbox);
        let Some(part) = view.part(server_ref.server.as_str()) else { continue };
        if part.templates().iter().any(|template| template.may_have_made(uri)) {
            likely.push((server_ref, uri.to_owned()));
        } else if part.abilities().is_some_and(|abilities| abilities.resources.is_some()) {
            others.push((server_ref, uri.to_owned()));
        }
    }
    likely.extend(others);
    likely
}

/// The server that has a prompt, and its own name for it.
pub(crate) async fn prompt(passed: &Passed, name: &str) -> Option<(ServerRef, String)> {
    start_everything(passed).await;
    passed.exposure.find(Kind::Prompt, name)
}

/// The server that has a resource template, and its own spelling of it.
pub(crate) async fn template(passed: &Passed, uri: &str) -> Option<(ServerRef, String)> {
    start_everything(passed).await;
    run_everything_unless(passed, |snapshot| snapshot.templates().resolve(uri).is_some()).await;
    let found = passed.exposure.find(Kind::Template, uri);
    let by_address = || {
        let Passed { session, exposure, asked, .. } = passed;
        known(session, exposure, &asked.meta, uri).ok()?.into_iter().next()
    };
    found.or_else(by_address)
}

async fn start_everything(passed: &Passed) {
    passed.exposure.start_everything(&passed.presence).await;
}

/// Lets every server run where everything is shown and the snapshot does not say whom to ask:
/// among those that run is looked for whose it may be.
async fn run_everything_unless(passed: &Passed, is_known: impl Fn(&Snapshot) -> bool) {
    if !is_known(&passed.exposure.gateway().snapshot()) {
        passed.exposure.run_everything(&passed.presence).await;
    }
}

/// The answer to a request for a resource that nobody has.
pub(crate) fn no_resource(uri: &str, is_modern: bool) -> Outcome {
    let code = if is_modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    let data = raw::object([("uri", &Raw::encode(&uri))]);
    let message = format!("there is no resource `{uri}`");
    Outcome::Error(error_object(code, &message, Some(&data)))
}

/// Returns `true` if a server says that it has no such resource.
pub(crate) fn is_missing(outcome: &Outcome) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }

    let Outcome::Error(error) = outcome else { return false };
    let code = error.parse::<Code>().map(|error| error.code);
    matches!(code, Ok(RESOURCE_NOT_FOUND | INVALID_PARAMS))
}

/// A resource that was read, under the address that the agent asked for.
pub(crate) fn with_uri(outcome: Outcome, own: &str, asked: &str) -> Outcome {
    if own == asked {
        return outcome;
    }
    let Outcome::Result(result) = &outcome else { return outcome };
    let changed = || {
        let contents = result.member("contents")?.items()?;
        let contents: Vec<_> = contents
            .into_iter()
            .map(|content| {
                let uri: Option<String> = content.member("uri").and_then(|uri| uri.parse().ok());
                let is_it = uri.is_some_and(|uri| uri == own);
                let changed = is_it.then(|| content.with_member("uri", &Raw::encode(&asked)));
                changed.flatten().unwrap_or(content)
            })
            .collect();
        result.with_member("contents", &raw::array(&contents))
    };
    changed().map_or(outcome, Outcome::Result)
}
