//! Converts the reader's findings to import findings.

use crate::authoring::import::{Grade, ImportFinding, SourceFile};
use mcp_workbench_config::syntax::finding::{Finding, Severity};

/// Converts the reader's findings to import findings. `hints` keeps their hints.
pub(super) fn grade_findings(
    source: &SourceFile,
    findings: Vec<Finding>,
    hints: bool,
) -> Vec<ImportFinding> {
    let one = |finding: Finding| ImportFinding {
        grade: match finding.severity {
            Severity::Error => Grade::Unsupported,
            Severity::Warning => Grade::Approximate,
        },
        file: source.file.clone(),
        path: finding.path,
        position: finding.position,
        message: match finding.severity {
            Severity::Error => format!("not imported: {}", finding.message),
            Severity::Warning => finding.message,
        },
        // A hint for a warning is already followed by the import, or doesn't apply.
        hint: finding.hint.filter(|_| hints),
    };
    findings.into_iter().map(one).collect()
}
