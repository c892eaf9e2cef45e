//! `alone`: one server, as if the agent had started it itself. `expose` serves so.
//!
//! Everything has the server's own name and the server's own bytes, whatever that name is: there is no
//! other server that it could be mistaken for, and no tool of ours. What a toolbox leaves out or changes
//! (`toolFilters`, `overrides`) holds here too.

use std::sync::Arc;

use crate::backend::Outcome;
use crate::exposure::mode::{Audience, Doing, Exposure, Mode};
use crate::exposure::request::{CalledBy, Refusal, Reply, Request};
use crate::exposure::{answer, meta};
use crate::gateway::{CallError, Presence, Snapshot, Urgency};
use crate::name::{ServerRef, ToolId};
use crate::raw::Raw;
use crate::settings::{Config, ServerConfig};
use crate::toolbox::{Kind, Part, ViewTool};

/// The mode.
pub(crate) struct Alone;

/// The introduction of a server at the beginning of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIntroduction {
    /// Its capabilities in the agent's era, in its own words.
    pub capabilities: Raw,
    /// `true` if it speaks the older revisions alone.
    pub is_legacy: bool,
    /// How it wants to be used.
    pub instructions: Option<String>,
}

impl Mode for Alone {
    fn where_tools_are(&self) -> &'static str {
        "The list of tools shows all there are."
    }

    fn own_tools(&self, _: Audience<'_>) -> Vec<Raw> {
        Vec::new()
    }

    fn server_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        let Some((_, server)) = only(audience.config()) else { return Vec::new() };
        let Some(part) = part(audience.config(), audience.at) else { return Vec::new() };
        part.tools.iter().map(|tool| shown(server, tool).1.clone()).collect()
    }

    fn primitives(&self, audience: Audience<'_>, kind: Kind) -> Option<Vec<Raw>> {
        let Some(part) = part(audience.config(), audience.at) else { return Some(Vec::new()) };
        Some(match kind {
            Kind::Tool => self.server_tools(audience),
            Kind::Resource => part.resources().iter().map(|one| one.raw.clone()).collect(),
            Kind::Template => part.templates().iter().map(|one| one.raw.clone()).collect(),
            Kind::Prompt => part.prompts().iter().map(|one| one.raw.clone()).collect(),
        })
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        let tool = self.listed(exposure, &exposure.gateway().snapshot(), request.name);
        Some(Box::pin(async move {
            let arguments = meta::object_of(request.arguments);
            let Some(tool) = tool else {
                let wanted = request.name.to_owned();
                let unknown = CallError::UnknownTool { wanted, nearest: Vec::new() };
                let (gateway, name) = (exposure.gateway(), request.name);
                let (arguments, context) = (arguments.as_ref(), request.context);
                gateway.note_unresolved(name, arguments, Some(&unknown), context);
                return Reply::plain(answer::call_error(&unknown, self.where_tools_are()));
            };
            let called =
                exposure.use_tool(&tool, arguments.as_ref(), CalledBy::ItsName, &request).await;
            Reply::plain(called.outcome)
        }))
    }

    fn listed(&self, exposure: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        let config = exposure.gateway().config();
        let (_, server) = only(config)?;
        let part = part(config, at)?;
        let tool = part.tools.iter().find(|tool| shown(server, tool).0 == name)?;
        Some(tool.id.clone())
    }

    fn find(&self, at: &Snapshot, kind: Kind, name: &str) -> Option<(ServerRef, String)> {
        let part = at.parts().next()?;
        let is_there = match kind {
            Kind::Tool => part.tools.iter().any(|tool| tool.own.name == name),
            Kind::Resource => part.resources().iter().any(|one| one.uri == name),
            Kind::Template => part.templates().iter().any(|one| one.uri == name),
            Kind::Prompt => part.prompts().iter().any(|one| one.name == name),
        };
        is_there.then(|| (part.server_ref.clone(), name.to_owned()))
    }

    fn addressed(
        &self,
        audience: Audience<'_>,
        uri: &str,
    ) -> Option<Result<Vec<(ServerRef, String)>, Refusal>> {
        // Listed or not, it is for the server to say what there is.
        let at = only(audience.config()).map(|(at, _)| (at, uri.to_owned()));
        Some(Ok(at.into_iter().collect()))
    }

    fn with_addresses(&self, _: &Snapshot, _: &ServerRef, outcome: Outcome) -> Outcome {
        outcome
    }

    fn starts_everything(&self) -> bool {
        true
    }

    fn lists_tools(&self) -> bool {
        true
    }

    fn stands_for_server(&self) -> bool {
        true
    }

    fn start<'a>(&'a self, exposure: &'a Exposure, agent: &'a Presence) -> Option<Doing<'a, ()>> {
        // What is known of old may be of another version of the server.
        Some(Box::pin(exposure.gateway().run_all(agent)))
    }
}

/// Starts the server and returns what it says of itself, or why it cannot be started.
pub(crate) async fn introduction(
    exposure: &Exposure,
    agent: &Presence,
    is_modern: bool,
) -> Result<ServerIntroduction, String> {
    let gateway = exposure.gateway();
    let config = gateway.config();
    let Some((at, _)) = only(config) else {
        return Err("there is no server here that you may use".to_owned());
    };
    let started = gateway.start(&at.toolbox, &at.server, agent, Urgency::Opening).await;
    if let Err(failed) = started {
        let (server, reason, hint) = (failed.server, failed.reason, failed.hint);
        return Err(format!(
            "the server `{server}` could not be started: {reason}\nWhat to do: {hint}."
        ));
    }
    let snapshot = gateway.snapshot();
    let part = part(config, &snapshot);
    let mut abilities =
        part.as_ref().and_then(|part| part.abilities().cloned()).unwrap_or_default();
    // Each era has one of these, and in the other it means nothing.
    if is_modern {
        abilities.tasks = None;
    } else {
        abilities.extensions = None;
    }
    let instructions = part.and_then(|part| part.instructions().map(str::to_owned));
    let is_legacy = gateway.is_legacy(&at);
    Ok(ServerIntroduction { capabilities: Raw::encode(&abilities), is_legacy, instructions })
}

/// The one server of the configuration; `None` if the agent may not know of it.
fn only(config: &Config) -> Option<(ServerRef, &ServerConfig)> {
    let (toolbox, server) = config.servers().next()?;
    Some((ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() }, server))
}

/// The server as far as it has been listed.
fn part(config: &Config, at: &Snapshot) -> Option<Arc<Part>> {
    let (server, _) = only(config)?;
    at.view(&server.toolbox).part(server.server.as_str()).cloned()
}

/// The name and the definition of a tool: the server's, unless the configuration has others.
fn shown<'a>(server: &ServerConfig, tool: &'a ViewTool) -> (&'a str, &'a Raw) {
    let is_changed = server.tool_override(&tool.own.name, tool.traits.has_namesake).is_some();
    let definition = if is_changed { &tool.definition } else { &tool.own };
    (&definition.name, &definition.raw)
}
