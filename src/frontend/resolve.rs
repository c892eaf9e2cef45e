//! Whose resource or prompt is meant, from the name that an agent knows it by.

use serde::Deserialize;

use crate::backend::Outcome;
use crate::exposure::Exposure;
use crate::frontend::calls::Passed;
use crate::gateway::Snapshot;
use crate::name::{Place, uri_prefix};
use crate::raw::{self, Raw};
use crate::wire::incoming::error_object;

/// MCP to 2025-11-25: there is no such resource.
const RESOURCE_NOT_FOUND: i64 = -32002;
/// JSON-RPC: the parameters are not what the method takes; in MCP 2026-07-28 also for resources.
const INVALID_PARAMS: i64 = -32602;

/// The servers that may have a resource, most likely first, each with its own address for it.
/// Where everything is shown, everything is listed first.
pub(crate) async fn resource(passed: &Passed, uri: &str) -> Vec<(Place, String)> {
    start_all_if_direct(passed).await;
    run_all_unless_known(passed, |snapshot| snapshot.uris().resolve(uri).is_some()).await;
    in_snapshot(&passed.exposure, uri)
}

/// The same of what is known now.
pub(crate) fn in_snapshot(exposure: &Exposure, uri: &str) -> Vec<(Place, String)> {
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    if let Some(thing) = snapshot.uris().resolve(uri) {
        return vec![(thing.place.clone(), thing.name.clone())];
    }
    let running = gateway.running();
    for place in &running {
        if let Some(own) = uri.strip_prefix(&uri_prefix(place)) {
            return vec![(place.clone(), own.to_owned())];
        }
    }
    // It may be made of a template, or have been told in a result alone.
    let mut likely = Vec::new();
    let mut others = Vec::new();
    for place in running {
        let view = snapshot.view(&place.toolbox);
        let mut templates = view.templates.iter().filter(|t| t.server == place.server);
        let abilities = view.abilities.iter().find(|(server, _)| *server == place.server);
        if templates.any(|template| fits(&template.definition.uri, uri)) {
            likely.push((place, uri.to_owned()));
        } else if abilities.is_some_and(|(_, abilities)| abilities.resources.is_some()) {
            others.push((place, uri.to_owned()));
        }
    }
    likely.extend(others);
    likely
}

/// The server that has a prompt, and its own name for it.
pub(crate) async fn prompt(passed: &Passed, name: &str) -> Option<(Place, String)> {
    start_all_if_direct(passed).await;
    let snapshot = passed.exposure.gateway().snapshot();
    snapshot.prompts().resolve(name).map(|thing| (thing.place.clone(), thing.name.clone()))
}

/// The server that has a resource template, and its own spelling of it.
pub(crate) async fn template(passed: &Passed, uri: &str) -> Option<(Place, String)> {
    start_all_if_direct(passed).await;
    run_all_unless_known(passed, |snapshot| snapshot.templates().resolve(uri).is_some()).await;
    let snapshot = passed.exposure.gateway().snapshot();
    let template = snapshot.templates().resolve(uri);
    let found = template.map(|thing| (thing.place.clone(), thing.name.clone()));
    found.or_else(|| in_snapshot(&passed.exposure, uri).into_iter().next())
}

async fn start_all_if_direct(passed: &Passed) {
    if passed.exposure.is_direct() {
        passed.exposure.gateway().start_all(&passed.presence).await;
    }
}

/// Lets every server run where everything is shown and the snapshot does not say whom to ask:
/// among those that run is looked for whose it may be.
async fn run_all_unless_known(passed: &Passed, is_known: impl Fn(&Snapshot) -> bool) {
    let gateway = passed.exposure.gateway();
    if passed.exposure.is_direct() && !is_known(&gateway.snapshot()) {
        gateway.run_all(&passed.presence).await;
    }
}

/// Whether an address may have been made of a template (RFC 6570): the text between its
/// expressions has to be there.
fn fits(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let Some(mut rest) = parts.next().and_then(|first| uri.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let Some((_, text)) = part.split_once('}') else { return false };
        if parts.peek().is_none() {
            return rest.ends_with(text);
        }
        let Some(at) = rest.find(text) else { return false };
        rest = &rest[at + text.len()..];
    }
    false
}

/// The answer to a request for a resource that nobody has.
pub(crate) fn no_resource(uri: &str, is_modern: bool) -> Outcome {
    let code = if is_modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    let data = raw::object([("uri", &Raw::encode(&uri))]);
    let message = format!("there is no resource `{uri}`");
    Outcome::Error(error_object(code, &message, Some(&data)))
}

/// Whether a server says that it has no such resource.
pub(crate) fn is_missing(outcome: &Outcome) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }

    let Outcome::Error(error) = outcome else { return false };
    let code = error.parse::<Code>().map(|error| error.code);
    matches!(code, Ok(RESOURCE_NOT_FOUND | INVALID_PARAMS))
}

/// What was read under the address that the agent asked for.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_the_template_it_was_made_of() {
        assert!(fits("test://template/{id}/data", "test://template/12/data"));
        assert!(fits("file:///{+path}", "file:///a/b.txt"));
        assert!(fits("db://rows{?limit,offset}", "db://rows?limit=3"));
        assert!(!fits("test://template/{id}/data", "test://template/12"));
        assert!(!fits("a.c/{x}", "abc/1"));
        assert!(!fits("broken{x", "broken"));
    }
}
