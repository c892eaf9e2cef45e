//! `direct`: everything is there from the start, under its own name where that is unambiguous.

use crate::exposure::mode::{Audience, Doing, Exposure, Mode};
use crate::exposure::request::{CalledBy, Reply, Request};
use crate::exposure::{meta, uris};
use crate::gateway::{Gateway, Presence, Snapshot};
use crate::name::{ServerRef, ToolId};
use crate::raw::Raw;
use crate::settings::Config;

/// The mode.
pub(crate) struct Direct;

impl Mode for Direct {
    fn where_tools_are(&self) -> &'static str {
        "The list of tools shows all there are."
    }

    fn own_tools(&self, _: Audience<'_>) -> Vec<Raw> {
        Vec::new()
    }

    fn server_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        tools(audience.config(), audience.at)
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        let tool = self.listed(exposure, &exposure.gateway().snapshot(), request.name)?;
        Some(Box::pin(async move {
            let arguments = meta::object_of(request.arguments);
            let called =
                exposure.use_tool(&tool, arguments.as_ref(), CalledBy::ItsName, &request).await;
            Reply::plain(called.outcome)
        }))
    }

    fn listed(&self, exposure: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        resolve(exposure.gateway(), at, name)
    }

    fn starts_everything(&self) -> bool {
        true
    }

    fn lists_tools(&self) -> bool {
        true
    }

    fn start<'a>(&'a self, exposure: &'a Exposure, agent: &'a Presence) -> Option<Doing<'a, ()>> {
        Some(Box::pin(exposure.gateway().start_all(agent)))
    }

    fn run<'a>(&'a self, exposure: &'a Exposure, agent: &'a Presence) -> Option<Doing<'a, ()>> {
        Some(Box::pin(exposure.gateway().run_all(agent)))
    }
}

/// The tools of every toolbox, in the order of the configuration.
fn tools(config: &Config, at: &Snapshot) -> Vec<Raw> {
    let views = config.toolboxes.iter().map(|toolbox| at.view(&toolbox.name));
    let mut tools = Vec::new();
    for view in views {
        for tool in view.tools() {
            // One server in two toolboxes has its tools once.
            let own = at.tools().resolve(&tool.id.tool);
            let is_first = own.is_none_or(|own| is_of(&own.server_ref, &tool.id));
            if at.tools().is_ambiguous(&tool.id.tool) {
                tools.push(uris::in_tool(at, tool, tool.registered()));
            } else if is_first {
                tools.push(uris::in_tool(at, tool, &tool.definition.raw));
            }
        }
    }
    tools
}

fn is_of(server_ref: &ServerRef, tool: &ToolId) -> bool {
    server_ref.toolbox == tool.toolbox && server_ref.server == tool.server
}

/// The tool that is called so: by its own name, or `server:tool`.
pub(crate) fn resolve(gateway: &Gateway, snapshot: &Snapshot, name: &str) -> Option<ToolId> {
    if let Some(primitive) = snapshot.tools().resolve(name)
        && !snapshot.tools().is_ambiguous(name)
    {
        return Some(ToolId {
            toolbox: primitive.server_ref.toolbox.clone(),
            server: primitive.server_ref.server.clone(),
            tool: primitive.name.clone(),
        });
    }
    gateway.qualified(name).into_iter().find(|id| {
        let view = snapshot.view(&id.toolbox);
        view.tool(id.server.as_str(), &id.tool).is_some()
    })
}
