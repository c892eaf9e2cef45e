//! One way in which arguments do not fit a schema, and several as a short list.

use std::fmt;

use crate::name::seen;

/// The most bytes of schemas that a list quotes.
const MAX_SCHEMA: usize = 1024;

/// One way in which arguments do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The property: the way to it with dots between, empty for the arguments as a whole.
    pub property: String,
    /// The fault of the value.
    pub problem: String,
    /// The piece of the schema that it breaks, cut where it is long.
    pub expected: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, problem, expected } = self;
        let text = if property.is_empty() {
            format!("the whole of it {problem}; schema: {expected}")
        } else {
            format!("`{property}` {problem}; schema: {expected}")
        };
        // Servers name their properties, and agents theirs.
        f.write_str(&seen::line(&text))
    }
}

/// Lists mismatches, one a line, each with the piece of the schema that it breaks, as far as there is
/// room for it.
pub fn list_mismatches(mismatches: &[Mismatch]) -> String {
    let mut room = MAX_SCHEMA;
    let lines = mismatches.iter().enumerate().map(|(index, mismatch)| {
        // What one leaves is there for the next ones.
        let share = room / (mismatches.len() - index);
        let end = mismatch.expected.floor_char_boundary(share);
        let cut = if end < mismatch.expected.len() { "…" } else { "" };
        room -= end;
        let expected = format!("{}{cut}", &mismatch.expected[..end]);
        format!("- {}", Mismatch { expected, ..mismatch.clone() })
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_schemas_share_their_room() {
        let mismatch = |length: usize| Mismatch {
            property: "a".to_owned(),
            problem: "is null".to_owned(),
            expected: "ä".repeat(length / 2),
        };
        let text = list_mismatches(&[mismatch(2), mismatch(900), mismatch(900), mismatch(900)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "- `a` is null; schema: ä");
        assert!(lines[1..].iter().all(|line| line.ends_with("ä…")), "{text}");
        assert!(text.len() <= MAX_SCHEMA + 4 * 30, "{}", text.len());
        assert_eq!(list_mismatches(&[]), "");
        assert!(!list_mismatches(&[mismatch(1000)]).contains('…'), "one alone has all of it");
    }
}
