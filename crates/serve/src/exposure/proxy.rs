//! `proxy`: opening a toolbox returns its tools' definitions, and `use_tool` calls them.
//!
//! Also what is presented to a client that does not follow changes of its tool list in time, or may
//! not; and, beside tools that are registered, to one of which that is not known.

use serde_json::{Value, json};

use crate::backend::Outcome;
use crate::exposure::listing::Line;
use crate::exposure::meta::{Detail, OpenToolbox};
use crate::exposure::mode::Giving;
use crate::exposure::{answer, listing, meta, search, signatures};
use crate::gateway::{Opened, Snapshot};
use crate::name;
use crate::raw::Raw;
use crate::settings::{Config, ToolboxConfig};
use crate::toolbox::ViewTool;

/// The most names that are offered for one that is not there.
const OFFERED: usize = 5;
/// The member that has the name a tool is registered under.
const IN_YOUR_LIST: &str = "in_your_list";
/// How tools are called that may not be in the agent's list.
const CALL_UNLISTED: &str = "by `in_your_list` if your tool list has it, else with use_tool {tool: \
                             {toolbox, server, tool: <name>}, arguments: {…}}";
/// How tools are called where the agent's list stays as it is, though `dynamic` is asked for.
const CALL_FROZEN: &str = "with use_tool {tool: {toolbox, server, tool: <name>}, arguments: {…}}; \
                           your tool list stays as it is";

/// The remark for a model whose client, of which nothing was known, does not list tools again.
const UNREAD: &str = "your client has not read its tool list again; if it calls neither these tools \
                      nor use_tool, ";
/// The way out for a user whose client does not list tools again.
pub(crate) const WAY_OUT: &str = "ask your user to set \"relistsInTime\": false for it under \
                                  `clients` in the configuration of the workbench";

/// The view of tools that a client has not called yet.
#[derive(Clone, Copy)]
pub(crate) struct Showing {
    /// `true` if its model is known to be shown the instructions.
    pub(crate) reads_instructions: bool,
    /// The most bytes of the description of `use_tool`, if that is to have the signatures of tools.
    pub(crate) signatures: Option<usize>,
}

/// `open_toolbox` and `use_tool`, always, and `search_tools` where it is offered.
pub(crate) fn own(config: &Config, at: &Snapshot, giving: Giving, showing: Showing) -> Vec<Raw> {
    let Showing { reads_instructions, signatures } = showing;
    let offers_detail = signatures.is_none();
    let signatures = signatures
        .and_then(|max| signatures::written(config, at, max.saturating_sub(meta::USES.len() + 1)));
    // What toolboxes are for shows in their tools.
    let is_known = reads_instructions || signatures.as_ref().is_some_and(|all| all.has_all);
    let mut tools = vec![meta::open_toolbox(config, giving, is_known, offers_detail)];
    tools.extend(search::offered(config, giving));
    tools.push(match signatures {
        Some(signatures) => {
            meta::described_use_tool(&format!("{} {}", meta::USES, signatures.text))
        }
        None => meta::use_tool(meta::OPEN_TOOLBOX),
    });
    tools
}

/// How an opening is answered.
#[derive(Clone, Copy)]
pub(crate) struct Telling {
    /// How much is said of each tool, if the call does not say.
    pub(crate) detail: Detail,
    pub(crate) calls: Calls,
    /// The most bytes.
    pub(crate) max: usize,
}

/// How the tools of an opened toolbox are called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// With `use_tool`, as its definition says.
    WithUseTool,
    /// With `use_tool`, although the mode adds tools to lists.
    WithUseToolAlone,
    /// By their registered names where the model finds them in its list, else with `use_tool`.
    ByNameIfListed,
    /// In the same way, as the client has not listed them; the model has been told that, or is now.
    Unread { is_told: bool },
}

/// The tools that were asked for: whole definitions where they fit, or signatures.
pub(crate) fn opened(
    toolbox: &ToolboxConfig,
    opened: &Opened,
    wanted: &OpenToolbox,
    telling: Telling,
) -> Outcome {
    let Telling { detail, calls, max } = telling;
    let tools = match chosen(opened, wanted.tools.as_deref()) {
        Ok(tools) => tools,
        Err(problem) => return answer::error(&problem),
    };
    let mut header = listing::header(toolbox, opened);
    match calls {
        Calls::WithUseTool => {}
        Calls::WithUseToolAlone => _ = header.insert("call".to_owned(), CALL_FROZEN.into()),
        Calls::ByNameIfListed | Calls::Unread { .. } => {
            header.insert("tools_registered".to_owned(), opened.view.tool_count().into());
            header.insert("call".to_owned(), CALL_UNLISTED.into());
        }
    }
    if calls == (Calls::Unread { is_told: false }) {
        header.insert("note".to_owned(), format!("{UNREAD}{WAY_OUT}").into());
    }
    let max = listing::room(max, &header);
    let is_registered = matches!(calls, Calls::ByNameIfListed | Calls::Unread { .. });
    let whole = |tool: &ViewTool| located(tool, is_registered);
    let signature = |tool: &ViewTool| signature(tool, is_registered);
    let short = |tool: &ViewTool| short_signature(tool, is_registered);
    let ways: [Line<'_>; 4] = [&whole, &signature, &short, &bare_signature];
    let definitions = [ways[0], ways[1], ways[3]];
    let listing = match (wanted.detail, &wanted.tools, detail) {
        (Some(Detail::Signatures), ..) => listing::in_one_way(&tools, &[ways[1], ways[3]], max),
        (Some(Detail::Full), ..) | (None, Some(_), _) => {
            listing::best_first(&tools, &definitions[..2], max)
        }
        (None, None, Detail::Full) => listing::in_one_way(&tools, &definitions, max),
        (None, None, Detail::Signatures) => listing::in_one_way(&tools, &ways[2..], max),
    };
    if listing.left_out > 0 {
        header.insert("tools_left_out".to_owned(), listing.left_out.into());
    }
    let has_signatures = wanted.detail.unwrap_or(detail) == Detail::Signatures
        && (wanted.detail.is_some() || wanted.tools.is_none());
    if listing.step > 0 || listing.left_out > 0 || has_signatures {
        let example = tools.first().map_or("<name>", |tool| tool.id.tool.as_str());
        let more = format!(
            "for whole definitions call open_toolbox with \"tools\": [\"{example}\"] and \
             \"detail\": \"full\""
        );
        header.insert("more".to_owned(), more.into());
    }
    let mut result = json!({"content": [{"type": "text", "text": listing.text(&header)}]});
    if opened.is_failure() {
        result["isError"] = true.into();
    }
    Outcome::Result(Raw::encode(&result))
}

/// The tools with these names (their own or their registered ones), or all.
fn chosen<'a>(opened: &'a Opened, wanted: Option<&[String]>) -> Result<Vec<&'a ViewTool>, String> {
    let all = || opened.view.tools();
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return Ok(all().collect());
    };
    let is_registered = |name: &str| all().any(|tool| tool.name.as_str() == name);
    let is_called = |tool: &ViewTool, name: &str| {
        tool.name.as_str() == name || tool.id.tool == name && !is_registered(name)
    };
    for name in wanted {
        if !all().any(|tool| is_called(tool, name)) {
            let known = all().map(|tool| tool.id.tool.as_str());
            let near: Vec<_> = name::nearest(name, known, OFFERED)
                .into_iter()
                .map(|near| format!("`{near}`"))
                .collect();
            let hint = if near.is_empty() {
                "Call open_toolbox without \"tools\" to see them all.".to_owned()
            } else {
                format!("Did you mean {}?", near.join(", "))
            };
            return Err(format!("the toolbox has no tool `{name}`. {hint}"));
        }
    }
    Ok(all().filter(|tool| wanted.iter().any(|name| is_called(tool, name))).collect())
}

/// The whole definition, with where the tool is.
fn located(tool: &ViewTool, is_registered: bool) -> Raw {
    let located = tool.located();
    let name = Raw::encode(&tool.name.as_str());
    let listed = is_registered.then(|| located.with_member(IN_YOUR_LIST, &name)).flatten();
    listed.unwrap_or(located)
}

fn signature(tool: &ViewTool, is_registered: bool) -> Raw {
    let mut line = json!({
        "server": tool.id.server.as_str(),
        "name": tool.id.tool,
        "signature": tool.definition.signature(),
        "description": tool.definition.summary().unwrap_or_default(),
    });
    if is_registered {
        line[IN_YOUR_LIST] = tool.name.as_str().into();
    }
    Raw::encode(&line)
}

/// The signature and the first sentence, and nothing that they say already.
fn short_signature(tool: &ViewTool, is_registered: bool) -> Raw {
    let mut line = json!({
        "server": tool.id.server.as_str(),
        "signature": tool.definition.signature(),
    });
    if let Some(summary) = tool.definition.summary() {
        line["description"] = summary.into();
    }
    if is_registered {
        line[IN_YOUR_LIST] = Value::from(tool.name.as_str());
    }
    Raw::encode(&line)
}

fn bare_signature(tool: &ViewTool) -> Raw {
    Raw::encode(&json!({
        "server": tool.id.server.as_str(),
        "signature": tool.definition.signature(),
    }))
}
