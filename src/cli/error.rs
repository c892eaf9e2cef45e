//! The error that a person sees when a command fails: the problem, its causes, what to do.

use std::error::Error as StdError;
use std::process::ExitCode;

use serde::Serialize;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Error {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

/// The origin of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// The command line or the configuration.
    Usage,
    /// The command was tried and failed.
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

    /// An error of a command that was tried and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Adds a cause, which may have several lines.
    pub(crate) fn because(mut self, cause: &str) -> Self {
        self.causes.extend(cause.lines().map(str::to_owned));
        self
    }

    /// Adds advice on what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// This error, for a command that tells failures from what it has found.
    pub(crate) fn into_usage(self) -> Self {
        Self { kind: Kind::Usage, ..self }
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

    /// The argument parser refuses a command line.
    pub(crate) fn arguments(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
        let message = parts.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        Self {
            hint: Some(parts.collect::<Vec<_>>().join("\n")).filter(|hint| !hint.is_empty()),
            ..Self::wrong(message)
        }
    }

    /// The error for those who read JSON.
    pub(crate) fn in_json(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Shape<'a> {
            error: Members<'a>,
        }

        #[derive(Serialize)]
        struct Members<'a> {
            kind: Kind,
            message: &'a str,
            causes: &'a [String],
            hints: Vec<&'a str>,
        }

        let (message, hints) = without_hints(&self.message);
        let hints = hints.into_iter().chain(self.hint.as_deref()).collect();
        Shape { error: Members { kind: self.kind, message, causes: &self.causes, hints } }
    }

    /// The deepest cause that is known, for a list of several failures.
    pub(crate) fn cause(self) -> String {
        let Self { message, mut causes, .. } = self;
        causes.pop().unwrap_or(message)
    }

    /// The status to leave with: 2 for usage and configuration, 1 for the rest.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Usage => ExitCode::from(2),
            Kind::Failed => ExitCode::FAILURE,
        }
    }
}

/// A message, and the hints that it ends with.
fn without_hints(message: &str) -> (&str, Vec<&str>) {
    let mut rest = message.trim_end();
    let mut hints = Vec::new();
    while let Some((before, hint)) = rest.rsplit_once('\n')
        && let Some(hint) = hint.strip_prefix("hint: ")
    {
        hints.insert(0, hint);
        rest = before.trim_end();
    }
    (rest, hints)
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn in_json(error: &Error) -> serde_json::Value {
        serde_json::to_value(error.in_json()).unwrap()
    }

    #[test]
    fn an_error_has_its_parts_in_json() {
        let error = Error::failed("it broke").because("one\ntwo").hint("mend it");
        assert_eq!(
            in_json(&error),
            json!({"error": {"kind": "failed", "message": "it broke", "causes": ["one", "two"],
                "hints": ["mend it"]}})
        );
    }

    #[test]
    fn hints_at_the_end_of_a_message_are_hints() {
        let error = Error::wrong("no file\n  a.json\n\nhint: make one\nhint: name one");
        assert_eq!(
            in_json(&error),
            json!({"error": {"kind": "usage", "message": "no file\n  a.json", "causes": [],
                "hints": ["make one", "name one"]}})
        );
        assert_eq!(in_json(&Error::wrong("hint: alone"))["error"]["message"], "hint: alone");
    }
}
