//! Which configuration changes are applied automatically (`autoReload`).

use crate::{Config, ServerConfig, ToolboxConfig};

/// Which changes of the configuration file are applied automatically (`autoReload`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AutoReload {
    /// Only changes of presentation. Other changes are applied on request.
    #[default]
    Safe,
    /// All changes.
    All,
}

impl AutoReload {
    /// The values as written in the file.
    pub const WORDS: [(&'static str, Self); 2] = [("safe", Self::Safe), ("all", Self::All)];
}

/// Returns `true` if `next` may replace `served` without confirmation: `autoReload` is `all`, or
/// only presentation differs. Access rules, launches and authentication are then unchanged.
/// Only fields listed in `with_presentation_of` count as presentation.
pub fn can_auto_reload(served: &Config, next: &Config) -> bool {
    served.auto_reload == AutoReload::All || *served == with_presentation_of(next, served)
}

/// Returns a configuration with the presentation fields of `other`.
fn with_presentation_of(config: &Config, other: &Config) -> Config {
    let like = |toolbox: &ToolboxConfig| match other.toolbox(toolbox.name.as_str()) {
        Some(other) => toolbox_with_presentation_of(toolbox, other),
        None => toolbox.clone(),
    };
    Config {
        mode: other.mode,
        result_cache: other.result_cache,
        active_toolsets: other.active_toolsets.clone(),
        clients: other.clients.clone(),
        toolboxes: config.toolboxes.iter().map(like).collect(),
        ..config.clone()
    }
}

fn toolbox_with_presentation_of(toolbox: &ToolboxConfig, other: &ToolboxConfig) -> ToolboxConfig {
    let like = |server: &ServerConfig| match other.server(server.name.as_str()) {
        Some(other) => server_with_presentation_of(server, other),
        None => server.clone(),
    };
    ToolboxConfig {
        description: other.description.clone(),
        servers: toolbox.servers.iter().map(like).collect(),
        ..toolbox.clone()
    }
}

fn server_with_presentation_of(server: &ServerConfig, other: &ServerConfig) -> ServerConfig {
    ServerConfig {
        description: other.description.clone(),
        startup_timeout: other.startup_timeout,
        call_timeout: other.call_timeout,
        total_call_timeout: other.total_call_timeout,
        idle_timeout: other.idle_timeout,
        result_cache: other.result_cache,
        ..server.clone()
    }
}
