//! Macros: tools of ours, of steps over other tools.
//!
//! *Theory of operation.* A toolbox has its macros as the tools of one server that is none
//! ([`Member::Macros`]). The writer of snapshots shows those whose steps' tools are all there for the
//! agent ([`Written`]), so that every surface has them, and none tells of a tool that is not. A call of
//! one goes the way of any call, and where others are sent to their server it runs its steps
//! ([`running`]). Each of these is a call of its own, with all that belongs to it: leave, schema,
//! rates, confirmation, places, a line in the audit.
//!
//! [`Member::Macros`]: crate::gateway::members::Member::Macros

mod account;
mod plan;
mod running;
mod values;

use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use crate::backend::Outcome;
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::config::{Config, MacroConfig};
use crate::gateway::course::Course;
use crate::gateway::{CallError, Gateway, Origin};
use crate::name::{ToolId, ToolboxName};
use crate::observe::Watch;
use crate::raw::{self, Raw};

/// The macros of one toolbox.
pub(crate) struct Written {
    pub(crate) toolbox: ToolboxName,
    /// Each with the tools that it calls.
    tools: Vec<(Vec<ToolId>, Arc<ToolDefinition>)>,
}

impl Written {
    /// Those of all toolboxes that have some.
    pub(crate) fn all(config: &Config) -> Vec<Self> {
        let toolboxes = config.toolboxes.iter().map(|toolbox| {
            let tools = toolbox.macros().filter_map(|config| {
                let tools = config.steps.iter().map(|step| step.tool.clone());
                Some((tools.collect(), Arc::new(definition(config)?)))
            });
            Self { toolbox: toolbox.name.clone(), tools: tools.collect() }
        });
        toolboxes.filter(|written| !written.tools.is_empty()).collect()
    }

    /// Those of which every tool is there.
    pub(crate) fn listing(&self, is_there: impl Fn(&ToolId) -> bool) -> Listing {
        let tools = self.tools.iter().filter(|(tools, _)| tools.iter().all(&is_there));
        let tools = tools.map(|(_, definition)| Arc::clone(definition));
        Listing { tools: tools.collect(), ..Listing::default() }
    }
}

fn definition(config: &MacroConfig) -> Option<ToolDefinition> {
    let MacroConfig { name, description, input_schema, .. } = config;
    let (name, description) = (Raw::of_text(name), Raw::of_text(description));
    let schema: Box<RawValue> = serde_json::from_str(input_schema).ok()?;
    let schema = Raw::encode(&schema);
    let members = [("name", &name), ("description", &description), ("inputSchema", &schema)];
    ToolDefinition::parse(raw::object(members)).ok()
}

impl Gateway {
    /// The steps of a call of a macro, up to its own.
    ///
    /// It takes no place and is not counted: what it asks of servers is, and it would wait for
    /// itself. What its type does not tell, the calls in it need not know.
    pub(crate) fn take_macro<'a>(
        &'a self,
        tool: &'a ToolId,
        given: Option<&'a Raw>,
        origin: Origin<'a>,
        course: &'a mut Course,
        watch: &'a mut Watch<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<Outcome, CallError>> + Send + 'a>> {
        Box::pin(async move {
            self.recalled().await;
            let view = self.snapshot().view(&tool.toolbox);
            let shown = view.tool(tool.server.as_str(), &tool.tool);
            let toolbox = self.config.toolbox(tool.toolbox.as_str());
            let config = toolbox.and_then(|t| t.macros().find(|config| config.name == tool.tool));
            let (Some(shown), Some(config)) = (shown, config) else {
                self.not_found(tool, watch);
                return Err(self.unknown_tool(tool));
            };
            let (permit, arguments) = self.permit(tool, shown, given, course, watch)?;
            if let Some(concern) = permit.confirmation() {
                Box::pin(self.confirm(tool, concern, given, origin, course)).await?;
            }
            Ok(self.run(config, arguments, origin).await)
        })
    }
}

/// A result of ours that is this value.
fn result(value: &Raw) -> Outcome {
    let text = value.text().unwrap_or_else(|| value.as_str());
    let content = Raw::encode(&json!([{"type": "text", "text": text}]));
    let members = [("content", &content), ("structuredContent", value)];
    let is_object = value.as_bytes().starts_with(b"{");
    Outcome::Result(raw::object(members.into_iter().take(if is_object { 2 } else { 1 })))
}
