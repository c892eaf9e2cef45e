//! The identity of a backend.

/// Identifies a backend among those of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub(super) usize);

impl BackendId {
    /// The id of something that is no backend.
    pub(crate) const NONE: Self = Self(usize::MAX);
}

#[cfg(test)]
impl BackendId {
    /// One of no pool.
    pub(crate) fn numbered(number: usize) -> Self {
        Self(number)
    }
}
