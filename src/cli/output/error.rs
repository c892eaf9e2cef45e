//! The error of a failed command: a message, its causes and a hint.

use std::error::Error as StdError;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::cli::output::troubleshooting::Symptom;
use crate::cli::output::wording::did_you_mean;
use mcp_workbench_config::{ConfigReport, LoadError};

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct CommandError {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    symptom: Option<Symptom>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Wrong command line or configuration: exit code 2.
    Usage,
    /// The command failed: exit code 1.
    Failed,
}

impl CommandError {
    pub(crate) fn config(error: LoadError) -> Self {
        let hints = error.hints().iter().map(|hint| (*hint).to_owned()).collect();
        Self { hints, ..Self::new(Kind::Usage, error) }
    }

    pub(crate) fn invalid_config(report: ConfigReport) -> Self {
        Self::config(LoadError::Invalid(report))
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::failed(message) }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Failed,
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            symptom: None,
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The first line of the text is the message, the others are causes.
    pub(crate) fn from_text(text: &str) -> Self {
        let (message, causes) = text.split_once('\n').unwrap_or((text, ""));
        Self::failed(message).with_cause(causes)
    }

    /// Adds a cause for each line.
    pub(crate) fn with_cause(mut self, cause: &str) -> Self {
        self.causes.extend(cause.lines().map(str::to_owned));
        self
    }

    /// Adds an error and its sources as causes.
    pub(crate) fn because(self, error: &dyn StdError) -> Self {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        chain.fold(self, |all, error| all.with_cause(&error.to_string()))
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint with similar names, or else another one.
    pub(crate) fn suggesting(self, near: &[&str], otherwise: &str) -> Self {
        self.with_hint(did_you_mean(near, ", ").unwrap_or_else(|| otherwise.to_owned()))
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
        let new = Self { kind, ..Self::failed(error.to_string()) };
        match error.source() {
            Some(source) => new.because(source),
            None => new,
        }
    }

    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
        let message = parts.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let hint = parts.collect::<Vec<_>>().join("\n");
        let hints = if hint.is_empty() { Vec::new() } else { vec![hint] };
        Self { hints, ..Self::usage(message) }
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

        let message = self.message.trim_end();
        let symptom = self.symptom.map(|symptom| symptom.to_string());
        let hints = self.hints.iter().cloned().chain(symptom).collect();
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

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.message.trim_end())?;
        for cause in &self.causes {
            write!(f, "\n  {cause}")?;
        }
        for (index, hint) in self.hints.iter().enumerate() {
            write!(f, "{}hint: {hint}", if index == 0 { "\n\n" } else { "\n" })?;
        }
        match &self.symptom {
            Some(symptom) => write!(f, "\n\n{symptom}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

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
    fn hints_of_a_configuration_error_are_data() {
        let env = BTreeMap::<String, String>::new();
        let location = mcp_workbench_config::locate(Some("a.json".into()), &env, Path::new("/"));
        let error = CommandError::config(LoadError::Missing(location)).with_hint("name one");
        let value = in_json(&error);
        let message = "no configuration at `a.json` (from `--config`, full path `/a.json`)";
        assert_eq!(value["error"]["message"], message);
        let hints = &error.hints;
        assert_eq!(value["error"]["hints"], json!(hints));
        assert_eq!((hints.len(), hints[3].as_str()), (4, "name one"));
        let hints = hints.join("\nhint: ");
        assert_eq!(error.to_string(), format!("error: {message}\n\nhint: {hints}"));
    }
}
