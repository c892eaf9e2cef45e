//! The work of `search`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::cli::output::CommandError;
use crate::cli::output::print::to_raw_value;
use crate::cli::servers::startup::{self, StartMode, StartReport};
use crate::cli::tool_commands::call_error::call_error;
use crate::cli::tool_commands::command::{CommandContext, ToolCommand};
use mcp_workbench_core::catalog::rank::ScoreCutoff;
use mcp_workbench_core::gateway::{RequestContext, ToolMatch, ToolQuery};
use mcp_workbench_settings::ToolboxConfig;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchCommand {
    pub(crate) queries: Vec<String>,
    pub(crate) toolbox: Option<String>,
    /// Maximum number of tools per query.
    pub(crate) limit: u16,
    /// `true` to return definitions.
    pub(crate) is_full: bool,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct SearchReport {
    pub(crate) results: Vec<SearchResult>,
    /// The started servers.
    pub(crate) starts: Vec<StartReport>,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct SearchResult {
    pub(crate) query: String,
    /// Well-known services that the query names but no server here provides.
    pub(crate) absent_services: Vec<String>,
    /// Best match first.
    pub(crate) tools: Vec<SearchHit>,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct SearchHit {
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    /// The tool's name in `dynamic` mode.
    pub(crate) registered_name: String,
    pub(crate) score: f64,
    pub(crate) fits_well: bool,
    pub(crate) signature: String,
    /// The first sentence of the description.
    pub(crate) summary: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) definition: Option<Box<RawValue>>,
}

impl ToolCommand for SearchCommand {
    type Report = SearchReport;

    const NAME: &'static str = "search";
    const HAS_EFFECTS: bool = false;

    async fn execute(&self, context: &CommandContext<'_>) -> Result<SearchReport, CommandError> {
        let gateway = context.gateway;
        let toolbox = match &self.toolbox {
            Some(name) => Some(gateway.scope().toolbox(name).map_err(|error| call_error(&error))?),
            None => None,
        };
        let toolboxes: Vec<&ToolboxConfig> = match toolbox {
            Some(only) => vec![only],
            None => gateway.config().toolboxes.iter().collect(),
        };
        gateway.views().wait_for_stored_listings().await;
        let unknown = gateway.views().unlisted();
        let mode = StartMode::new(context.is_shared, |text| context.events.status(text));
        let is_unknown = |server: &_| unknown.contains(server);
        let starts = startup::start_servers_in(gateway, &toolboxes, is_unknown, mode).await;
        let toolbox = toolbox.map(|toolbox| &toolbox.name);
        let limit = usize::from(self.limit);
        let queries = || self.queries.iter().map(String::as_str);
        let finds = ScoreCutoff::Relevant;
        let sought =
            queries().map(|query| ToolQuery { query, toolbox, server: None, finds, limit });
        let sought: Vec<_> = sought.collect();
        let request =
            RequestContext { caller: context.caller, ..RequestContext::detached(context.agent) };
        let found = gateway.search().search_listed(&sought, &request).await;
        let mut results = Vec::new();
        for (query, tools) in queries().zip(found) {
            results.push(SearchResult {
                query: query.to_owned(),
                absent_services: gateway.search().absent_services(query).await,
                tools: tools.iter().map(|found| hit(found, self.is_full)).collect(),
            });
        }
        Ok(SearchReport { results, starts })
    }
}

fn hit(found: &ToolMatch, is_full: bool) -> SearchHit {
    let tool = found.tool();
    SearchHit {
        toolbox: tool.id.toolbox.to_string(),
        server: tool.id.server.to_string(),
        tool: tool.id.tool.clone(),
        registered_name: tool.name.to_string(),
        score: found.rounded_score(),
        fits_well: found.fits_well(),
        signature: tool.definition.signature(),
        summary: tool.definition.summary(),
        description: tool.definition.description.as_deref().map(str::to_owned),
        definition: is_full.then(|| to_raw_value(&tool.definition.raw)),
    }
}
