//! Tool, resource and prompt filters: names or globs, negated by a leading `!`.

use globset::Glob;

use crate::syntax::document::SourceLocation;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use mcp_workbench_settings::ToolAnnotation;

/// The error message and hint for one kind of primitive.
#[derive(Clone, Copy)]
pub(crate) struct FilterSubject {
    expected: &'static str,
    hint: &'static str,
}

pub(crate) const TOOL: FilterSubject = FilterSubject {
    expected: "expected a tool name or a glob",
    hint: "write a name, or a glob such as `read_*` or `{get,list}_?`",
};
pub(crate) const RESOURCE: FilterSubject = FilterSubject {
    expected: "expected a resource URI, a resource name or a glob",
    hint: "write a URI, a name, or a glob such as `file:///docs/*`",
};
pub(crate) const PROMPT: FilterSubject = FilterSubject {
    expected: "expected a prompt name or a glob",
    hint: "write a name, or a glob such as `review_*`",
};
pub(crate) const METHOD: FilterSubject = FilterSubject {
    expected: "expected a method or a glob",
    hint: "write a method, or a glob such as `acme/*`",
};

pub(crate) fn check_patterns(
    patterns: &[Located<String>],
    subject: FilterSubject,
    reader: &mut ConfigReader<'_>,
) {
    for filter in patterns {
        let pattern = filter.value.strip_prefix('!').unwrap_or(&filter.value);
        if pattern.trim().is_empty() {
            reader.report_error(&filter.location, subject.expected, None);
        } else if let Err(error) = Glob::new(pattern) {
            let message = format!("`{pattern}` is not a glob: {}", error.kind());
            reader.report_error(&filter.location, message, Some(subject.hint.to_owned()));
        }
    }
}

pub(crate) fn into_patterns(
    patterns: Option<Vec<Located<String>>>,
    subject: FilterSubject,
    reader: &mut ConfigReader<'_>,
) -> Vec<String> {
    let patterns = patterns.unwrap_or_default();
    check_patterns(&patterns, subject, reader);
    patterns.into_iter().map(|pattern| pattern.value).collect()
}

/// Reports a misspelled annotation. As a tool name, it would match nothing, also in a denylist.
pub(crate) fn check_annotation(
    word: &str,
    location: &SourceLocation,
    reader: &mut ConfigReader<'_>,
) {
    if ToolAnnotation::from_pattern(word).is_some() {
        return;
    }
    let known = ToolAnnotation::ALL.map(ToolAnnotation::pattern);
    let hint = did_you_mean(word, &known)
        .unwrap_or_else(|| format!("annotations: {}", quoted_list(&known, "and")));
    reader.report_error(location, format!("`{word}` is not an annotation"), Some(hint));
}
