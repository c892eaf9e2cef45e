//! Macros: workbench tools made of steps, each a call of another tool.
//!
//! The macros of a toolbox are the tools of a virtual server ([`ServerEntry::Macros`]). The
//! snapshot writer shows a macro only if the agent can see every tool that it calls
//! ([`ToolboxMacros`]). A macro call is checked like any call, then runs its steps ([`execution`]).
//! Each step is a separate call, with policy, schema check, rate limit, confirmation, slots and an
//! audit record.
//!
//! [`ServerEntry::Macros`]: crate::gateway::managed_server::ServerEntry::Macros

pub(crate) mod execution;
mod failure_report;
mod plan;
pub(crate) mod values;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog::schema::{MAX_CHECKED, SchemaViolation};
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::gateway::error::CallError;
use crate::toolbox::ExposedTool;
use mcp_workbench_names::{ToolId, ToolboxName};
use mcp_workbench_settings::{Config, MacroConfig};
use mcp_workbench_wire::json::exact::ExactJson;
use mcp_workbench_wire::json::{self, RawJson};

pub(crate) struct ToolboxMacros {
    pub(crate) toolbox: ToolboxName,
    tools: Vec<(Vec<ToolId>, Arc<ToolDefinition>)>,
}

impl ToolboxMacros {
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

    /// Returns the macros with a missing tool, each with the first one missing.
    pub(crate) fn lacking(&self, is_there: impl Fn(&ToolId) -> bool) -> Vec<UnavailableMacro> {
        let lacking = self.tools.iter().filter_map(|(tools, definition)| {
            let missing = tools.iter().find(|tool| !is_there(tool))?.clone();
            let toolbox = self.toolbox.clone();
            Some(UnavailableMacro { toolbox, name: definition.name.clone(), missing })
        });
        lacking.collect()
    }

    pub(crate) fn listing(&self, lacking: &[UnavailableMacro]) -> Listing {
        let is_whole = |name: &str| lacking.iter().all(|lacking| lacking.name != name);
        let tools = self.tools.iter().map(|(_, definition)| definition);
        let tools = tools.filter(|definition| is_whole(&definition.name)).cloned();
        Listing { tools: tools.collect(), ..Listing::default() }
    }
}

/// A macro that is hidden because it calls a tool that the agent can't see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableMacro {
    pub(crate) toolbox: ToolboxName,
    name: String,
    missing: ToolId,
}

impl fmt::Display for UnavailableMacro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { toolbox, name, missing } = self;
        write!(f, "macro `{name}` of `{toolbox}` is hidden: there is no tool `{missing}`")
    }
}

fn definition(config: &MacroConfig) -> Option<ToolDefinition> {
    let MacroConfig { name, description, input_schema, .. } = config;
    let (name, description) = (RawJson::from_text(name), RawJson::from_text(description));
    let schema: Box<RawValue> = serde_json::from_str(input_schema).ok()?;
    let schema = RawJson::encode(&schema);
    let members = [("name", &name), ("description", &description), ("inputSchema", &schema)];
    ToolDefinition::parse(json::object(members)).ok().map(ToolDefinition::of_user)
}

/// Rejects invalid arguments and those that can't be validated, because no server checks them later.
pub(crate) fn check_arguments(
    tool: &ToolId,
    shown: &ExposedTool,
    given: Option<&RawJson>,
) -> Result<(), CallError> {
    let violation = |problem: String, expected: &str| {
        let (property, expected) = (String::new(), expected.to_owned());
        vec![SchemaViolation { property, problem, expected }]
    };
    let short = given.filter(|given| given.len() <= MAX_CHECKED);
    let mismatches = match short.map_or(Ok(()), check_readable) {
        _ if given.is_some_and(|given| given.len() > MAX_CHECKED) => {
            violation("is too long".to_owned(), &format!("at most {MAX_CHECKED} bytes"))
        }
        Err(why) => violation(format!("is invalid: {why}"), "JSON in which each name occurs once"),
        Ok(()) => shown.mismatches(given),
    };
    if mismatches.is_empty() {
        return Ok(());
    }
    Err(CallError::InvalidArguments { tool: tool.clone(), mismatches })
}

/// Rejects arguments that the schema check and a step could read differently, such as a repeated
/// name, and those that the schema check can't read, such as a number beyond the range of a float.
fn check_readable(given: &RawJson) -> Result<(), String> {
    ExactJson::parse(given.as_bytes())?;
    given.parse::<Value>().map(drop).map_err(|error| error.to_string())
}
