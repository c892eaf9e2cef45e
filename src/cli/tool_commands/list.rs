//! The work of `list`.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::cli::output::CommandError;
use crate::cli::output::print::to_raw_value;
use crate::cli::servers::startup::{self, StartMode, StartReport};
use crate::cli::tool_commands::call_error::call_error;
use crate::cli::tool_commands::command::{CommandContext, ToolCommand};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::ToolboxConfig;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCommand {
    /// `None` lists all.
    pub(crate) toolbox: Option<String>,
    /// `true` to start every server.
    pub(crate) is_refresh: bool,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct ListReport {
    /// The listed toolboxes.
    pub(crate) toolboxes: Vec<String>,
    pub(crate) tools: Vec<ListedTool>,
    /// The started servers.
    pub(crate) starts: Vec<StartReport>,
    /// The servers that weren't started, and when their cached lists were read.
    pub(crate) cached: Vec<(ServerRef, SystemTime)>,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct ListedTool {
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    /// The name that agents see in `dynamic` mode.
    pub(crate) registered_name: String,
    /// Size of the definition.
    pub(crate) bytes: usize,
    /// The first sentence of the description.
    pub(crate) summary: String,
    pub(crate) definition: Box<RawValue>,
}

impl ToolCommand for ListCommand {
    type Report = ListReport;

    const NAME: &'static str = "list";
    const HAS_EFFECTS: bool = false;

    async fn execute(&self, context: &CommandContext<'_>) -> Result<ListReport, CommandError> {
        let gateway = context.gateway;
        let toolboxes: Vec<&ToolboxConfig> = match &self.toolbox {
            Some(name) => vec![gateway.scope().toolbox(name).map_err(|e| call_error(&e))?],
            None => gateway.config().toolboxes.iter().collect(),
        };
        gateway.views().wait_for_stored_listings().await;
        let mut cached =
            if self.is_refresh { Vec::new() } else { gateway.views().stored_listings() };
        cached.retain(|(server, _)| toolboxes.iter().any(|toolbox| toolbox.name == server.toolbox));
        let is_cached = |wanted: &ServerRef| cached.iter().any(|(server, _)| server == wanted);
        let mode = StartMode::new(context.is_shared, |text| context.events.status(text));
        let starts =
            startup::start_servers_in(gateway, &toolboxes, |server| !is_cached(server), mode).await;
        let snapshot = gateway.snapshot();
        let mut tools = Vec::new();
        for toolbox in &toolboxes {
            tools.extend(snapshot.view(&toolbox.name).tools().map(|tool| ListedTool {
                toolbox: tool.id.toolbox.to_string(),
                server: tool.id.server.to_string(),
                tool: tool.id.tool.clone(),
                registered_name: tool.name.to_string(),
                bytes: tool.definition.raw.len(),
                summary: tool.definition.summary().unwrap_or_default(),
                definition: to_raw_value(&tool.definition.raw),
            }));
        }
        let toolboxes = toolboxes.iter().map(|toolbox| toolbox.name.to_string()).collect();
        Ok(ListReport { toolboxes, tools, starts, cached })
    }
}
