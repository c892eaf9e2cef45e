//! Loads the files of `http.tls` exactly as `serve --http` does.

use crate::config::{Finding, Severity};
use crate::frontend::http::TlsCertificates;
use crate::settings::Config;

pub(super) fn tls_finding(config: &Config) -> Option<Finding> {
    let error = TlsCertificates::load(config.http.tls.as_ref()?).err()?;
    Some(Finding {
        severity: Severity::Error,
        file: None,
        path: "http.tls".to_owned(),
        position: None,
        message: error.to_string(),
        hint: Some(error.hint().to_owned()),
    })
}
