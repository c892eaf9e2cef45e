//! The answers of `search_tools`: for each query the tools that fit, one a line.

use serde_json::{Map, Value, json};

use crate::backend::Outcome;
use crate::catalog::rank::{no_server_for, rounded};
use crate::catalog::{ToolDefinition, shorten};
use crate::exposure::guidance::on_one_line;
use crate::exposure::listing::{self, Line, Listing};
use crate::exposure::meta::Detail;
use crate::gateway::{Found, Gateway};
use crate::name::{ServerName, ToolboxName};
use crate::raw::Raw;

/// How much of a query is repeated, in characters, and the part of its room at most.
const MAX_ECHO: usize = 120;
const ECHO_PART: usize = 20;
/// With less room than this, in bytes, remarks on a query are short.
const SHORT: usize = 400;
/// How long a signature may be, in characters; longer ones end in `…`.
const MAX_SIGNATURE: usize = 400;
/// How many servers are named that nothing is known of, how long the reason for each may be, and
/// which part of an answer all of them may take.
const MAX_SERVERS: usize = 5;
const MAX_REASON: usize = 160;
const SERVERS_PART: usize = 8;

/// The members that stand before a definition, whatever its server says of it.
const PLACE: [&str; 4] = ["toolbox", "server", "in_your_list", "score"];

const CALL: &str = "use_tool {tool: {toolbox, server, tool: <name>}, arguments: {…}}";
const CALL_LISTED: &str = "by `in_your_list` where there is one, else with use_tool {tool: \
                           {toolbox, server, tool: <name>}, arguments: {…}}";
const NOTHING: &str = "no tool fits; try other words (service, verb, object of one step, in \
                       English) or all toolboxes, else there is none";
const NOTHING_SHORT: &str = "no tool fits";
const HARDLY: &str =
    "nothing fits well; unless one of these does it, try other words, else there is none";
const MORE: &str = "not every definition found room; ask with fewer queries or a smaller limit";

/// The finds of one query.
pub(crate) struct Answered<'a> {
    pub(crate) query: &'a str,
    /// The tools, the best first.
    pub(crate) tools: Vec<Found>,
    /// The services that it names and that are not here.
    pub(crate) absent: Vec<String>,
}

/// A tool that was found, as an answer has it: where it is, what it is called there, and how well
/// it fits.
#[derive(Clone, Copy, Debug)]
pub struct Finding<'a> {
    /// The toolbox.
    pub toolbox: &'a str,
    /// The server in it.
    pub server: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// Its name in the agent's list, if it is there.
    pub in_your_list: Option<&'a str>,
    /// How well it fits, from 0 to 1.
    pub score: f32,
}

impl Finding<'_> {
    /// The line for it, with its signature and the first sentence of what it does.
    pub fn line(&self, tool: &ToolDefinition) -> Raw {
        let mut line = self.place();
        let signature = shorten(&tool.signature(), MAX_SIGNATURE);
        line.insert("signature".to_owned(), signature.into());
        if let Some(summary) = tool.summary() {
            line.insert("description".to_owned(), summary.into());
        }
        Raw::encode(&Value::Object(line))
    }

    fn place(&self) -> Map<String, Value> {
        let mut place = Map::new();
        place.insert("toolbox".to_owned(), self.toolbox.into());
        place.insert("server".to_owned(), self.server.into());
        place.insert("name".to_owned(), self.name.into());
        if let Some(name) = self.in_your_list {
            place.insert("in_your_list".to_owned(), name.into());
        }
        place.insert("score".to_owned(), rounded(self.score).into());
        place
    }
}

/// The facts that an answer depends on besides the tools that were found.
pub(crate) struct Answer<'a> {
    pub(crate) detail: Detail,
    pub(crate) queries_left_out: usize,
    /// Servers that nothing is known of, by toolbox, and why.
    pub(crate) not_searched: Vec<(String, String)>,
    /// Tells if the tools of a toolbox are in the agent's list.
    pub(crate) is_listed: &'a dyn Fn(&ToolboxName) -> bool,
    /// The most bytes.
    pub(crate) max: usize,
}

impl Answer<'_> {
    /// The answer, with what was found for each query.
    pub(crate) fn outcome(&self, found: &[Answered<'_>]) -> Outcome {
        Outcome::Result(Raw::encode(&json!({
            "content": [{"type": "text", "text": self.text(found)}],
        })))
    }

    fn text(&self, found: &[Answered<'_>]) -> String {
        let mut header = self.header(found);
        let mut room = listing::room(self.max, &header);
        let (mut results, mut has_stepped_down) = (Vec::new(), false);
        for (index, Answered { query, tools, absent }) in found.iter().enumerate() {
            // What one query leaves is there for the next ones.
            let share = room / (found.len() - index);
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
                head.insert("note".to_owned(), no_server_for(absent).into());
            }
            let listing = self.listing(tools, listing::room(share, &head));
            has_stepped_down |= self.detail == Detail::Full && listing.step > 0;
            if listing.left_out > 0 {
                head.insert("tools_left_out".to_owned(), listing.left_out.into());
            }
            let text = if tools.is_empty() { listing.compact(&head) } else { listing.text(&head) };
            room = room.saturating_sub(text.len());
            results.push(text);
        }
        if has_stepped_down {
            header.insert("more".to_owned(), MORE.into());
        }
        listing::object(&header, "results", results, "\n")
    }

    fn header(&self, found: &[Answered<'_>]) -> Map<String, Value> {
        let mut header = Map::new();
        let mut tools = found.iter().flat_map(|answered| &answered.tools);
        let is_listed = |found: &Found| (self.is_listed)(&found.tool().id.toolbox);
        if tools.clone().any(is_listed) {
            header.insert("call".to_owned(), CALL_LISTED.into());
        } else if tools.next().is_some() {
            header.insert("call".to_owned(), CALL.into());
        }
        if self.queries_left_out > 0 {
            header.insert("queries_left_out".to_owned(), self.queries_left_out.into());
        }
        let mut room = self.max / SERVERS_PART;
        let named = self.not_searched.iter().take(MAX_SERVERS).map_while(|(place, why)| {
            room = room.checked_sub(place.len() + why.len())?;
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

    fn listing(&self, tools: &[Found], room: usize) -> Listing {
        let tools: Vec<&Found> = tools.iter().collect();
        let whole = |found: &Found| self.whole(found);
        let line = |found: &Found| self.finding(found).line(&found.tool().definition);
        let short = |found: &Found| Raw::encode(&Value::Object(self.finding(found).place()));
        let ways: [Line<'_, Found>; 3] = [&whole, &line, &short];
        match self.detail {
            Detail::Full => {
                let listing = listing::best_first(&tools, &ways[..2], room);
                if listing.left_out == 0 {
                    return listing;
                }
                listing::in_one_way(&tools, &ways[1..], room)
            }
            Detail::Signatures => listing::in_one_way(&tools, &ways[1..], room),
        }
    }

    /// The server's own definition, preceded by its place and score.
    fn whole(&self, found: &Found) -> Raw {
        let definition = &found.tool().definition.raw;
        let mut place = self.finding(found).place();
        place.remove("name");
        let place: Vec<_> =
            place.iter().map(|(key, value)| (key.as_str(), Raw::encode(value))).collect();
        let place: Vec<_> = place.iter().map(|(key, value)| (*key, value)).collect();
        let bare = definition.without_members(&PLACE);
        let whole = bare.and_then(|definition| definition.with_first(&place));
        whole.unwrap_or_else(|| definition.clone())
    }

    fn finding<'a>(&self, found: &'a Found) -> Finding<'a> {
        let tool = found.tool();
        Finding {
            toolbox: tool.id.toolbox.as_str(),
            server: tool.id.server.as_str(),
            name: tool.id.tool.as_str(),
            in_your_list: (self.is_listed)(&tool.id.toolbox).then_some(tool.name.as_str()),
            score: found.fit.score,
        }
    }
}

/// The searched servers that nothing is known of.
pub(crate) fn unsearched(
    gateway: &Gateway,
    toolbox: Option<&ToolboxName>,
    server: Option<&ServerName>,
) -> Vec<(String, String)> {
    let unsearched = gateway.unsearched(toolbox, server).into_iter();
    let said = unsearched.map(|(at, failed)| {
        let why = match failed {
            Some(failed) => {
                format!("{}. {}", on_one_line(&failed.reason), on_one_line(&failed.hint))
            }
            None => "it is still starting; ask again in a moment".to_owned(),
        };
        (format!("{}/{}", at.toolbox, at.server), shorten(&why, MAX_REASON))
    });
    said.collect()
}
