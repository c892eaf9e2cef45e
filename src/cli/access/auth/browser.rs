//! Opens the sign-in URL in a browser, if the user sits at this machine.

use std::io::IsTerminal;
use std::path::Path;

use url::Url;

use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::launch::capture::CaptureCommand;
use mcp_workbench_core::backend::launch::detached::detach;
use mcp_workbench_os::Platform;

const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];
const SSH_VARIABLES: [&str; 2] = ["SSH_CONNECTION", "SSH_TTY"];

/// Tries to open a URL in the user's browser. Returns `false` if there is probably none.
pub(super) fn open(address: &Url) -> bool {
    // The URL becomes an argument of another program, so only plain web URLs are passed.
    if !matches!(address.scheme(), "http" | "https") || !has_local_display() {
        return false;
    }
    let opener = match Platform::THIS {
        Platform::Linux => "xdg-open",
        Platform::MacOs => "open",
        Platform::Windows => "explorer",
    };
    let words = [opener.to_owned(), address.to_string()];
    let environment = ProcessEnv.vars();
    let folder = Path::new("/");
    let opener = CaptureCommand { words: &words, folder, environment: &environment };
    detach(&opener).is_ok()
}

fn has_local_display() -> bool {
    let is_set = |name: &&str| ProcessEnv.get(name).is_some_and(|value| !value.is_empty());
    let has_display = Platform::THIS != Platform::Linux || DISPLAYS.iter().any(is_set);
    std::io::stderr().is_terminal() && has_display && !SSH_VARIABLES.iter().any(is_set)
}
