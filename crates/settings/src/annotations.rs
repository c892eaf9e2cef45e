//! Tool annotations (MCP, server/tools) that rules can name instead of tools, such as `@readOnly`.

/// An annotation that a pattern can name. A server makes these claims about its own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolAnnotation {
    /// `readOnlyHint: true` without `destructiveHint: true`.
    ReadOnly,
    /// `destructiveHint: true`.
    Destructive,
    /// `idempotentHint: true`.
    Idempotent,
    /// `openWorldHint: true`.
    OpenWorld,
}

impl ToolAnnotation {
    pub const ALL: [Self; 4] =
        [Self::ReadOnly, Self::Destructive, Self::Idempotent, Self::OpenWorld];

    /// Returns the pattern that names the annotation.
    pub fn pattern(self) -> &'static str {
        match self {
            Self::ReadOnly => "@readOnly",
            Self::Destructive => "@destructive",
            Self::Idempotent => "@idempotent",
            Self::OpenWorld => "@openWorld",
        }
    }

    /// Reads a pattern. Case, `_` and a final `Hint` don't matter, so `@read_only_hint` is
    /// `@readOnly`.
    pub fn from_pattern(text: &str) -> Option<Self> {
        let word = text.strip_prefix('@')?.replace('_', "").to_ascii_lowercase();
        let word = word.strip_suffix("hint").unwrap_or(&word);
        Self::ALL.into_iter().find(|known| known.pattern()[1..].eq_ignore_ascii_case(word))
    }
}

/// The annotations that a server claims for one tool. By default none, so an allowlist of
/// annotations doesn't match an unknown tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToolAnnotations(u8);

impl ToolAnnotations {
    pub fn with(self, annotation: ToolAnnotation) -> Self {
        Self(self.0 | 1 << annotation as u8)
    }

    pub fn has(self, annotation: ToolAnnotation) -> bool {
        self.0 & (1 << annotation as u8) != 0
    }

    /// Returns every set of annotations that a tool can have.
    pub fn all_sets() -> impl Iterator<Item = Self> {
        (0..1 << ToolAnnotation::ALL.len()).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_an_annotation_are_equal() {
        for text in ["@readOnly", "@readonly", "@readOnlyHint", "@read_only", "@READ_ONLY_HINT"] {
            assert_eq!(
                ToolAnnotation::from_pattern(text),
                Some(ToolAnnotation::ReadOnly),
                "{text}"
            );
        }
        for annotation in ToolAnnotation::ALL {
            assert_eq!(ToolAnnotation::from_pattern(annotation.pattern()), Some(annotation));
        }
        for text in ["readOnly", "@", "@hint", "@read", "@readOnly*", "!@readOnly", "@read-only/x"]
        {
            assert_eq!(ToolAnnotation::from_pattern(text), None, "{text}");
        }
    }
}
