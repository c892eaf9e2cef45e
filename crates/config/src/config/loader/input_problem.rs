//! Why a file can't be used, and how to fix it.

use std::io;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InputProblem {
    pub reason: String,
    pub hint: Option<&'static str>,
}

impl From<io::Error> for InputProblem {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), hint: None }
    }
}
