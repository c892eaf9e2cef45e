//! `search`: one tool finds tools for a query, `use_tool` calls them.
//!
//! `dynamic`, `proxy` and `auto` can offer the same tool in addition to their own. `dynamic` then
//! offers `use_tool` as well: a client calls found tools without opening their toolboxes, and tools
//! of open toolboxes by the names in its list.

mod arguments;
mod results;

use serde_json::json;

use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, Instructions, ListContext, Mode, ModeTraits, SearchOffer,
    ToolDelivery, UsageHints,
};
use crate::exposure::search::arguments::SearchTools;
use crate::exposure::search::results::{QueryMatches, SearchResults, unsearched};
use crate::exposure::tool_call::{ListMutability, ToolCallReply, ToolCallRequest};
use crate::exposure::{app_table, instructions, meta_tools, tool_results};
use mcp_workbench_core::catalog::rank::ScoreCutoff;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::ToolQuery;
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::RawJson;

pub use crate::exposure::search::results::SearchHit;

pub(crate) const SEARCH_TOOLS: &str = "search_tools";

/// In characters, of an unknown name that an error repeats.
const MAX_NAME: usize = 200;

pub(crate) struct Search;

impl Mode for Search {
    fn traits(&self) -> &ModeTraits {
        const TRAITS: ModeTraits = ModeTraits {
            search: SearchOffer::Always,
            ..ModeTraits::new("search_tools searches for tools by task.")
        };
        &TRAITS
    }

    fn instructions(&self, _: &Config, _: ListMutability) -> Instructions {
        Instructions::Hints(UsageHints {
            call: "Call search_tools to find their tools.",
            lists_toolboxes: Some(SEARCH_TOOLS),
            usage: format!(
                "Call search_tools with English queries of service, verb and object, one step \
                 each; then call a result with {}.",
                instructions::USE_TOOL
            ),
        })
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        let own = vec![search_tools(ctx.config(), None), meta_tools::use_tool(SEARCH_TOOLS)];
        ExposedTools::of_mode(own, ctx)
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        call(self.traits().search, exposure, request)
    }
}

pub(crate) fn call<'a>(
    offer: SearchOffer,
    exposure: &'a Exposure,
    request: ToolCallRequest<'a>,
) -> Option<BoxFuture<'a, ToolCallReply>> {
    let is_offered = request.name == SEARCH_TOOLS && offer.is_made(exposure.gateway().config());
    is_offered
        .then(|| -> BoxFuture<'a, ToolCallReply> { Box::pin(call_search_tools(exposure, request)) })
}

/// Returns `search_tools` if it is configured. `delivery` is how the mode delivers opened tools.
pub(crate) fn search_tools_if_offered(config: &Config, delivery: ToolDelivery) -> Option<RawJson> {
    config.search.offers_tool.then(|| search_tools(config, Some(delivery)))
}

fn search_tools(config: &Config, delivery: Option<ToolDelivery>) -> RawJson {
    let mut toolbox = json!({"type": "string", "description": "Only in this toolbox"});
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    // Other modes enumerate toolboxes in `open_toolbox`. An empty `enum` isn't a valid schema.
    if delivery.is_none() && !names.is_empty() {
        toolbox["enum"] = names.into();
    }
    RawJson::encode(&json!({
        "name": SEARCH_TOOLS,
        "title": "Search for Tools",
        "description": instructions::search_tools_description(config, delivery),
        "inputSchema": {
            "type": "object",
            "properties": {
                "queries": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": arguments::MAX_QUERIES,
                    "description": "In English, one step each: service, verb, object",
                },
                "toolbox": toolbox,
                "server": {"type": "string", "description": "Only of this server"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": arguments::MAX_LIMIT,
                    "default": arguments::DEFAULT_LIMIT,
                    "description": "Maximum number of tools per query",
                },
                "detail": {
                    "enum": ["signatures", "full"],
                    "default": "signatures",
                    "description": "One line per tool or full definitions",
                },
            },
            "required": ["queries"],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    }))
}

async fn call_search_tools(exposure: &Exposure, request: ToolCallRequest<'_>) -> ToolCallReply {
    let args = match SearchTools::parse(request.arguments) {
        Ok(args) => args,
        Err(problem) => {
            return ToolCallReply::from_outcome(tool_results::error_result(&problem));
        }
    };
    let (toolbox, server) = match search_scope(exposure, &args) {
        Ok(places) => places,
        Err(refusal) => return refusal,
    };
    let (toolbox, server) = (toolbox.as_ref(), server.as_ref());
    let gateway = exposure.gateway();
    gateway.search().before_search(toolbox, server, request.context).await;
    let queries = || args.queries.iter().map(String::as_str);
    let (finds, limit) = (ScoreCutoff::Relevant, args.limit);
    let sought: Vec<_> =
        queries().map(|query| ToolQuery { query, toolbox, server, finds, limit }).collect();
    // Collect these first: a server that is listed during the search may have been missed.
    let not_searched = unsearched(gateway, toolbox, server);
    let found = gateway.search().search_listed(&sought, request.context).await;
    let mut answered = Vec::new();
    let shows_apps = exposure.shows_apps();
    for (query, mut tools) in queries().zip(found) {
        tools.retain(|found| !(shows_apps && app_table::is_app_only(found.tool())));
        answered.push(QueryMatches {
            query,
            tools,
            absent: gateway.search().absent_services(query).await,
        });
    }
    let adds_to_list = exposure.mode(request.lists).traits().delivery.adds_to_list();
    let is_listed = |tool: &ExposedTool| {
        adds_to_list && request.chosen.opened.contains(&tool.id.toolbox)
            || shows_apps && app_table::is_app_tool(tool)
    };
    let answer = SearchResults {
        detail: args.detail,
        queries_left_out: args.left_out,
        not_searched,
        is_listed: &is_listed,
        max: exposure.listing_bytes(),
    };
    ToolCallReply::from_outcome(answer.outcome(&answered))
}

fn search_scope(
    exposure: &Exposure,
    args: &SearchTools,
) -> Result<(Option<ToolboxName>, Option<ServerName>), ToolCallReply> {
    let config = exposure.gateway().config();
    let toolbox = match &args.toolbox {
        None => None,
        Some(name) => Some(config.toolbox(name).ok_or_else(|| {
            let known = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
            refused("toolbox", name, known)
        })?),
    };
    let toolboxes = || config.toolboxes.iter().filter(|of| toolbox.is_none_or(|it| it == *of));
    let servers = || toolboxes().flat_map(|toolbox| &toolbox.servers);
    let server = match &args.server {
        None => None,
        Some(name) => {
            let server = servers().find(|server| server.name.as_str() == name);
            Some(server.ok_or_else(|| {
                let mut known: Vec<_> = servers().map(|server| server.name.as_str()).collect();
                known.sort_unstable();
                known.dedup();
                refused("server", name, known.into_iter())
            })?)
        }
    };
    Ok((toolbox.map(|it| it.name.clone()), server.map(|it| it.name.clone())))
}

fn refused<'a>(what: &str, wanted: &str, known: impl Iterator<Item = &'a str>) -> ToolCallReply {
    let known: Vec<_> = known.map(str::to_owned).collect();
    let wanted = shorten(wanted, MAX_NAME);
    ToolCallReply::from_outcome(tool_results::error_result(&format!(
        "unknown {what} `{wanted}`. Available: {}. Omit \"{what}\" to search all.",
        tool_results::offer(&known)
    )))
}
