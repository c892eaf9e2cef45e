//! Dialects: the programs whose configuration format can be read.

use std::path::Path;

use mcp_workbench_settings::ToolMode;

/// The program that a configuration is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MCP Workbench.
    Native,
    /// Toolman's `tools.toml`.
    Toolman,
    /// The Toolman server's JSON, with `servers` and the agents that may use them.
    ToolmanServer,
    /// Modular MCP's `modular-mcp.json`.
    Modular,
    /// A catalog folder: `_config.yaml`, and a file for each tool.
    Catalog,
    /// An MCP client: servers, without any native key.
    Client,
}

impl Dialect {
    /// Returns the dialect's name, in kebab case.
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

    /// Returns the name of the program that owns the file, or `None` for native files and catalogs.
    pub fn program_name(self) -> Option<&'static str> {
        match self {
            Self::Native | Self::Catalog => None,
            Self::Toolman => Some("Toolman"),
            Self::ToolmanServer => Some("the Toolman server"),
            Self::Modular => Some("Modular MCP"),
            Self::Client => Some("a client"),
        }
    }

    /// Returns the mode that such a file implies, or `None` if it is configurable.
    pub fn mode(self) -> Option<ToolMode> {
        match self {
            // A catalog can set the mode in its configuration.
            Self::Native | Self::Client | Self::Catalog => None,
            Self::Toolman => Some(ToolMode::Activate),
            Self::ToolmanServer => Some(ToolMode::Direct),
            Self::Modular => Some(ToolMode::Modular),
        }
    }
}

/// Returns `true` if `file` has the extension `.toml`.
pub fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}
