//! Filters over what servers have: names, globs, and either with a `!` before it.

use globset::Glob;

use crate::config::syntax::reader::{Located, Reader};

/// The words for the kind of primitive that a filter is about: what is expected, and how to write it.
#[derive(Clone, Copy)]
pub(crate) struct About {
    expected: &'static str,
    hint: &'static str,
}

/// Tools.
pub(crate) const TOOL: About = About {
    expected: "expected a tool's name or a glob",
    hint: "write a name, or a glob such as `read_*` or `{get,list}_?`",
};
/// Resources and templates of them.
pub(crate) const RESOURCE: About = About {
    expected: "expected the address or the name of a resource, or a glob",
    hint: "write an address, a name, or a glob such as `file:///docs/*`",
};
/// Prompts.
pub(crate) const PROMPT: About = About {
    expected: "expected a prompt's name or a glob",
    hint: "write a name, or a glob such as `review_*`",
};

/// Reports the patterns that are empty or no globs.
pub(crate) fn check(patterns: &[Located<String>], about: About, reader: &mut Reader<'_>) {
    for filter in patterns {
        let pattern = filter.value.strip_prefix('!').unwrap_or(&filter.value);
        if pattern.trim().is_empty() {
            reader.error(&filter.spot, about.expected, None);
        } else if let Err(error) = Glob::new(pattern) {
            let message = format!("`{pattern}` is not a glob: {}", error.kind());
            reader.error(&filter.spot, message, Some(about.hint.to_owned()));
        }
    }
}

/// The patterns as they are written, after a [`check`].
pub(crate) fn checked(
    patterns: Option<Vec<Located<String>>>,
    about: About,
    reader: &mut Reader<'_>,
) -> Vec<String> {
    let patterns = patterns.unwrap_or_default();
    check(&patterns, about, reader);
    patterns.into_iter().map(|pattern| pattern.value).collect()
}
