//! Checks and changes that `serve` applies to the configuration at its start and at each reload.

use std::path::PathBuf;

use crate::app::ReloadSource;
use mcp_workbench_config::{ConfigReport, Finding, LoadError, LoadedConfig};
use mcp_workbench_settings::{AnonymousPolicy, Config, TlsConfig};

/// Hint for an address that would accept unauthenticated clients.
pub(crate) const AUTH_HINT: &str = "create access tokens with `mcp-workbench token <agent>` and add them to \
                         `auth.tokens`, or listen on 127.0.0.1 (`--insecure-no-auth` accepts \
                         unauthenticated clients)";

/// Returns why unauthenticated clients would be served, or `None` if they are rejected or `is_open`
/// allows them.
pub(crate) fn open_access_reason(config: &Config, is_open: bool) -> Option<&'static str> {
    if is_open {
        return None;
    }
    match config.auth.as_ref().map(|auth| &auth.anonymous) {
        // Clients without a certificate are rejected.
        None if config.http.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()) => None,
        None => Some("the configuration requires no authentication"),
        Some(AnonymousPolicy::Nameless | AnonymousPolicy::Named(_)) => {
            Some("`auth.anonymous` accepts requests without a token")
        }
        Some(AnonymousPolicy::Refused) => None,
    }
}

pub(crate) fn reject_broken(loaded: LoadedConfig) -> Result<LoadedConfig, LoadError> {
    match loaded.report() {
        Some(report) if loaded.has_errors() => Err(LoadError::Invalid(report)),
        _ => Ok(loaded),
    }
}

/// Rejects a configuration that would let unauthenticated clients in.
pub(crate) fn reject_open_access(
    loaded: LoadedConfig,
    is_open: bool,
) -> Result<LoadedConfig, LoadError> {
    let Some(reason) = open_access_reason(&loaded.config, is_open) else { return Ok(loaded) };
    let message = format!("the workbench is reachable from other machines, and {reason}");
    let finding = Finding::error("auth", message, AUTH_HINT);
    Err(LoadError::Invalid(ConfigReport { file: loaded.file, findings: vec![finding] }))
}

/// Applies `--tls-cert` and `--tls-key` over the configuration, and keeps its client CA.
pub(crate) fn override_tls_files(config: &mut Config, files: Option<&[PathBuf; 2]>) {
    if let Some([cert, key]) = files.cloned() {
        let client_ca = config.http.tls.take().and_then(|tls| tls.client_ca);
        config.http.tls = Some(TlsConfig { cert, key, client_ca });
    }
}

/// Applies `change` to each loaded configuration.
pub(crate) fn and_then(
    source: ReloadSource,
    change: impl Fn(LoadedConfig) -> Result<LoadedConfig, LoadError> + Send + Sync + 'static,
) -> ReloadSource {
    let ReloadSource { load, .. } = source;
    ReloadSource { load: Box::new(move |refresh| change(load(refresh)?)), ..source }
}
