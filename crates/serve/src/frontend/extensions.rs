//! Additions to the protocol: tasks, and methods that we know nothing of.
//!
//! A request about a task goes to the server that runs it; where there may be several agents, only
//! from the one that is known to have begun it. Any other is passed on where only one
//! running server may be meant: one that says that it speaks extensions, or any when the agent says
//! so of itself.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::Outcome;
use crate::frontend::asked::{Asked, unknown};
use crate::frontend::calls::{Passed, pass as pass_on};
use crate::frontend::era::harmless;
use crate::frontend::session::Session;
use crate::frontend::{primitives, resolve};
use crate::name::ServerRef;
use crate::wire::incoming::Reply;

/// The one request about tasks that names none.
const LIST: &str = "tasks/list";

/// Passes a request on whose method is none of the protocol's own.
pub(crate) async fn pass(session: Arc<Session>, asked: Asked, reply: Reply) {
    pass_on(session, asked, reply, move |passed| async move {
        let Passed { exposure, presence, asked, .. } = &passed;
        exposure.run_everything(presence).await;
        let Some(server_ref) = find(&passed).await else { return unknown(&asked.method) };
        let context = passed.context();
        let gateway = exposure.gateway();
        let outcome = if asked.method == LIST && !gateway.shares_tasks() {
            gateway.own_tasks(&server_ref, &asked.params, &context).await
        } else {
            gateway.request(&server_ref, &asked.method, &asked.params, &context).await
        };
        let mut outcome = outcome.unwrap_or_else(|error| primitives::failed(&error));
        // It is what a call would have answered (2025-11-25, basic/utilities/tasks).
        if asked.method == "tasks/result" {
            gateway.hand_out("a task", &mut outcome, &context).await;
        }
        // Of such a method it is what the server says of it, and nothing about the connection.
        if is_unknown(&outcome) {
            unknown(&asked.method)
        } else {
            harmless(outcome, asked.meta.is_modern)
        }
    })
    .await;
}

/// Returns `true` if a server says that it does not know the method.
fn is_unknown(outcome: &Outcome) -> bool {
    let Outcome::Error(error) = outcome else { return false };
    error.member("code").is_some_and(|code| code.as_bytes() == b"-32601")
}

async fn find(passed: &Passed) -> Option<ServerRef> {
    let Passed { exposure, asked, .. } = passed;
    let gateway = exposure.gateway();
    if let Ok(task) = asked.text("taskId")
        && let Some(server_ref) = gateway.task(&task, &passed.presence, passed.session.key()).await
    {
        return Some(server_ref);
    }
    let found = meant(passed)?;
    let is_of_task = asked.method.starts_with("tasks/") && asked.method != LIST;
    let task = asked.text("taskId").unwrap_or_default();
    let may_ask = || gateway.may_ask_after(&task, &found, &passed.presence, passed.session.key());
    (!is_of_task || may_ask()).then_some(found)
}

/// The server that a request is meant for which names no task of the agent's own.
fn meant(passed: &Passed) -> Option<ServerRef> {
    let Passed { exposure, asked, .. } = passed;
    let speaks = candidates(passed);
    if let Ok(uri) = asked.text("uri") {
        let owners = resolve::known(&passed.session, exposure, &asked.meta, &uri);
        let owners = owners.unwrap_or_default();
        if let Some((server_ref, _)) =
            owners.into_iter().find(|(server_ref, _)| speaks.contains(server_ref))
        {
            return Some(server_ref);
        }
    }
    match speaks.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The running servers that speak the extension which the method seems to be of; any that speak
/// one where none seems to.
fn candidates(passed: &Passed) -> Vec<ServerRef> {
    let Passed { exposure, asked, .. } = passed;
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    let family = asked.method.split('/').next().unwrap_or_default();
    let mut speaking = Vec::new();
    for server_ref in gateway.running() {
        let view = snapshot.view(&server_ref.toolbox);
        let Some(abilities) = view.abilities_of(&server_ref.server) else { continue };
        let spoken: Map<String, Value> = abilities
            .extensions
            .as_ref()
            .and_then(|extensions| extensions.parse().ok())
            .unwrap_or_default();
        let is_of_family = spoken.keys().any(|name| name.rsplit('/').next() == Some(family))
            || (family == "tasks" && abilities.tasks.is_some());
        if is_of_family || !spoken.is_empty() {
            speaking.push((is_of_family, server_ref));
        }
    }
    if speaking.is_empty() && passed.session.speaks_extensions(&asked.meta) {
        return gateway.running();
    }
    let has_family = speaking.iter().any(|(is_of_family, _)| *is_of_family);
    let fitting = speaking.into_iter().filter(|(is_of_family, _)| *is_of_family || !has_family);
    fitting.map(|(_, server_ref)| server_ref).collect()
}
