//! The error of a failed command: a message, its causes and a hint.

use std::error::Error as StdError;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::troubleshooting::Symptom;

#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    symptom: Option<Symptom>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Wrong command line or configuration: exit code 2.
    Usage,
    /// The command failed: exit code 1.
    Failed,
}

impl CommandError {
    pub(crate) fn config(error: impl StdError) -> Self {
        Self::new(Kind::Usage, error)
    }

    pub(crate) fn usage_with_cause(message: String, cause: &impl StdError) -> Self {
        Self::usage(message).with_cause(&cause.to_string())
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::failed(message) }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Failed,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            symptom: None,
        }
    }

    /// Adds a cause for each line.
    pub(crate) fn with_cause(mut self, cause: &str) -> Self {
        self.causes.extend(cause.lines().map(str::to_owned));
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a link to the troubleshooting page.
    pub(crate) fn with_link(self, symptom: Symptom) -> Self {
        Self { symptom: Some(symptom), ..self }
    }

    /// Changes the exit code to 2, for commands whose exit code 1 is a negative result.
    pub(crate) fn into_usage(self) -> Self {
        Self { kind: Kind::Usage, ..self }
    }

    /// A failure that should not happen.
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
        Self { kind, causes, ..Self::failed(error.to_string()) }
    }

    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
        let message = parts.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        Self {
            hint: Some(parts.collect::<Vec<_>>().join("\n")).filter(|hint| !hint.is_empty()),
            ..Self::usage(message)
        }
    }

    pub(crate) fn to_json(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Shape<'a> {
            error: ErrorBody<'a>,
        }

        #[derive(Serialize)]
        struct ErrorBody<'a> {
            kind: Kind,
            message: &'a str,
            causes: &'a [String],
            hints: Vec<String>,
        }

        let (message, hints) = without_hints(&self.message);
        let hints = hints.into_iter().chain(self.hint.as_deref()).map(str::to_owned);
        let hints = hints.chain(self.symptom.map(|symptom| symptom.to_string())).collect();
        Shape { error: ErrorBody { kind: self.kind, message, causes: &self.causes, hints } }
    }

    /// Returns the deepest cause. Lists of several failures show only that.
    pub(crate) fn into_root_cause(self) -> String {
        let Self { message, mut causes, .. } = self;
        causes.pop().unwrap_or(message)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Usage => ExitCode::from(2),
            Kind::Failed => ExitCode::FAILURE,
        }
    }
}

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

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.message.trim_end())?;
        for cause in &self.causes {
            write!(f, "\n  {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {hint}")?;
        }
        match &self.symptom {
            Some(symptom) => write!(f, "\n\n{symptom}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn in_json(error: &CommandError) -> serde_json::Value {
        serde_json::to_value(error.to_json()).unwrap()
    }

    #[test]
    fn serializes_kind_message_causes_and_hints() {
        let error = CommandError::failed("it broke").with_cause("one\ntwo").with_hint("fix it");
        assert_eq!(
            in_json(&error),
            json!({"error": {"kind": "failed", "message": "it broke", "causes": ["one", "two"],
                "hints": ["fix it"]}})
        );
    }

    #[test]
    fn splits_trailing_hints_off_the_message() {
        let error = CommandError::usage("no file\n  a.json\n\nhint: make one\nhint: name one");
        assert_eq!(
            in_json(&error),
            json!({"error": {"kind": "usage", "message": "no file\n  a.json", "causes": [],
                "hints": ["make one", "name one"]}})
        );
        assert_eq!(in_json(&CommandError::usage("hint: alone"))["error"]["message"], "hint: alone");
    }
}
