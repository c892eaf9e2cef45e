//! Which configuration changes are applied automatically (`autoReload`).

use crate::settings::{Config, ServerConfig, ToolboxConfig};

/// Which changes of the configuration file are applied automatically (`autoReload`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Config {
    /// Returns `true` if `next` may be applied without confirmation: `autoReload` is `all`, or
    /// only presentation differs. Access rules, launches and authentication are then unchanged.
    /// Only fields listed in `with_presentation_of` count as presentation.
    pub fn can_auto_reload_to(&self, next: &Self) -> bool {
        self.auto_reload == AutoReload::All || *self == next.with_presentation_of(self)
    }

    /// Returns this configuration with the presentation fields of `other`.
    fn with_presentation_of(&self, other: &Self) -> Self {
        let like = |toolbox: &ToolboxConfig| match other.toolbox(toolbox.name.as_str()) {
            Some(other) => toolbox.ruled_like(other),
            None => toolbox.clone(),
        };
        Self {
            mode: other.mode,
            result_cache: other.result_cache,
            active_toolsets: other.active_toolsets.clone(),
            clients: other.clients.clone(),
            toolboxes: self.toolboxes.iter().map(like).collect(),
            ..self.clone()
        }
    }
}

impl ToolboxConfig {
    fn ruled_like(&self, other: &Self) -> Self {
        let like = |server: &ServerConfig| match other.server(server.name.as_str()) {
            Some(other) => server.ruled_like(other),
            None => server.clone(),
        };
        Self {
            description: other.description.clone(),
            servers: self.servers.iter().map(like).collect(),
            ..self.clone()
        }
    }
}

impl ServerConfig {
    fn ruled_like(&self, other: &Self) -> Self {
        Self {
            description: other.description.clone(),
            startup_timeout: other.startup_timeout,
            call_timeout: other.call_timeout,
            total_call_timeout: other.total_call_timeout,
            idle_timeout: other.idle_timeout,
            result_cache: other.result_cache,
            ..self.clone()
        }
    }
}
