//! Stubs for Unix systems other than Linux, which have no sandbox for unprivileged processes.

use crate::SandboxRules;

/// Returns an error: there isn't a sandbox on this system.
pub fn check_sandbox_support() -> Result<(), String> {
    Err("sandboxes are supported only on Linux".to_owned())
}

pub fn enter_sandbox(_: &SandboxRules) -> Result<(), String> {
    check_sandbox_support()
}

pub fn supports_signal_scope() -> bool {
    false
}
