//! The findings of `lock --check`, as SARIF 2.1.0.

use serde_json::{Value, json};

use crate::cli::lock::report::{Report, Row};

/// The rules that a result may be of: the word for a difference, and what it means.
const RULES: [(&str, &str); 4] = [
    ("changed", "A server says something else of a definition than was reviewed"),
    ("new", "A server has a definition that nobody has reviewed"),
    ("removed", "A server has no longer what was reviewed"),
    ("unclear", "A definition can be read in two ways"),
];

/// The whole log.
pub(super) fn log(report: &Report) -> Value {
    let rules = RULES.map(|(id, text)| {
        json!({
            "id": format!("definition-{id}"),
            "shortDescription": {"text": text},
            "helpUri": "https://modelcontextprotocol.io/specification/2025-11-25/server/tools",
        })
    });
    let failed = report.failed.iter().map(|failed| {
        json!({
            "level": "error",
            "message": {"text": format!("`{}` could not be started: {}", failed.server, failed.reason)},
        })
    });
    let results: Vec<Value> = report.drift.iter().map(|row| result(row, &report.file)).collect();
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
                "toolExecutionNotifications": failed.collect::<Vec<_>>(),
            }],
            "results": results,
        }],
    })
}

fn result(row: &Row, file: &str) -> Value {
    let level = if row.difference == "removed" { "warning" } else { "error" };
    let uri = file.strip_prefix("./").unwrap_or(file).replace('\\', "/");
    json!({
        "ruleId": format!("definition-{}", row.difference),
        "level": level,
        "message": {"text": format!("`{}`: {}. {}", row.server, row.said, row.accept)},
        "locations": [{
            "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}},
            "logicalLocations": [{"fullyQualifiedName": format!("{}/{}/{}", row.server, row.kind, row.name)}],
        }],
        "partialFingerprints": {"definition/v1": format!("{}/{}/{}/{}", row.server, row.kind, row.name, row.difference)},
    })
}
