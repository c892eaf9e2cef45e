//! Backend IDs.

/// Identifies a backend within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub(super) usize);

impl BackendId {
    /// For macros, which have no backend.
    pub(crate) const NONE: Self = Self(usize::MAX);
}

#[cfg(test)]
impl BackendId {
    pub(crate) fn numbered(number: usize) -> Self {
        Self(number)
    }
}
