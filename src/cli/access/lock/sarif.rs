//! The findings of `lock --check`, as SARIF 2.1.0.

use serde_json::{Value, json};

use crate::cli::access::lock::report::{DriftReport, DriftRow, PACKAGE_KIND};
use crate::cli::diagnostics::definition_remarks::{self, DefinitionRemarks};
use crate::lint::{self, Severity};

const RULES: [(&str, &str); 5] = [
    ("definition-changed", "A definition differs from the reviewed one"),
    ("definition-new", "A definition has not been reviewed"),
    ("definition-removed", "A reviewed definition no longer exists"),
    ("definition-unclear", "A definition is ambiguous"),
    ("package-changed", "A package has a different digest but the same version"),
];

pub(super) fn log(report: &DriftReport) -> Value {
    let rules = RULES.iter().map(|(id, text)| {
        json!({
            "id": id,
            "shortDescription": {"text": text},
            "helpUri": "https://modelcontextprotocol.io/specification/2025-11-25/server/tools",
        })
    });
    let remarks = lint::RULES.iter().map(|rule| {
        json!({
            "id": format!("finding-{}", rule.id),
            "shortDescription": {"text": format!("A definition has {}", rule.finds)},
            "help": {"text": rule.advice},
            "helpUri": "https://github.com/mcp-workbench/mcp-workbench/blob/main/docs/review-definitions.md",
        })
    });
    let rules: Vec<Value> = rules.chain(remarks).collect();
    let failed = report.failed.iter().map(|failed| {
        json!({
            "level": "error",
            "message": {"text": format!("`{}` failed to start: {}", failed.server, failed.reason)},
        })
    });
    let notes = report.notes().iter();
    let notes = notes.map(|note| json!({"level": "note", "message": {"text": note}}));
    let results = report.drift.iter().map(|row| result(row, &report.file));
    let remarks = report.findings.iter().flat_map(DefinitionRemarks::rows);
    let remarks = remarks.map(|remark| on_definition(&remark, &report.file));
    let results: Vec<Value> = results.chain(remarks).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "mcp-workbench",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "invocations": [{
                "executionSuccessful": report.failed.is_empty(),
                "toolExecutionNotifications": failed.chain(notes).collect::<Vec<_>>(),
            }],
            "results": results,
        }],
    })
}

fn result(row: &DriftRow, file: &str) -> Value {
    let level = if row.difference == "removed" { "warning" } else { "error" };
    json!({
        "ruleId": rule(row),
        "level": level,
        "message": {"text": format!("`{}`: {}. {}", row.server, row.text, row.accept)},
        "locations": [location(file, &[&row.server, row.kind, &row.name])],
        "partialFingerprints": {"definition/v1": format!("{}/{}/{}/{}", row.server, row.kind, row.name, row.difference)},
    })
}

fn rule(row: &DriftRow) -> String {
    let of = if row.kind == PACKAGE_KIND { PACKAGE_KIND } else { "definition" };
    format!("{of}-{}", row.difference)
}

/// Reports a remark on an unreviewed definition as a warning, and any other as a note.
fn on_definition(remark: &definition_remarks::RemarkRow<'_>, file: &str) -> Value {
    let is_warning = remark.is_reviewed == Some(false) && remark.severity != Severity::Low;
    let definition_remarks::RemarkRow { server, rule, place, .. } = remark;
    let place = [*server, place.kind, place.name, place.pointer];
    json!({
        "ruleId": format!("finding-{rule}"),
        "level": if is_warning { "warning" } else { "note" },
        "message": {"text": format!("`{server}`: {}. {}", remark.words, remark.advice)},
        "locations": [location(file, &place)],
        "partialFingerprints": {"finding/v1": format!("{}/{rule}", place.join("/"))},
    })
}

/// Points at the lock file, the only file that SARIF can refer to. The logical location names the
/// definition.
fn location(file: &str, steps: &[&str]) -> Value {
    let uri = file.strip_prefix("./").unwrap_or(file).replace('\\', "/");
    json!({
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": steps.join("/")}],
    })
}
