//! Errors of serving.

use thiserror::Error;

/// Why `serve_stdio`, `serve_http` or other work ended early.
#[derive(Debug, Error)]
pub enum AppError {
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
    #[error("failed to listen on `http.healthListen`")]
    BindHealth(#[source] std::io::Error),
    /// Work doesn't start if it couldn't be interrupted.
    #[error("failed to install signal handlers")]
    InstallSignalHandler(#[source] std::io::Error),
    /// Calls aren't served if they can't be audited.
    #[error("failed to open the audit log configured in `audit`")]
    OpenAudit(#[source] std::io::Error),
    /// Without random numbers, an agent could forge the `requestState` of another agent.
    #[error("failed to get random numbers from the operating system")]
    RandomSource(#[source] getrandom::Error),
}
