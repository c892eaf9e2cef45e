//! Servers that could not be started: why, and what to do about it.

use std::fmt;

use thiserror::Error;

/// Why a server could not be started, for a person and for a model.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct StartFailure {
    /// A sentence on what happened, with the last lines of its standard error where they explain
    /// it.
    pub reason: String,
    /// Advice on what to do about it.
    pub hint: String,
    /// `true` if all that is missing is that somebody signs in.
    pub wants_sign_in: bool,
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl StartFailure {
    /// A failure that has nothing to do with signing in.
    pub fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into(), wants_sign_in: false }
    }

    pub(crate) fn internal() -> Self {
        Self::new("an internal error; the log has more", "please report it")
    }
}
