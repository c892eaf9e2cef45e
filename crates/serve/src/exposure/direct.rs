//! `direct`: lists all tools from the start, with short names if they are unique.

use crate::exposure::call::call_tool;
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, ListContext, Mode, ModeTraits, Startup,
};
use crate::exposure::tool_call::{CallRoute, ToolCallReply, ToolCallRequest};
use crate::exposure::{meta_tools, uri_rewrite};
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_names::ToolId;
use mcp_workbench_wire::json::RawJson;

pub(crate) struct Direct;

impl Mode for Direct {
    fn traits(&self) -> &ModeTraits {
        const TRAITS: ModeTraits = ModeTraits {
            startup: Startup::StartAll,
            lists_server_tools: true,
            ..ModeTraits::new("The tool list shows all tools.")
        };
        &TRAITS
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        ExposedTools { own: Vec::new(), servers: tools(ctx) }
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        let tool = self.listed_tool(exposure, &exposure.gateway().snapshot(), request.name)?;
        Some(Box::pin(async move {
            let arguments = meta_tools::object_of(request.arguments);
            let called =
                call_tool(exposure, &tool, arguments.as_ref(), CallRoute::ItsName, &request).await;
            ToolCallReply::from_outcome(called.outcome)
        }))
    }

    fn listed_tool(&self, _: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        at.resolve(name)
    }
}

fn tools(ctx: ListContext<'_>) -> Vec<RawJson> {
    let (at, apps) = (ctx.at, ctx.apps());
    let views = ctx.config().toolboxes.iter().map(|toolbox| at.view(&toolbox.name));
    let mut tools = Vec::new();
    for view in views {
        for tool in view.tools() {
            let Some(name) = at.direct_name(tool) else { continue };
            let is_own = name == tool.id.tool;
            let definition =
                if is_own { Ok(&tool.definition.raw) } else { tool.registered_definition() };
            let apps = apps.as_ref();
            let rewrite = |raw| uri_rewrite::rewrite_tool(at, apps, tool, raw);
            tools.extend(definition.and_then(rewrite));
        }
    }
    tools
}
