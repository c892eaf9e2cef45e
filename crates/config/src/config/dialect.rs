//! The programs that a configuration may be written for.

use std::path::Path;

use crate::settings::ToolMode;

/// The program that a configuration is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// This one.
    Native,
    /// Toolman: `tools.toml`.
    Toolman,
    /// The Toolman server: JSON with `servers` and which agent may use them.
    ToolmanServer,
    /// Modular MCP: `modular-mcp.json`.
    Modular,
    /// A folder with a catalog: `_config.yaml`, and a file for each tool.
    Catalog,
    /// A client: servers, and no key of ours.
    Client,
}

impl Dialect {
    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Toolman => "toolman",
            Self::ToolmanServer => "toolman-server",
            Self::Modular => "modular",
            Self::Catalog => "catalog",
            Self::Client => "client",
        }
    }

    /// Returns the program whose file it is, where it is not ours.
    pub fn owner(self) -> Option<&'static str> {
        match self {
            Self::Native | Self::Catalog => None,
            Self::Toolman => Some("Toolman"),
            Self::ToolmanServer => Some("the Toolman server"),
            Self::Modular => Some("Modular MCP"),
            Self::Client => Some("a client"),
        }
    }

    /// How that program presents tools.
    pub fn mode(self) -> Option<ToolMode> {
        match self {
            // Whoever has a catalog may name another mode in it.
            Self::Native | Self::Client | Self::Catalog => None,
            Self::Toolman => Some(ToolMode::Activate),
            Self::ToolmanServer => Some(ToolMode::Direct),
            Self::Modular => Some(ToolMode::Modular),
        }
    }
}

/// Returns whether a file of this name is TOML.
pub fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}
