//! Findings of a reader, in words of an import.

use crate::authoring::import::{Grade, ImportFinding, Source};
use crate::config::syntax::finding::{Finding, Severity};

/// Returns the findings of a reader in words of an import; with `hints`, its advice too.
pub(super) fn graded(source: &Source, findings: Vec<Finding>, hints: bool) -> Vec<ImportFinding> {
    let one = |finding: Finding| ImportFinding {
        grade: match finding.severity {
            Severity::Error => Grade::Unsupported,
            Severity::Warning => Grade::Approximate,
        },
        file: source.file.clone(),
        path: finding.path,
        position: finding.position,
        message: match finding.severity {
            Severity::Error => format!("not carried over: {}", finding.message),
            Severity::Warning => finding.message,
        },
        // What a warning advises is done here, or cannot be.
        hint: finding.hint.filter(|_| hints),
    };
    findings.into_iter().map(one).collect()
}
