//! Macros: tools of ours, of steps over other tools.
//!
//! *Theory of operation.* A toolbox has its macros as the tools of one server that is none
//! ([`Member::Macros`]). The writer of snapshots shows those whose steps' tools are all there for the
//! agent ([`Written`]), so that every surface has them, and none tells of a tool that is not. A call of
//! one goes the way of any call, and where others are sent to their server it runs its steps
//! ([`running`]). Each of these is a call of its own, with all that belongs to it: a grant, schema,
//! rates, confirmation, places, a line in the audit.
//!
//! [`Member::Macros`]: crate::gateway::members::Member::Macros

mod account;
mod plan;
mod running;
mod values;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use crate::backend::Outcome;
use crate::catalog::schema::{MAX_CHECKED, Mismatch};
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::name::{ServerRef, ToolId, ToolboxName};
use crate::observe::CallContext;
use crate::raw::{self, Raw};
use crate::settings::{Config, MacroConfig};
use crate::toolbox::ViewTool;

/// The macros of one toolbox.
pub(crate) struct Written {
    pub(crate) toolbox: ToolboxName,
    /// Each with the tools that it calls.
    tools: Vec<(Vec<ToolId>, Arc<ToolDefinition>)>,
}

impl Written {
    /// Returns the macros of all toolboxes that have some.
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

    /// Returns the macros that lack a tool, each with the first that is not there.
    pub(crate) fn lacking(&self, is_there: impl Fn(&ToolId) -> bool) -> Vec<Lacking> {
        let lacking = self.tools.iter().filter_map(|(tools, definition)| {
            let missing = tools.iter().find(|tool| !is_there(tool))?.clone();
            let toolbox = self.toolbox.clone();
            Some(Lacking { toolbox, name: definition.name.clone(), missing })
        });
        lacking.collect()
    }

    /// The others.
    pub(crate) fn listing(&self, lacking: &[Lacking]) -> Listing {
        let is_whole = |name: &str| lacking.iter().all(|lacking| lacking.name != name);
        let tools = self.tools.iter().map(|(_, definition)| definition);
        let tools = tools.filter(|definition| is_whole(&definition.name)).cloned();
        Listing { tools: tools.collect(), ..Listing::default() }
    }
}

/// A macro that is not shown, for a tool that it calls is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    pub(crate) toolbox: ToolboxName,
    name: String,
    missing: ToolId,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { toolbox, name, missing } = self;
        write!(f, "macro `{name}` of `{toolbox}` is not shown: there is no tool `{missing}`")
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
    /// The server that the result of a call comes from, whose addresses are in it: of a macro that
    /// passes on its last step's, that of the step.
    pub fn answering(&self, tool: &ToolId) -> ServerRef {
        let passed_on = self.config.macro_at(tool).filter(|config| config.result.is_none());
        let last = passed_on.and_then(|config| config.steps.last());
        last.map_or_else(|| tool.server_ref(), |step| step.tool.server_ref())
    }

    /// The steps of a call of a macro, up to its own.
    ///
    /// It takes no place and is not counted: what it asks of servers is, and it would wait for
    /// itself. What its type does not tell, the calls in it need not know.
    pub(crate) fn take_macro<'a>(
        &'a self,
        tool: &'a ToolId,
        given: Option<&'a Raw>,
        context: &'a RequestContext<'a>,
        call: &'a mut CallContext<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<Outcome, CallError>> + Send + 'a>> {
        Box::pin(async move {
            self.recalled().await;
            let view = self.snapshot().view(&tool.toolbox);
            let shown = view.tool(tool.server.as_str(), &tool.tool);
            let (Some(shown), Some(config)) = (shown, self.config.macro_at(tool)) else {
                self.not_found(tool, call);
                return Err(self.unknown_tool(tool));
            };
            let given = given.filter(|given| given.as_bytes() != b"null");
            let (permit, arguments) = self.permit(tool, shown, given, call)?;
            check(tool, shown, given)?;
            if let Some(concern) = permit.confirmation() {
                Box::pin(self.confirm(tool, concern, given, context, call)).await?;
            }
            Ok(self.run(config, arguments, context).await)
        })
    }
}

/// Refuses arguments that do not fit, and those that are too long to be checked: a macro has no server
/// that would decide about them.
fn check(tool: &ToolId, shown: &ViewTool, given: Option<&Raw>) -> Result<(), CallError> {
    let mismatches = if given.is_none_or(|given| given.len() <= MAX_CHECKED) {
        shown.mismatches(given)
    } else {
        vec![Mismatch {
            property: String::new(),
            problem: "is too long".to_owned(),
            expected: format!("at most {MAX_CHECKED} bytes"),
        }]
    };
    if mismatches.is_empty() {
        return Ok(());
    }
    Err(CallError::BadArguments { tool: tool.clone(), mismatches })
}

/// A result of ours that is this value.
fn result(value: &Raw) -> Outcome {
    let string = value.text();
    let text = string.clone().unwrap_or_else(|| value.as_str());
    let content = Raw::encode(&json!([{"type": "text", "text": text}]));
    let members = [("content", &content), ("structuredContent", value)];
    // A string that looks like JSON has to be told from the JSON that it looks like.
    let is_told = string.is_none_or(|text| serde_json::from_str::<&RawValue>(&text).is_ok());
    Outcome::Result(raw::object(members.into_iter().take(if is_told { 2 } else { 1 })))
}
