//! `search`: one tool finds the tools that fit what is wanted, `use_tool` calls them.
//!
//! The same tool can be offered in `dynamic`, `proxy` and `auto` mode, beside what they have. In
//! `dynamic` mode, `use_tool` then is offered too: what is found is called at once, by a client
//! that has not opened its toolbox, and what is open is called by the name that is in its list.

mod answers;
mod arguments;

use serde_json::json;

use crate::catalog::rank::Finds;
use crate::catalog::shorten;
use crate::exposure::mode::{Audience, Doing, Exposure, Giving, Guide, Mode};
use crate::exposure::request::{Reply, Request, Surface};
use crate::exposure::search::answers::{Answer, Answered, unsearched};
use crate::exposure::search::arguments::SearchTools;
use crate::exposure::{answer, guidance, meta};
use crate::gateway::Sought;
use crate::name::{ServerName, ToolboxName};
use crate::raw::Raw;
use crate::settings::Config;

pub use crate::exposure::search::answers::Finding;

/// The tool that finds tools.
pub(crate) const SEARCH_TOOLS: &str = "search_tools";

/// How much of a name that is not there an error repeats, in characters.
const MAX_NAME: usize = 200;

/// The mode.
pub(crate) struct Search;

impl Mode for Search {
    fn guide(&self, _: &Config, _: Surface) -> Guide {
        Guide {
            call: "Call search_tools to find their tools.",
            lists_toolboxes: Some(SEARCH_TOOLS),
            usage: format!(
                "Call search_tools with what you want, in English, as service, verb and object, \
                 one step a query; then {} to call what it finds.",
                guidance::USE_TOOL
            ),
        }
    }

    fn where_tools_are(&self) -> &'static str {
        "search_tools finds tools by what is wanted of them."
    }

    fn own_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        vec![search_tools(audience.config(), None), meta::use_tool(SEARCH_TOOLS)]
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        call(self, exposure, request)
    }

    fn offers_search(&self, _: &Config) -> bool {
        true
    }
}

/// Answers a call of `search_tools` in a mode that offers it.
pub(crate) fn call<'a>(
    mode: &dyn Mode,
    exposure: &'a Exposure,
    request: Request<'a>,
) -> Option<Doing<'a, Reply>> {
    let is_offered =
        request.name == SEARCH_TOOLS && mode.offers_search(exposure.gateway().config());
    is_offered.then(|| -> Doing<'a, Reply> { Box::pin(exposure.search_tools(request)) })
}

/// Returns the tool that is offered beside an `open_toolbox` which gives tools in this way, if the
/// file wants that.
pub(crate) fn offered(config: &Config, beside: Giving) -> Option<Raw> {
    config.search.is_offered.then(|| search_tools(config, Some(beside)))
}

fn search_tools(config: &Config, beside: Option<Giving>) -> Raw {
    let mut toolbox = json!({"type": "string", "description": "In this toolbox alone"});
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    // Elsewhere `open_toolbox` has them; and an enumeration of nothing is no valid schema.
    if beside.is_none() && !names.is_empty() {
        toolbox["enum"] = names.into();
    }
    Raw::encode(&json!({
        "name": SEARCH_TOOLS,
        "title": "Search for Tools",
        "description": guidance::of_search(config, beside),
        "inputSchema": {
            "type": "object",
            "properties": {
                "queries": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": arguments::MAX_QUERIES,
                    "description": "In English, each one step: service, verb, object",
                },
                "toolbox": toolbox,
                "server": {"type": "string", "description": "Of this server alone"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": arguments::MAX_LIMIT,
                    "default": arguments::DEFAULT_LIMIT,
                    "description": "How many tools a query gives at most",
                },
                "detail": {
                    "enum": ["signatures", "full"],
                    "default": "signatures",
                    "description": "One line a tool, or whole definitions",
                },
            },
            "required": ["queries"],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    }))
}

impl Exposure {
    /// Answers a call of `search_tools`.
    async fn search_tools(&self, request: Request<'_>) -> Reply {
        let wanted = match SearchTools::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let (toolbox, server) = match self.places(&wanted) {
            Ok(places) => places,
            Err(refusal) => return refusal,
        };
        let (toolbox, server) = (toolbox.as_ref(), server.as_ref());
        let gateway = self.gateway();
        gateway.before_search(toolbox, server, request.context).await;
        let queries = || wanted.queries.iter().map(String::as_str);
        let (finds, limit) = (Finds::WhatFits, wanted.limit);
        let sought: Vec<_> =
            queries().map(|query| Sought { query, toolbox, server, finds, limit }).collect();
        // Before anything is found: a server that is listed meanwhile may have been missed.
        let not_searched = unsearched(gateway, toolbox, server);
        let found = gateway.find_tools(&sought, request.context).await;
        let mut answered = Vec::new();
        for (query, tools) in queries().zip(found) {
            answered.push(Answered { query, tools, absent: gateway.absent_services(query).await });
        }
        let is_listed = |of: &ToolboxName| {
            self.mode(request.surface).giving().registers() && request.chosen.opened.contains(of)
        };
        let answer = Answer {
            detail: wanted.detail,
            queries_left_out: wanted.left_out,
            not_searched,
            is_listed: &is_listed,
            max: self.listing_bytes(),
        };
        Reply::plain(answer.outcome(&answered))
    }

    /// The toolbox and the server that are meant.
    fn places(
        &self,
        wanted: &SearchTools,
    ) -> Result<(Option<ToolboxName>, Option<ServerName>), Reply> {
        let config = self.gateway().config();
        let toolbox = match &wanted.toolbox {
            None => None,
            Some(name) => Some(config.toolbox(name).ok_or_else(|| {
                let known = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
                refused("toolbox", name, known)
            })?),
        };
        let toolboxes = || config.toolboxes.iter().filter(|of| toolbox.is_none_or(|it| it == *of));
        let servers = || toolboxes().flat_map(|toolbox| &toolbox.servers);
        let server = match &wanted.server {
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
}

fn refused<'a>(what: &str, wanted: &str, known: impl Iterator<Item = &'a str>) -> Reply {
    let known: Vec<_> = known.map(str::to_owned).collect();
    let wanted = shorten(wanted, MAX_NAME);
    Reply::plain(answer::error(&format!(
        "there is no {what} `{wanted}`. There are: {}. Without \"{what}\" all are searched.",
        answer::offer(&known)
    )))
}
