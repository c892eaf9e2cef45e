//! Lists of names in sentences.

use std::fmt::Display;

/// Quotes the names and joins them: `` `a`, `b` ``.
pub(crate) fn quoted(names: impl IntoIterator<Item = impl Display>, separator: &str) -> String {
    let names = names.into_iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(separator)
}

/// Returns a question that suggests the names, if there are any.
pub(crate) fn did_you_mean(names: &[impl Display], separator: &str) -> Option<String> {
    (!names.is_empty()).then(|| format!("did you mean {}?", quoted(names, separator)))
}
