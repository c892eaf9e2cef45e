//! Results of `search_tools`: the matching tools of each query, one a line.

use serde_json::{Map, Value, json};

use crate::exposure::instructions::on_one_line;
use crate::exposure::meta_tools::Detail;
use crate::exposure::rendering::{self, RenderFn, RenderedList};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::catalog::rank::{absent_services_message, round_score};
use mcp_workbench_core::catalog::{ToolDefinition, shorten};
use mcp_workbench_core::gateway::{Gateway, ToolMatch};
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_wire::json::{self, RawJson};

/// How much of a query is repeated: in characters, and as a fraction of the query's share.
const MAX_ECHO: usize = 120;
const ECHO_PART: usize = 20;
/// In bytes. A query with a smaller share gets short remarks.
const SHORT: usize = 400;
/// In characters.
const MAX_SIGNATURE: usize = 400;
/// Limits for servers that weren't searched: how many are named, the characters of each reason, and
/// the fraction of the answer for all of them.
const MAX_SERVERS: usize = 5;
const MAX_REASON: usize = 160;
const SERVERS_PART: usize = 8;

/// Members placed before a definition. The server's own members of these names are dropped.
const PLACE: [&str; 4] = ["toolbox", "server", "in_your_list", "score"];

const CALL: &str = "use_tool {tool: {toolbox, server, tool: <name>}, arguments: {…}}";
const CALL_LISTED: &str = "by `in_your_list` if present, else with use_tool {tool: {toolbox, \
                           server, tool: <name>}, arguments: {…}}";
const NOTHING: &str = "no match; try other words (service, verb, object of one step, in English) \
                       or all toolboxes, else no tool exists";
const NOTHING_SHORT: &str = "no match";
const HARDLY: &str = "weak matches; if none of these does it, try other words, else no tool exists";
const MORE: &str = "some definitions did not fit; use fewer queries or a smaller limit";

pub(crate) struct QueryMatches<'a> {
    pub(crate) query: &'a str,
    /// Best first.
    pub(crate) tools: Vec<ToolMatch>,
    /// Services that the query names but no server provides.
    pub(crate) absent: Vec<String>,
}

/// A found tool as an answer shows it: its location, name and score.
#[derive(Clone, Copy, Debug)]
pub struct SearchHit<'a> {
    pub toolbox: &'a str,
    pub server: &'a str,
    pub name: &'a str,
    /// Set if the tool is in the agent's list.
    pub in_your_list: Option<&'a str>,
    /// From 0 to 1.
    pub score: f32,
}

impl SearchHit<'_> {
    pub fn line(&self, tool: &ToolDefinition) -> RawJson {
        let mut line = self.place();
        let signature = shorten(&tool.signature(), MAX_SIGNATURE);
        line.insert("signature".to_owned(), signature.into());
        if let Some(summary) = tool.summary() {
            line.insert("description".to_owned(), summary.into());
        }
        RawJson::encode(&Value::Object(line))
    }

    fn place(&self) -> Map<String, Value> {
        let mut place = Map::new();
        place.insert("toolbox".to_owned(), self.toolbox.into());
        place.insert("server".to_owned(), self.server.into());
        place.insert("name".to_owned(), self.name.into());
        if let Some(name) = self.in_your_list {
            place.insert("in_your_list".to_owned(), name.into());
        }
        place.insert("score".to_owned(), round_score(self.score).into());
        place
    }
}

pub(crate) struct SearchResults<'a> {
    pub(crate) detail: Detail,
    pub(crate) queries_left_out: usize,
    /// Toolbox and server, with the reason.
    pub(crate) not_searched: Vec<(String, String)>,
    pub(crate) is_listed: &'a dyn Fn(&ExposedTool) -> bool,
    /// In bytes.
    pub(crate) max: usize,
}

impl SearchResults<'_> {
    pub(crate) fn outcome(&self, found: &[QueryMatches<'_>]) -> RpcOutcome {
        RpcOutcome::Result(RawJson::encode(&json!({
            "content": [{"type": "text", "text": self.text(found)}],
        })))
    }

    fn text(&self, found: &[QueryMatches<'_>]) -> String {
        let mut header = self.header(found);
        let mut capacity = rendering::remaining_bytes(self.max, &header);
        let (mut results, mut has_stepped_down) = (Vec::new(), false);
        for (index, QueryMatches { query, tools, absent }) in found.iter().enumerate() {
            // Space that one query leaves unused is available to the next ones.
            let share = capacity / (found.len() - index);
            let mut head = Map::new();
            let echo = shorten(&on_one_line(query), MAX_ECHO.min(share / ECHO_PART));
            head.insert("query".to_owned(), echo.into());
            match tools.first() {
                None => {
                    let nothing = if share < SHORT { NOTHING_SHORT } else { NOTHING };
                    head.insert("nothing".to_owned(), nothing.into());
                }
                Some(best) if !best.fits_well() && absent.is_empty() && share >= SHORT => {
                    head.insert("note".to_owned(), HARDLY.into());
                }
                Some(_) => {}
            }
            if !absent.is_empty() && share >= SHORT {
                head.insert("note".to_owned(), absent_services_message(absent).into());
            }
            let listing = self.listing(tools, rendering::remaining_bytes(share, &head));
            has_stepped_down |= self.detail == Detail::Full && listing.step > 0;
            if listing.omitted > 0 {
                head.insert("tools_left_out".to_owned(), listing.omitted.into());
            }
            let text = if tools.is_empty() { listing.compact(&head) } else { listing.text(&head) };
            capacity = capacity.saturating_sub(text.len());
            results.push(text);
        }
        if has_stepped_down {
            header.insert("more".to_owned(), MORE.into());
        }
        rendering::object(&header, "results", results, "\n")
    }

    fn header(&self, found: &[QueryMatches<'_>]) -> Map<String, Value> {
        let mut header = Map::new();
        let mut tools = found.iter().flat_map(|answered| &answered.tools);
        let is_listed = |found: &ToolMatch| (self.is_listed)(found.tool());
        if tools.clone().any(is_listed) {
            header.insert("call".to_owned(), CALL_LISTED.into());
        } else if tools.next().is_some() {
            header.insert("call".to_owned(), CALL.into());
        }
        if self.queries_left_out > 0 {
            header.insert("queries_left_out".to_owned(), self.queries_left_out.into());
        }
        let mut capacity = self.max / SERVERS_PART;
        let named = self.not_searched.iter().take(MAX_SERVERS).map_while(|(place, why)| {
            capacity = capacity.checked_sub(place.len() + why.len())?;
            Some((place.clone(), Value::from(why.as_str())))
        });
        let named: Map<_, _> = named.collect();
        let more = self.not_searched.len() - named.len();
        if !named.is_empty() {
            header.insert("not_searched".to_owned(), Value::Object(named));
        }
        if more > 0 {
            header.insert("more_not_searched".to_owned(), more.into());
        }
        header
    }

    fn listing(&self, tools: &[ToolMatch], capacity: usize) -> RenderedList {
        let tools: Vec<&ToolMatch> = tools.iter().collect();
        let whole = |found: &ToolMatch| self.whole(found);
        let line = |found: &ToolMatch| self.finding(found).line(&found.tool().definition);
        let short =
            |found: &ToolMatch| RawJson::encode(&Value::Object(self.finding(found).place()));
        let ways: [RenderFn<'_, ToolMatch>; 3] = [&whole, &line, &short];
        match self.detail {
            Detail::Full => {
                let listing = rendering::render_best_first(&tools, &ways[..2], capacity);
                if listing.omitted == 0 {
                    return listing;
                }
                rendering::render_uniform(&tools, &ways[1..], capacity)
            }
            Detail::Signatures => rendering::render_uniform(&tools, &ways[1..], capacity),
        }
    }

    fn whole(&self, found: &ToolMatch) -> RawJson {
        let definition = &found.tool().definition.raw;
        let mut place = self.finding(found).place();
        place.remove("name");
        let place: Vec<_> =
            place.iter().map(|(key, value)| (key.as_str(), RawJson::encode(value))).collect();
        let place: Vec<_> = place.iter().map(|(key, value)| (*key, value)).collect();
        let bare = definition.without_members(&PLACE);
        let whole = bare.and_then(|definition| definition.with_first(&place));
        whole.unwrap_or_else(|_| json::object(place))
    }

    fn finding<'a>(&self, found: &'a ToolMatch) -> SearchHit<'a> {
        let tool = found.tool();
        SearchHit {
            toolbox: tool.id.toolbox.as_str(),
            server: tool.id.server.as_str(),
            name: tool.id.tool.as_str(),
            in_your_list: (self.is_listed)(tool).then_some(tool.name.as_str()),
            score: found.fit.score,
        }
    }
}

pub(crate) fn unsearched(
    gateway: &Gateway,
    toolbox: Option<&ToolboxName>,
    server: Option<&ServerName>,
) -> Vec<(String, String)> {
    let unsearched = gateway.search().unsearchable_servers(toolbox, server).into_iter();
    let said = unsearched.map(|(at, failed)| {
        let why = match failed {
            Some(failed) => {
                format!("{}. {}", on_one_line(&failed.reason), on_one_line(&failed.hint))
            }
            None => "still starting; retry in a moment".to_owned(),
        };
        (format!("{}/{}", at.toolbox, at.server), shorten(&why, MAX_REASON))
    });
    said.collect()
}
