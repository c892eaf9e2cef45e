//! Loads the files of `http.tls` exactly as `serve --http` does.

use mcp_workbench_config::Finding;
use mcp_workbench_http::TlsCertificates;
use mcp_workbench_settings::Config;

pub(super) fn tls_finding(config: &Config) -> Option<Finding> {
    let error = TlsCertificates::load(config.http.tls.as_ref()?).err()?;
    Some(Finding::error("http.tls", error.to_string(), error.hint()))
}
