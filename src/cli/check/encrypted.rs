//! A look at the files that `http.tls` names, with the eyes of a start that serves over HTTP.

use crate::config::{Finding, Severity};
use crate::frontend::http::Tls;
use crate::settings::Config;

/// The reason that nothing can be encrypted with these files, if they are named and there is one.
pub(super) fn fault(config: &Config) -> Option<Finding> {
    let error = Tls::load(config.http.tls.as_ref()?).err()?;
    Some(Finding {
        severity: Severity::Error,
        file: None,
        path: "http.tls".to_owned(),
        position: None,
        message: error.to_string(),
        hint: Some(error.hint().to_owned()),
    })
}
