//! All modes: the one place that knows them. A further mode is a file and a line here.

use crate::exposure::mode::Choose;
use crate::exposure::{activate, alone, auto, direct, dynamic, modular, navigate, opening, search};
use crate::settings::ToolMode;

/// Returns how a mode is chosen for a client where the file asks for `mode`.
pub(crate) fn of(mode: ToolMode) -> Choose {
    match mode {
        ToolMode::Auto => auto::for_client,
        ToolMode::Dynamic => dynamic::for_client,
        ToolMode::Proxy => |_, _| &opening::TELL,
        ToolMode::Search => |_, _| &search::Search,
        ToolMode::Navigate => |_, _| &navigate::Navigate,
        ToolMode::Direct => |_, _| &direct::Direct,
        ToolMode::Activate => |_, _| &activate::Activate,
        ToolMode::Modular => |_, _| &modular::Modular,
        ToolMode::Alone => |_, _| &alone::Alone,
    }
}

#[cfg(test)]
mod tests;
