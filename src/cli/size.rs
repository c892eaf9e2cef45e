//! Sizes: how many bytes something takes, and about how many tokens of a model's context.

use std::iter::Sum;

use indicatif::HumanCount;
use serde::{Serialize, Serializer};

use crate::observe::tokens;

/// How large something is that a model gets to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    bytes: usize,
}

impl Size {
    pub(crate) fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// An estimate.
    pub(crate) fn tokens(self) -> usize {
        tokens(self.bytes)
    }
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::of(self.bytes + other.bytes)
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| sum + size)
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, about {}", count(self.bytes, "byte"), count(self.tokens(), "token"))
    }
}

/// Stands in an object as its two members; `#[serde(flatten)]` puts them beside others.
impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members {
            bytes: usize,
            estimated_tokens: usize,
        }

        let members = Members { bytes: self.bytes, estimated_tokens: self.tokens() };
        members.serialize(serializer)
    }
}

/// A number with its thousands set apart.
pub(crate) fn number(number: usize) -> String {
    HumanCount(number as u64).to_string()
}

/// A number of things.
pub(crate) fn count(number: usize, thing: &str) -> String {
    let plural = match number {
        1 => "",
        _ if thing.ends_with('x') => "es",
        _ => "s",
    };
    format!("{} {thing}{plural}", self::number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_reads_well() {
        assert_eq!(Size::of(1).to_string(), "1 byte, about 0 tokens");
        assert_eq!(Size::of(12_345).to_string(), "12,345 bytes, about 2,743 tokens");
    }
}
