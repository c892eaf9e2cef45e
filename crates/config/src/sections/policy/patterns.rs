//! Tool patterns: names and globs, optionally prefixed with `server:`.

use globset::Glob;

use crate::sections::filter::check_annotation;
use crate::syntax::document::SourceLocation;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};

pub(crate) fn check_tool_patterns(
    raw: Vec<Located<String>>,
    servers: &[String],
    reader: &mut ConfigReader<'_>,
) -> Vec<String> {
    for pattern in &raw {
        let text = &pattern.value;
        if text.trim().is_empty() {
            reader.report_error(&pattern.location, "expected a tool name or a glob", None);
        } else if let Some(word) = annotation_word(text) {
            check_annotation(word, &pattern.location, reader);
            if !text.starts_with('!') {
                check_server_of(pattern, servers, reader);
            }
        } else if text.starts_with('!') {
            let hint =
                "list the allowed tools, or exclude tools with the `toolFilters` of a server";
            reader.report_error(
                &pattern.location,
                "`!` is not supported here",
                Some(hint.to_owned()),
            );
        } else if glob(pattern, reader).is_some() {
            check_server_of(pattern, servers, reader);
        }
    }
    into_values(raw)
}

/// Returns the annotation in a pattern such as `@readOnly` or `server:@readOnly`.
fn annotation_word(pattern: &str) -> Option<&str> {
    let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
    let word = pattern.rsplit_once(':').map_or(pattern, |(_, word)| word);
    word.starts_with('@').then_some(word)
}

/// Warns if the part before `:` matches no server. Otherwise a misspelled server in
/// `dangerousTools` would go unnoticed.
pub(crate) fn check_server_of(
    pattern: &Located<String>,
    servers: &[String],
    reader: &mut ConfigReader<'_>,
) {
    let Some((server, tool)) = pattern.value.split_once(':') else { return };
    let is_one = |known: &String| {
        pattern.value.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with(':'))
            || Glob::new(server).is_ok_and(|glob| glob.compile_matcher().is_match(known))
    };
    // Skip braces: their alternatives can contain the `server:` part.
    if !server.is_empty()
        && !tool.is_empty()
        && !server.contains('{')
        && !servers.iter().any(is_one)
    {
        warn_unknown_server(server, &pattern.location, servers, reader);
    }
}

pub(crate) fn warn_unknown_server(
    name: &str,
    location: &SourceLocation,
    servers: &[String],
    reader: &mut ConfigReader<'_>,
) {
    let known: Vec<&str> = servers.iter().map(String::as_str).collect();
    let hint = did_you_mean(name, &known);
    let hint = hint.or_else(|| {
        const MOST: usize = 12;
        (!known.is_empty() && known.len() <= MOST)
            .then(|| format!("configured servers: {}", quoted_list(&known, "and")))
    });
    reader.report_warning(location, format!("no server `{name}`"), hint);
}

pub(crate) fn glob(pattern: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<Glob> {
    match Glob::new(&pattern.value) {
        Ok(glob) => Some(glob),
        Err(error) => {
            let message = format!("`{}` is not a glob: {}", pattern.value, error.kind());
            let hint = "write a name, or a glob such as `read_*`".to_owned();
            reader.report_error(&pattern.location, message, Some(hint));
            None
        }
    }
}

pub(crate) fn into_values(located: Vec<Located<String>>) -> Vec<String> {
    located.into_iter().map(|text| text.value).collect()
}
