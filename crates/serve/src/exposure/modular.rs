//! `modular`: one tool gives the definitions of a group, the other calls one of them.
//!
//! A group is a toolbox. What the tools are called, what they say of themselves and what they
//! answer is what users of Modular MCP know; the README says what is different. A category, which
//! is a group of some tools of one server by the names that the user wrote, is answered in the form
//! that its users know.

mod answers;
mod arguments;
mod definitions;
mod names;

use std::time::Duration;

use crate::catalog::shorten;
use crate::exposure::answer;
use crate::exposure::budget::names_that_fit;
use crate::exposure::mode::{Audience, Doing, Exposure, Mode};
use crate::exposure::modular::arguments::{CallTool, GetTools};
use crate::exposure::request::{CalledBy, Reply, Request};
use crate::gateway::{FailedServer, RequestContext};
use crate::name::{self, ToolId};
use crate::raw::Raw;
use crate::settings::{Config, ToolboxConfig};

use crate::exposure::modular::definitions::{instructions, tools};

/// The tool that gives the definitions of a group.
pub(crate) const GET: &str = "get-modular-tools";
/// The tool that calls a tool of a group.
pub(crate) const CALL: &str = "call-modular-tool";
/// The name of the first tool where Modular MCP has categories; understood, but not listed.
pub(crate) const GET_CATEGORY: &str = "get-category-tools";
/// The name of the second tool there.
pub(crate) const CALL_CATEGORY: &str = "call-category-tool";
/// How long the first list of tools waits for servers, to tell which of them fail. Most that fail
/// do so at once, and to be listed a group need not be ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most names that are offered for one that is not there.
const OFFERED: usize = 5;
/// The most bytes of names that an error offers.
const MAX_NAMES: usize = 600;
/// How much of a name that is not there an error repeats, in characters.
const MAX_NAME: usize = 200;

/// The mode.
pub(crate) struct Modular;

impl Mode for Modular {
    fn instructions(&self, config: &Config) -> Option<String> {
        Some(instructions(config))
    }

    fn where_tools_are(&self) -> &'static str {
        "get-modular-tools shows all tools of a group."
    }

    fn own_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        tools(audience.exposure.gateway())
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        match request.name {
            GET | GET_CATEGORY => Some(Box::pin(exposure.get_modular_tools(request))),
            CALL | CALL_CATEGORY => Some(Box::pin(exposure.call_modular_tool(request))),
            _ => None,
        }
    }

    fn tells_of_servers(&self) -> bool {
        true
    }

    fn patience(&self) -> Option<Duration> {
        Some(PATIENCE)
    }
}

impl Exposure {
    async fn get_modular_tools(&self, request: Request<'_>) -> Reply {
        let config = self.gateway().config();
        let wanted = match GetTools::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let toolbox = match group(config, &wanted.group) {
            Ok(toolbox) => toolbox,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        self.gateway().recalled().await;
        // What servers listed when they last ran will do; what has changed is told when they run.
        let failed = if self.gateway().is_known(toolbox) {
            Vec::new()
        } else {
            self.gateway().open(toolbox, request.context).await.failed
        };
        if have_all_failed(toolbox, &failed) {
            return Reply::plain(answer::error(&unavailable(toolbox, &failed)));
        }
        let view = self.gateway().snapshot().view(&toolbox.name);
        let telling =
            answers::Telling { max: self.listing_bytes(), is_modern: request.context.is_modern };
        match answers::tools(toolbox, &view, &failed, wanted.names.as_deref(), telling) {
            Ok(outcome) => {
                let opened = Some(toolbox.name.clone());
                Reply { opened, ..Reply::plain(outcome) }
            }
            Err(problem) => Reply::plain(answer::error(&problem)),
        }
    }

    async fn call_modular_tool(&self, request: Request<'_>) -> Reply {
        let wanted = match CallTool::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let toolbox = match group(self.gateway().config(), &wanted.group) {
            Ok(toolbox) => toolbox,
            Err(problem) => return self.unresolved(&wanted, &problem, request.context),
        };
        match self.find_modular(toolbox, &wanted.name, &request).await {
            Ok(tool) => {
                self.use_tool(&tool, wanted.args.as_ref(), CalledBy::OurTool, &request).await
            }
            Err(problem) => self.unresolved(&wanted, &problem, request.context),
        }
    }

    /// Answers a call that has led to no tool.
    fn unresolved(&self, wanted: &CallTool, problem: &str, context: &RequestContext<'_>) -> Reply {
        self.gateway().note_unresolved(&wanted.name, wanted.args.as_ref(), None, context);
        Reply::plain(answer::error(problem))
    }

    /// The tool of a group that is called so, whose servers are started where it may be theirs.
    async fn find_modular(
        &self,
        toolbox: &ToolboxConfig,
        name: &str,
        request: &Request<'_>,
    ) -> Result<ToolId, String> {
        let resolve = || {
            let view = self.gateway().snapshot().view(&toolbox.name);
            names::resolve(toolbox, &view, name).map(|tool| tool.id.clone())
        };
        self.gateway().recalled().await;
        if let Ok(tool) = resolve() {
            return Ok(tool);
        }
        let failed = if self.gateway().is_current(toolbox) {
            Vec::new()
        } else {
            self.gateway().open(toolbox, request.context).await.failed
        };
        if have_all_failed(toolbox, &failed) {
            return Err(unavailable(toolbox, &failed));
        }
        resolve().map_err(|near| {
            let failed: String = failed.iter().map(because).collect();
            format!("{}{failed}", no_tool(toolbox, name, &near))
        })
    }
}

/// Returns `true` if a group has servers, and none of them can be had.
fn have_all_failed(toolbox: &ToolboxConfig, failed: &[FailedServer]) -> bool {
    !failed.is_empty() && failed.len() == toolbox.launched().count()
}

/// The group of this name.
fn group<'a>(config: &'a Config, wanted: &str) -> Result<&'a ToolboxConfig, String> {
    if let Some(toolbox) = config.toolbox(wanted) {
        return Ok(toolbox);
    }
    let known = || config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
    let near = name::nearest(wanted, known(), OFFERED);
    let near = match near.as_slice() {
        [] => String::new(),
        near => format!(" Did you mean {}?", quoted(near)),
    };
    let groups = match names_that_fit(MAX_NAMES, known()) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    };
    let wanted = shorten(wanted, MAX_NAME);
    Err(format!("there is no group `{wanted}`.{near} The groups are: {groups}."))
}

fn unavailable(toolbox: &ToolboxConfig, failed: &[FailedServer]) -> String {
    let failed: String = failed.iter().map(because).collect();
    format!("the group `{}` is not available.{failed}", toolbox.name)
}

fn because(FailedServer { server, reason, hint, .. }: &FailedServer) -> String {
    format!("\nserver `{server}`: {reason}\nWhat to do: {hint}.")
}

fn no_tool(toolbox: &ToolboxConfig, wanted: &str, near: &[String]) -> String {
    let near =
        if near.is_empty() { String::new() } else { format!(" Did you mean {}?", quoted(near)) };
    format!(
        "the group `{group}` has no tool `{wanted}`.{near} {GET} with \"group\": \"{group}\" shows \
         its tools.",
        group = toolbox.name,
        wanted = shorten(wanted, MAX_NAME),
    )
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    names.join(", ")
}
