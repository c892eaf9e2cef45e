//! The table of modes. A new mode needs a file and a line here.

use crate::exposure::mode::ModeSelector;
use crate::exposure::{
    activate, auto, direct, dynamic, modular, navigate, passthrough, search, toolbox_mode,
};
use mcp_workbench_settings::ToolMode;

pub(crate) fn selector_for(mode: ToolMode) -> ModeSelector {
    match mode {
        ToolMode::Auto => auto::for_client,
        ToolMode::Dynamic => dynamic::for_client,
        ToolMode::Proxy => |_, _| &toolbox_mode::ANSWER,
        ToolMode::Search => |_, _| &search::Search,
        ToolMode::Navigate => |_, _| &navigate::Navigate,
        ToolMode::Direct => |_, _| &direct::DIRECT,
        ToolMode::Activate => activate::for_client,
        ToolMode::Modular => |_, _| &modular::Modular,
        ToolMode::Passthrough => |_, _| &passthrough::Passthrough,
    }
}

#[cfg(test)]
mod tests;
