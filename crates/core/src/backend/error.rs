//! Errors of server starts.

use std::fmt;

use thiserror::Error;

/// Why a server did not start, written for users and models.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct StartError {
    /// One sentence, with the last stderr lines if they help.
    pub reason: String,
    pub hint: String,
    /// `true` if only a sign-in is missing.
    pub wants_sign_in: bool,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl StartError {
    pub fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into(), wants_sign_in: false }
    }

    pub(crate) fn internal() -> Self {
        Self::new("internal error (see the workbench log)", "report this bug")
    }
}
