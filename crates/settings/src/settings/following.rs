//! The changes of a file that are taken over because it has changed, and those that somebody asks for.

use crate::settings::{Config, ServerConfig, ToolboxConfig};

/// When a file that has changed is taken over (`watch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// By itself where it differs in how things are presented alone; else when somebody asks for it.
    #[default]
    Presentation,
    /// By itself, whatever has changed.
    Everything,
}

impl Watch {
    /// The words for them in the file.
    pub const WORDS: [(&'static str, Self); 2] =
        [("presentation", Self::Presentation), ("everything", Self::Everything)];
}

impl Config {
    /// Returns `true` if another configuration may take the place of this one because the file has
    /// changed, without anybody who asks for it: this one says that anything may, or they differ in how
    /// toolboxes are presented alone. Who may do what, what is launched and who may ask are the same
    /// then. Whatever is not known to be harmless is not.
    pub fn may_be_followed_by(&self, next: &Self) -> bool {
        self.watch == Watch::Everything || *self == next.ruled_like(self)
    }

    /// This configuration, with everything that decides nothing as `other` has it.
    fn ruled_like(&self, other: &Self) -> Self {
        let like = |toolbox: &ToolboxConfig| match other.toolbox(toolbox.name.as_str()) {
            Some(other) => toolbox.ruled_like(other),
            None => toolbox.clone(),
        };
        Self {
            mode: other.mode,
            cache: other.cache,
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
            cache: other.cache,
            ..self.clone()
        }
    }
}
