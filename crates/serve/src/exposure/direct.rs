//! `direct`: everything is there from the start, under its own name where that is unambiguous.

use crate::exposure::mode::{Audience, Doing, Exposure, Mode};
use crate::exposure::request::{CalledBy, Reply, Request};
use crate::exposure::{meta, uris};
use crate::gateway::{Presence, Snapshot};
use crate::name::ToolId;
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

    fn listed(&self, _: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        at.find(name)
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
            let Some(name) = at.direct_name(tool) else { continue };
            let is_own = name == tool.id.tool;
            let definition = if is_own { &tool.definition.raw } else { tool.registered() };
            tools.push(uris::in_tool(at, tool, definition));
        }
    }
    tools
}
