//! Findings: what is wrong or odd in a file, where it stands, and what to do about it.
//!
//! [`Report`] is the one place that turns them into text.

use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used, or a server of it, if it stands in that one's entry.
    Error,
    /// The configuration can be used, but something in it has no effect or is doubtful.
    Warning,
}

/// One thing that is wrong or odd in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The file that it is in, if that is another than the report's.
    pub file: Option<Box<str>>,
    /// The setting it is about, such as `toolboxes.dev.mcpServers.files.args[1]`; empty for the
    /// file as a whole.
    pub path: String,
    /// Line and column, both from 1; columns count characters.
    pub position: Option<(usize, usize)>,
    /// The words for what was found, and for what was expected.
    pub message: String,
    /// A hint about what to do.
    pub hint: Option<String>,
}

impl Finding {
    /// A remark on a setting of the report's file, wherever in it that stands.
    pub fn remark(path: String, message: String, hint: Option<String>) -> Self {
        Self { severity: Severity::Warning, file: None, path, position: None, message, hint }
    }
}

/// The findings of one file, or of a folder of files, to be read by a person.
///
/// Errors come first, then warnings, each group in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file or folder as the user named it.
    pub file: String,
    /// The findings in it.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns `true` if any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.of(Severity::Error).next().is_some()
    }

    /// The report without the `error: ` or `warning: ` it starts with, for whoever puts one there.
    pub fn body(&self) -> impl fmt::Display {
        let text = self.to_string();
        match text.split_once(": ") {
            Some((_, body)) => body.to_owned(),
            None => text,
        }
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }

    fn section(&self, f: &mut fmt::Formatter<'_>, severity: Severity) -> fmt::Result {
        let count = self.of(severity).count();
        let (label, noun) = match severity {
            Severity::Error => ("error", "problem"),
            Severity::Warning => ("warning", "remark"),
        };
        let plural = if count == 1 { "" } else { "s" };
        writeln!(f, "{label}: {count} {noun}{plural} in `{}`", self.file)?;
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.has_errors();
        let warnings = self.of(Severity::Warning).next().is_some();
        if errors {
            self.section(f, Severity::Error)?;
        }
        if errors && warnings {
            f.write_str("\n\n")?;
        }
        if warnings {
            self.section(f, Severity::Warning)?;
        }
        Ok(())
    }
}

/// Nobody reads on after so many; a machine-made file may have thousands.
const MAX_SHOWN: usize = 50;
