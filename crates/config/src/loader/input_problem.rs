//! Why a file can't be used, and how to fix it.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InputProblem {
    pub reason: String,
    pub hint: Option<&'static str>,
}
