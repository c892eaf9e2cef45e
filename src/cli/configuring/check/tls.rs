//! Loads the files of `http.tls` exactly as `serve --http` does.

use crate::config::Finding;
use crate::http::TlsCertificates;
use crate::settings::Config;

pub(super) fn tls_finding(config: &Config) -> Option<Finding> {
    let error = TlsCertificates::load(config.http.tls.as_ref()?).err()?;
    Some(Finding::error("http.tls", error.to_string(), error.hint()))
}
