//! The answer of `get-modular-tools`: what Modular MCP answers, in a text of its own, and what else
//! is to be said in a second one.

use std::collections::HashMap;

use serde_json::json;

use crate::backend::Outcome;
use crate::catalog::shorten;
use crate::exposure::answer;
use crate::exposure::budget::names_that_fit;
use crate::exposure::listing::{self, Line};
use crate::exposure::modular::names::{self, Named};
use crate::exposure::modular::{GET, no_tool};
use crate::gateway::FailedServer;
use crate::name::{ToolId, seen};
use crate::raw::{self, Raw};
use crate::settings::{ServerConfig, ToolboxConfig};
use crate::toolbox::{View, ViewTool};

/// How long what servers say of themselves may be, all together, in characters.
const MAX_INSTRUCTIONS: usize = 4000;
/// How long the reason for one failed server may be, in characters.
const MAX_REASON: usize = 500;
/// The most bytes of names of a category's tools that cannot be had.
const MAX_MISSING: usize = 2000;
/// The bytes for the remark on what was shortened.
const REMARK: usize = 400;

/// How an answer is written.
#[derive(Clone, Copy)]
pub(crate) struct Telling {
    /// The most bytes.
    pub(crate) max: usize,
    /// True if the agent speaks the modern revision.
    pub(crate) is_modern: bool,
}

/// The tools of a group, or those of them that are `wanted`; whole where they fit.
pub(crate) fn tools(
    toolbox: &ToolboxConfig,
    view: &View,
    failed: &[FailedServer],
    wanted: Option<&[String]>,
    telling: Telling,
) -> Result<Outcome, String> {
    let Telling { max, is_modern } = telling;
    let all = chosen(toolbox, view, wanted)?;
    let called: HashMap<&ToolId, &str> =
        all.iter().map(|tool| (&tool.tool.id, tool.name.as_str())).collect();
    let name = |tool: &ViewTool| called.get(&tool.id).copied().unwrap_or_default();
    let ways: [Line<'_>; 4] = [
        &|tool| definition(tool, name(tool)),
        &|tool| signature(tool, name(tool), true),
        &|tool| signature(tool, name(tool), false),
        &|tool| Raw::encode(&json!({"name": name(tool)})),
    ];
    let form = Form::of(toolbox, view);
    let mut remarks = remarks(view, failed);
    let keys: usize = match form {
        Form::List => 0,
        Form::Category { .. } => all.iter().map(|tool| tool.name.len() + "\"\":".len()).sum(),
    };
    let taken = form.head().len() + keys + remarks.iter().map(String::len).sum::<usize>() + REMARK;
    let room = max.saturating_sub(taken);
    let shown: Vec<_> = all.iter().map(|tool| tool.tool).collect();
    let listing = match wanted {
        Some(_) => listing::best_first(&shown, &ways[..2], room),
        None => listing::in_one_way(&shown, &ways, room),
    };
    if listing.left_out > 0 {
        remarks.push(format!("{} of {} tools found no room.", listing.left_out, shown.len()));
    }
    if (listing.step > 0 || listing.left_out > 0)
        && let Some(first) = all.first()
    {
        remarks.push(format!(
            "Whole definitions would have been too long. For those of single tools call {GET} with \
             {}.",
            json!({"group": toolbox.name.as_str(), "names": [first.name]})
        ));
    }
    let text = form.text(all.iter().map(|tool| tool.name.as_str()).zip(&listing.lines));
    let remarks = (!remarks.is_empty()).then(|| remarks.join("\n\n"));
    let texts = std::iter::once(text.as_str()).chain(remarks.as_deref());
    let content: Vec<_> = texts.map(|text| json!({"type": "text", "text": text})).collect();
    let content = Raw::encode(&content);
    let structured = match form {
        Form::List if !is_modern => Some(structured(&listing.lines, remarks.as_deref())),
        Form::List | Form::Category { .. } => None,
    };
    let structured = structured.as_ref().map(|structured| (answer::STRUCTURED, structured));
    Ok(Outcome::Result(raw::object([("content", &content)].into_iter().chain(structured))))
}

/// The answer as an object, for agents of the older revisions. Gemini CLI takes a text that is JSON for
/// the `structuredContent` of an answer that has none, and refuses the answer where that is an array.
/// Other clients show their model this in place of the texts, so all of these are in it.
fn structured(tools: &[Raw], remarks: Option<&str>) -> Raw {
    let tools = raw::array(tools);
    let remarks = remarks.map(Raw::of_text);
    let remarks = remarks.as_ref().map(|remarks| ("remarks", remarks));
    raw::object([("tools", &tools)].into_iter().chain(remarks))
}

fn chosen<'a>(
    toolbox: &ToolboxConfig,
    view: &'a View,
    wanted: Option<&[String]>,
) -> Result<Vec<Named<'a>>, String> {
    let mut all = names::named(toolbox, view);
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        let mut ids = Vec::new();
        for name in wanted {
            let tool = names::resolve(toolbox, view, name);
            ids.push(&tool.map_err(|near| no_tool(toolbox, name, &near))?.id);
        }
        all.retain(|tool| ids.contains(&&tool.tool.id));
    }
    Ok(all)
}

/// The members of a tool's definition that a model needs, each as the server wrote it. The others
/// are for clients.
fn definition(tool: &ViewTool, name: &str) -> Raw {
    let definition = &tool.definition;
    let member = |key: &str| definition.raw.member(key);
    let description = member("description").filter(|text| text.as_bytes().starts_with(b"\""));
    // It may have a title in its place.
    let description = description.or_else(|| definition.description.as_ref().map(Raw::encode));
    let schema = member("inputSchema").map(|schema| {
        let bare = schema.without_member("$schema");
        bare.unwrap_or(schema)
    });
    let members = [
        ("name", Some(Raw::encode(&name))),
        ("description", description),
        ("inputSchema", schema),
        ("annotations", member("annotations")),
    ];
    raw::object(members.iter().filter_map(|(key, value)| Some((*key, value.as_ref()?))))
}

fn signature(tool: &ViewTool, name: &str, is_described: bool) -> Raw {
    let mut line = json!({"name": name, "signature": tool.definition.signature()});
    if let Some(summary) = tool.definition.summary().filter(|_| is_described) {
        line["description"] = summary.into();
    }
    Raw::encode(&line)
}

/// How the tools are put together.
enum Form {
    /// One after the other.
    List,
    /// By their names, with this before them.
    Category { meta: String },
}

impl Form {
    fn of(toolbox: &ToolboxConfig, view: &View) -> Self {
        let mut servers = toolbox.launched();
        match (servers.next(), servers.next()) {
            (Some(server), None) if server.include.is_some() => {
                Self::Category { meta: meta(toolbox, server, view) }
            }
            _ => Self::List,
        }
    }

    fn head(&self) -> String {
        match self {
            Self::List => "[".to_owned(),
            // What must not be cut off by a client comes first.
            Self::Category { meta } => format!("{{\"meta\":{meta},\"tools\":{{"),
        }
    }

    fn text<'a>(&self, tools: impl Iterator<Item = (&'a str, &'a Raw)>) -> String {
        let mut text = self.head();
        for (index, (name, tool)) in tools.enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            if let Self::Category { .. } = self {
                text.push_str(&Raw::encode(&name).as_str());
                text.push(':');
            }
            text.push_str(&tool.as_str());
        }
        text.push_str(match self {
            Self::List => "\n]",
            Self::Category { .. } => "\n}}",
        });
        text
    }
}

fn meta(toolbox: &ToolboxConfig, server: &ServerConfig, view: &View) -> String {
    let mut meta = json!({
        "category": toolbox.name.as_str(),
        "sourceServer": server.name.as_str(),
    });
    let missing = names::missing(server, view);
    if !missing.is_empty() {
        let (_, more) = names_that_fit(MAX_MISSING, missing.iter().copied());
        let shown = missing[..missing.len() - more].iter().map(|name| (*name).to_owned());
        let rest = (more > 0).then(|| format!("and {more} more"));
        meta["unavailableTools"] = shown.chain(rest).collect();
    }
    meta.to_string()
}

/// Remarks on the servers beside the tools.
fn remarks(view: &View, failed: &[FailedServer]) -> Vec<String> {
    let failed = failed.iter().map(|FailedServer { server, reason, hint, .. }| {
        let reason = shorten(reason, MAX_REASON);
        format!("Server `{server}` of this group is not available: {reason}\nWhat to do: {hint}.")
    });
    let max = MAX_INSTRUCTIONS / view.instructions().count().max(1);
    let instructions = view.instructions().map(|(server, text)| {
        let said = shorten(&seen::fenced(text), max);
        format!("What server `{server}` says of itself:\n{said}")
    });
    failed.chain(instructions).collect()
}
