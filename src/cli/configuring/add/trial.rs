//! Starts new servers once, to show and describe what they offer.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::authoring::edit::NewServer;
use crate::cli::args::GlobalArgs;
use crate::cli::files::config_edit::EditTarget;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::onboarding::toolbox_proposal;
use crate::cli::output::{CommandError, format_count, print, register_secrets};
use crate::cli::servers::server_phrase::ServerTexts;
use crate::cli::servers::trial_run::{StartedServer, start_all};
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::catalog::rank::clustering::ServerProfile;

/// Names of tools that are shown.
const MAX_TOOLS: usize = 12;

#[derive(Default)]
pub(super) struct AddTrial {
    pub(super) tools: Vec<Arc<ToolDefinition>>,
    pub(super) failure: Option<String>,
    texts: ServerTexts,
}

/// Starts the new servers of a configuration. The results are in the order of `servers`.
pub(super) fn run(
    global: &GlobalArgs,
    text: &str,
    target: &EditTarget,
    servers: &[NewServer],
) -> Result<Vec<AddTrial>, CommandError> {
    let folder = target.location.path.parent().unwrap_or(Path::new("/"));
    let parsed =
        mcp_workbench_config::parse(text, &target.location.display_path, folder, &ProcessEnv);
    let config = parsed.map_err(CommandError::invalid_config)?.config;
    let mut config = without_policy(config);
    let place = |toolbox: &str, name: &str| {
        servers.iter().position(|server| {
            let own = server.toolbox.as_deref().unwrap_or(&server.name);
            own == toolbox && server.name == name
        })
    };
    for toolbox in &mut config.toolboxes {
        let name = toolbox.name.clone();
        toolbox.servers.retain(|server| place(name.as_str(), server.name.as_str()).is_some());
    }
    config.toolboxes.retain(|toolbox| !toolbox.servers.is_empty());
    register_secrets(&config);
    let all = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let longest = all.map(|server| server.startup_timeout).max().unwrap_or_default();
    print::progress(&format!(
        "waiting for the server to list its tools, for up to {} s; Ctrl-C stops, and nothing is \
         written (`--no-start` adds it without this)",
        longest.as_secs()
    ));
    let mut trials: Vec<_> = servers.iter().map(|_| AddTrial::default()).collect();
    let started = with_gateway(global, config, async |gateway| start_all(gateway).await);
    for started in started.map_err(nothing_written)? {
        let StartedServer { at, report, tools, texts } = started;
        if let Some(place) = place(at.toolbox.as_str(), at.server.as_str()) {
            trials[place] = AddTrial { tools, failure: report.failure_text(), texts };
        }
    }
    Ok(trials)
}

/// Says that a failed or interrupted trial has changed nothing.
fn nothing_written(error: CommandError) -> CommandError {
    error.with_hint(
        "nothing was written; to add the server without starting it, run the command with \
         `--no-start`",
    )
}

impl AddTrial {
    /// Describes a new toolbox by the tools, unless the user or the entry does.
    pub(super) fn describe(&self, server: &mut NewServer, written: Option<&str>) {
        if self.tools.is_empty() {
            return;
        }
        let command_line = command_line(&server.entry);
        let profile = ServerProfile {
            name: &server.name,
            words: &command_line,
            about: "",
            tools: self.tools.iter().map(Arc::as_ref).collect(),
        };
        let proposed = written
            .map_or_else(|| toolbox_proposal::describe(&profile, Some(&self.texts)), str::to_owned);
        if server.toolbox.is_some() {
            server.description = Some(proposed);
        } else if let Some(entry) = server.entry.as_object_mut() {
            entry.entry("description").or_insert(proposed.into());
        }
    }
}

/// Returns the command line of an entry, or its URL.
fn command_line(entry: &Value) -> Vec<String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten();
    let args = args.filter_map(Value::as_str);
    text("url").or(text("command")).into_iter().chain(args).map(str::to_owned).collect()
}

impl fmt::Display for AddTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            return write!(f, "warning: {failure}");
        }
        let mut names: Vec<_> = self.tools.iter().take(MAX_TOOLS).map(|tool| &*tool.name).collect();
        let more = format!("{} more", self.tools.len().saturating_sub(MAX_TOOLS));
        if self.tools.len() > MAX_TOOLS {
            names.push(&more);
        }
        match self.tools.as_slice() {
            [] => f.write_str("it started and has no tools"),
            tools => {
                let count = format_count(tools.len(), "tool");
                write!(f, "it started and has {count}: {}", names.join(", "))
            }
        }
    }
}
