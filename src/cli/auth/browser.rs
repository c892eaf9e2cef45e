//! A browser that an address is opened in, where the user of this machine looks at one.

use std::io::IsTerminal;
use std::path::Path;

use url::Url;

use crate::backend::launch::detached::detach;
use crate::backend::launch::printed::Printing;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::os::Platform;

/// Variables of which one is set where there is a display.
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];
/// Variables that are set where somebody is on this machine from another one.
const FAR: [&str; 2] = ["SSH_CONNECTION", "SSH_TTY"];

/// Opens the address in the user's browser, if there is likely to be one; whether that was tried.
pub(super) fn open(address: &Url) -> bool {
    // It goes to a program as an argument, and is nothing but an address.
    if !matches!(address.scheme(), "http" | "https") || !is_here() {
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
    let opener = Printing { words: &words, folder, environment: &environment };
    detach(&opener).is_ok()
}

/// Returns `true` if whoever runs us looks at a display of this machine.
fn is_here() -> bool {
    let is_set = |name: &&str| ProcessEnv.get(name).is_some_and(|value| !value.is_empty());
    let has_display = Platform::THIS != Platform::Linux || DISPLAYS.iter().any(is_set);
    std::io::stderr().is_terminal() && has_display && !FAR.iter().any(is_set)
}
