//! A pattern in the rules that matches nothing.

use std::fmt;

use crate::catalog::PrimitiveKind;
use crate::policy::rule::RulePath;

/// A pattern in the rules that matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedPattern {
    /// The list that contains the pattern.
    pub rule: RulePath,
    pub pattern: String,
    /// Suggests a similar name, or the server's own name if the pattern is a configured one.
    pub hint: Option<String>,
    pub kind: PrimitiveKind,
}

impl fmt::Display for UnmatchedPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = &self.pattern;
        match self.kind {
            PrimitiveKind::Tool => {
                write!(f, "no tool matches `{pattern}`, so this entry has no effect")
            }
            PrimitiveKind::Prompt => {
                write!(f, "no prompt matches `{pattern}`, so this entry has no effect")
            }
            PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate => {
                write!(f, "no listed resource or template has the URI or name `{pattern}`")
            }
        }
    }
}
