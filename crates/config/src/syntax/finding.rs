//! Errors and warnings about a configuration, each with its location and a hint. [`ConfigReport`]
//! renders them.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used. In a server's entry, an error disables only that server.
    Error,
    /// The configuration can be used, but a setting has no effect or is doubtful.
    Warning,
}

/// An error or warning in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// The file, if it isn't the file of the report.
    pub file: Option<Box<str>>,
    /// The path of the setting, such as `toolboxes.dev.mcpServers.files.args[1]`. Empty for the
    /// whole file.
    pub path: String,
    /// Line and column, both 1-based. Columns count characters.
    pub position: Option<(usize, usize)>,
    pub message: String,
    /// Advice on how to fix it.
    pub hint: Option<String>,
}

impl Finding {
    /// Returns an error in the setting at `path` in the report's file, without a position.
    pub fn error(path: impl Into<String>, message: String, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into());
        Self { severity: Severity::Error, ..Self::warning(path.into(), message, hint) }
    }

    /// Returns a warning about the setting at `path` in the report's file, without a position.
    pub fn warning(path: String, message: String, hint: Option<String>) -> Self {
        Self { severity: Severity::Warning, file: None, path, position: None, message, hint }
    }
}

/// The findings of one file, or of a folder of files. Displays errors first, then warnings, each in
/// file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigReport {
    /// The file or folder, as the user named it.
    pub file: String,
    pub findings: Vec<Finding>,
}

impl ConfigReport {
    /// Returns `true` if any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.of(Severity::Error).next().is_some()
    }

    /// Renders the report without its leading `error: ` or `warning: ` label.
    pub fn without_label(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| self.render(f, false))
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }

    fn render(&self, f: &mut fmt::Formatter<'_>, has_label: bool) -> fmt::Result {
        let errors = self.has_errors();
        let warnings = self.of(Severity::Warning).next().is_some();
        if errors {
            self.section(f, Severity::Error, has_label)?;
        }
        if errors && warnings {
            f.write_str("\n\n")?;
        }
        if warnings {
            self.section(f, Severity::Warning, has_label || errors)?;
        }
        Ok(())
    }

    fn section(
        &self,
        f: &mut fmt::Formatter<'_>,
        severity: Severity,
        has_label: bool,
    ) -> fmt::Result {
        let count = self.of(severity).count();
        let label = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let plural = if count == 1 { "" } else { "s" };
        if has_label {
            write!(f, "{label}: ")?;
        }
        writeln!(f, "{count} {label}{plural} in `{}`", self.file)?;
        for finding in self.of(severity).take(MAX_SHOWN) {
            write!(f, "\n  {}:", finding.file.as_deref().unwrap_or(&self.file))?;
            if let Some((line, column)) = finding.position {
                write!(f, "{line}:{column}:")?;
            }
            if !finding.path.is_empty() {
                write!(f, " {}:", finding.path)?;
            }
            write!(f, " {}", finding.message)?;
            if let Some(hint) = &finding.hint {
                write!(f, "\n    hint: {}", hint.replace('\n', "\n          "))?;
            }
        }
        if count > MAX_SHOWN {
            write!(f, "\n  … and {} more", count - MAX_SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render(f, true)
    }
}

/// Maximum findings printed per severity; a generated file can have thousands.
const MAX_SHOWN: usize = 50;
