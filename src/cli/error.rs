//! What a person is told when a command fails: the problem, its causes, what to do.

use std::error::Error as StdError;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Error {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

/// Whose doing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The command line or the configuration.
    Usage,
    /// What was asked for was tried and failed.
    Failed,
}

impl Error {
    /// The configuration cannot be used.
    pub(crate) fn config(error: impl StdError) -> Self {
        Self::new(Kind::Usage, error)
    }

    /// The command line asks for what cannot be.
    pub(crate) fn usage(message: String, cause: &impl StdError) -> Self {
        Self { kind: Kind::Usage, message, causes: vec![cause.to_string()], hint: None }
    }

    /// The command line asks for what cannot be, with nothing behind it.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::failed(message) }
    }

    /// What was asked for was tried and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// The same with a cause, which may have several lines.
    pub(crate) fn because(mut self, cause: &str) -> Self {
        self.causes.extend(cause.lines().map(str::to_owned));
        self
    }

    /// The same with something to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Something that should not have happened.
    pub(crate) fn internal(error: impl StdError) -> Self {
        Self::new(Kind::Failed, error)
    }

    fn new(kind: Kind, error: impl StdError) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self { kind, message: error.to_string(), causes, hint: None }
    }

    /// The status to leave with: 2 for usage and configuration, 1 for the rest.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Usage => ExitCode::from(2),
            Kind::Failed => ExitCode::FAILURE,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.message.trim_end())?;
        for cause in &self.causes {
            write!(f, "\n  {cause}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
