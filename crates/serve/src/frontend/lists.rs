//! Lists of what there is, each in one page: there are clients that read no second one.

use std::sync::Arc;

use crate::backend::{Outcome, events};
use crate::exposure::{Chosen, Exposure, Surface};
use crate::frontend::asked::Asked;
use crate::frontend::calls;
use crate::frontend::era::fit_result;
use crate::frontend::session::{Making, Session};
use crate::gateway::Snapshot;
use crate::name::{ServerName, ServerRef, UniqueNames};
use crate::raw::{self, Raw};
use crate::state::Listings;
use crate::toolbox::{Kind, View};
use crate::wire::incoming::Reply;

/// How much of what is told while servers start may wait for the agent to take it.
const EVENTS: usize = 16;

/// The tools that the agent sees.
pub(crate) async fn tools(session: &Session, asked: &Asked, reply: Reply) {
    let exposure = session.exposure(&asked.meta);
    let making = session.makes_list();
    if exposure.tries_servers() {
        try_servers(session, &exposure, asked, &reply).await;
    }
    begin(session, &exposure, asked, Some(&making)).await;
    if exposure.tells_of_known_tools() {
        exposure.gateway().recalled().await;
    }
    let (chosen, version) = session.chosen();
    let tools = exposure.tools(asked.meta.surface(), &chosen);
    if !asked.meta.is_modern {
        session.gives(&exposure, &tools);
    }
    drop(making);
    if reply.answer_written(list("tools", &tools, asked)).await.is_err() {
        tracing::debug!("the agent left before its answer");
    }
    if !asked.meta.is_modern {
        session.has_listed(version).await;
    }
}

/// The resources of the toolboxes that the agent sees.
pub(crate) async fn resources(session: &Session, asked: &Asked) -> Result<Outcome, Outcome> {
    let exposure = session.exposure(&asked.meta);
    begin(session, &exposure, asked, None).await;
    let resources = all_resources(&exposure, asked.meta.surface(), &session.chosen().0);
    has_given(session, asked, |given| &mut given.resources, &resources).await;
    Ok(list("resources", &resources, asked))
}

/// The resources that an agent sees which has made these choices.
pub(crate) fn all_resources(exposure: &Exposure, surface: Surface, chosen: &Chosen) -> Vec<Raw> {
    entries(exposure, Kind::Resource, (surface, chosen), |snapshot, view, server_ref| {
        let resources = view.resources();
        let resources = resources.map(|r| (r.server, &r.definition.uri, &r.definition.raw));
        let exposed = |at: &ServerRef, uri: &str| snapshot.exposed_uri(at, uri);
        unique(resources, server_ref, "uri", snapshot.uris(), exposed)
    })
}

/// The resource templates of the toolboxes that the agent sees.
pub(crate) async fn templates(session: &Session, asked: &Asked) -> Result<Outcome, Outcome> {
    let exposure = session.exposure(&asked.meta);
    begin(session, &exposure, asked, None).await;
    let (chosen, _) = session.chosen();
    let seen = (asked.meta.surface(), &*chosen);
    let templates = entries(&exposure, Kind::Template, seen, |snapshot, view, server_ref| {
        let templates = view.templates();
        let templates = templates.map(|t| (t.server, &t.definition.uri, &t.definition.raw));
        let exposed = |at: &ServerRef, uri: &str| snapshot.exposed_uri(at, uri);
        unique(templates, server_ref, "uriTemplate", snapshot.templates(), exposed)
    });
    Ok(list("resourceTemplates", &templates, asked))
}

/// The prompts of the toolboxes that the agent sees.
pub(crate) async fn prompts(session: &Session, asked: &Asked) -> Result<Outcome, Outcome> {
    let exposure = session.exposure(&asked.meta);
    begin(session, &exposure, asked, None).await;
    let prompts = all_prompts(&exposure, asked.meta.surface(), &session.chosen().0);
    has_given(session, asked, |given| &mut given.prompts, &prompts).await;
    Ok(list("prompts", &prompts, asked))
}

/// The prompts that an agent sees which has made these choices.
pub(crate) fn all_prompts(exposure: &Exposure, surface: Surface, chosen: &Chosen) -> Vec<Raw> {
    entries(exposure, Kind::Prompt, (surface, chosen), |snapshot, view, server_ref| {
        let prompts = view.prompts();
        let prompts = prompts.map(|p| (p.server, &p.definition.name, &p.definition.raw));
        let exposed = |at: &ServerRef, name: &str| snapshot.exposed_prompt(at, name);
        unique(prompts, server_ref, "name", snapshot.prompts(), exposed)
    })
}

/// Takes note of a list that a legacy agent is given.
async fn has_given(
    session: &Session,
    asked: &Asked,
    which: impl FnOnce(&mut Listings) -> &mut Option<String>,
    entries: &[Raw],
) {
    if !asked.meta.is_modern && session.has_given(which, entries) {
        session.save().await;
    }
}

/// Does what a list needs before it can be told: where everything is told of, everything runs. `making` is the
/// list, if it is of tools.
async fn begin(session: &Session, exposure: &Exposure, asked: &Asked, making: Option<&Making<'_>>) {
    exposure.start_everything(&session.presence(&asked.meta)).await;
    if exposure.starts_everything() && !asked.meta.is_modern {
        session.refresh(exposure, making).await;
    }
}

/// Tries the servers that nothing is known of, for the list is to say which of them cannot be had,
/// and tells the agent how far that is.
async fn try_servers(session: &Session, exposure: &Exposure, asked: &Asked, reply: &Reply) {
    let (sender, mut heard) = events::channel(EVENTS);
    let presence = session.presence(&asked.meta);
    let context = calls::context(session, &presence, &asked.meta, &sender);
    let trying = exposure.try_servers(&context);
    tokio::pin!(trying);
    loop {
        tokio::select! {
            biased;
            () = reply.cancelled() => return,
            () = &mut trying => return,
            Some(event) = heard.recv() => {
                if calls::tell(reply, &asked.meta, event).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn entries(
    exposure: &Exposure,
    kind: Kind,
    (surface, chosen): (Surface, &Chosen),
    of_view: impl Fn(&Snapshot, &Arc<View>, &dyn Fn(&ServerName) -> ServerRef) -> Vec<Raw>,
) -> Vec<Raw> {
    let snapshot = exposure.gateway().snapshot();
    if let Some(entries) = exposure.primitives(kind, surface, chosen) {
        return entries;
    }
    let mut all = Vec::new();
    for toolbox in exposure.shown(surface, &chosen.opened) {
        let server_ref =
            |server: &ServerName| ServerRef { toolbox: toolbox.clone(), server: server.clone() };
        all.extend(of_view(&snapshot, &snapshot.view(&toolbox), &server_ref));
    }
    all
}

/// Entries under the names that agents know them by. One server in two toolboxes gives its own
/// once.
fn unique<'a>(
    entries: impl Iterator<Item = (&'a ServerName, &'a String, &'a Raw)>,
    server_ref: &dyn Fn(&ServerName) -> ServerRef,
    key: &str,
    names: &UniqueNames,
    exposed: impl Fn(&ServerRef, &str) -> String,
) -> Vec<Raw> {
    let named = entries.filter_map(|(server, own, raw)| {
        let at = server_ref(server);
        let exposed = exposed(&at, own);
        if exposed != *own {
            return raw.with_member(key, &Raw::encode(&exposed));
        }
        names.resolve(own).is_none_or(|first| first.server_ref == at).then(|| raw.clone())
    });
    named.collect()
}

/// The result that has a list, in the form of the agent's era.
fn list(key: &str, entries: &[Raw], asked: &Asked) -> Outcome {
    let mut members = vec![(key, raw::array(entries))];
    if asked.meta.is_modern {
        // Clients of the modern revision would keep the list this long (server/utilities/caching).
        members.push(("ttlMs", Raw::encode(&0)));
        members.push(("cacheScope", Raw::encode(&"private")));
    }
    let result = raw::object(members.iter().map(|(key, value)| (*key, value)));
    Outcome::Result(fit_result(result, asked.meta.is_modern))
}
