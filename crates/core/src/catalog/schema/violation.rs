//! A violation of a schema, and the formatting of several violations as a list.

use std::fmt;

use mcp_workbench_names::untrusted_text;

/// Maximum size of the schemas quoted in a list, in bytes.
const MAX_SCHEMA: usize = 1024;

/// One violation of a schema by arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The dotted path of the property; empty for the arguments as a whole.
    pub property: String,
    /// A predicate for the property, such as `is required but missing`.
    pub problem: String,
    /// The violated part of the schema, or the names of the allowed properties; truncated.
    pub expected: String,
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, problem, expected } = self;
        let text = if property.is_empty() {
            format!("the value {problem}; schema: {expected}")
        } else {
            format!("`{property}` {problem}; schema: {expected}")
        };
        // Property names come from servers and agents, so they are untrusted.
        f.write_str(&untrusted_text::single_line(&text))
    }
}

/// Formats violations, one per line, each with as much of the violated schema as there is space
/// for.
pub fn format_violations(mismatches: &[SchemaViolation]) -> String {
    let mut capacity = MAX_SCHEMA;
    let lines = mismatches.iter().enumerate().map(|(index, mismatch)| {
        // Space that one excerpt leaves unused is available to the next ones.
        let share = capacity / (mismatches.len() - index);
        let end = mismatch.expected.floor_char_boundary(share);
        let cut = if end < mismatch.expected.len() { "…" } else { "" };
        capacity -= end;
        let expected = format!("{}{cut}", &mismatch.expected[..end]);
        format!("- {}", SchemaViolation { expected, ..mismatch.clone() })
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_excerpts_share_the_space() {
        let mismatch = |length: usize| SchemaViolation {
            property: "a".to_owned(),
            problem: "is null".to_owned(),
            expected: "ä".repeat(length / 2),
        };
        let text = format_violations(&[mismatch(2), mismatch(900), mismatch(900), mismatch(900)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "- `a` is null; schema: ä");
        assert!(lines[1..].iter().all(|line| line.ends_with("ä…")), "{text}");
        assert!(text.len() <= MAX_SCHEMA + 4 * 30, "{}", text.len());
        assert_eq!(format_violations(&[]), "");
        assert!(
            !format_violations(&[mismatch(1000)]).contains('…'),
            "a single violation may use all space"
        );
    }
}
