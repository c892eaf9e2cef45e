//! `direct`: lists all tools from the start, with short names if they are unique. `auto` does the
//! same for clients that keep definitions out of their model's context.
//!
//! Servers with a stored tool list aren't started for a list, but at their first call.

use crate::exposure::call::call_tool;
use crate::exposure::client_profile::RelistBehavior;
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, ListContext, Mode, ModeTraits, SearchOffer, Startup,
    ToolDelivery,
};
use crate::exposure::tool_call::{CallRoute, ToolCallReply, ToolCallRequest};
use crate::exposure::{meta_tools, search, uri_rewrite};
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_names::ToolId;
use mcp_workbench_wire::json::RawJson;

/// The first list waits for servers without a stored tool list.
pub(crate) static DIRECT: Direct = Direct(ModeTraits { startup: Startup::ListAll, ..LISTS_ALL });
/// `auto` for clients whose tool search also hides the workbench's own tools.
pub(crate) static FOR_SEARCH: Direct = Direct(AT_ONCE);
/// `auto` for clients with a code mode. Such a client repeats the instructions in the description of
/// each tool, so a script that searches the descriptions for a toolbox would find all tools.
pub(crate) static FOR_SCRIPTS: Direct = Direct(ModeTraits { has_instructions: false, ..AT_ONCE });

const LISTS_ALL: ModeTraits =
    ModeTraits { lists_server_tools: true, ..ModeTraits::new("The tool list shows all tools.") };
/// The first list doesn't wait: `open_toolbox` and `use_tool` lead to the tools that it lacks.
const AT_ONCE: ModeTraits = ModeTraits {
    startup: Startup::UnlistedInBackground,
    search: SearchOffer::IfConfigured,
    ..LISTS_ALL
};

pub(crate) struct Direct(ModeTraits);

impl Direct {
    /// Returns the workbench's own tools, if tools of servers are missing from the list or search is
    /// configured.
    fn own_tools(&self, ctx: ListContext<'_>) -> Vec<RawJson> {
        let never_relists = ctx.exposure.profile().relisting == RelistBehavior::Never;
        let may_lack_tools = never_relists || self.0.startup == Startup::UnlistedInBackground;
        let lacks_tools = may_lack_tools && !ctx.exposure.gateway().views().unlisted().is_empty();
        let offers_search = self.0.search.is_made(ctx.config());
        if !lacks_tools && !offers_search {
            return Vec::new();
        }
        let giving = ToolDelivery::Answer;
        let mut own = vec![meta_tools::open_toolbox(ctx.config(), giving, false, true)];
        if offers_search {
            own.extend(search::search_tools_if_offered(ctx.config(), giving));
        }
        own.push(meta_tools::use_tool(meta_tools::OPEN_TOOLBOX));
        own
    }
}

impl Mode for Direct {
    fn traits(&self) -> &ModeTraits {
        &self.0
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        ExposedTools { own: self.own_tools(ctx), servers: tools(ctx) }
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        if let Some(answering) = search::call(self.0.search, exposure, request) {
            return Some(answering);
        }
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
