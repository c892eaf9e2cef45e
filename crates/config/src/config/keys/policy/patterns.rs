//! Patterns over the names of tools.

use globset::Glob;

use crate::config::syntax::document::Spot;
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};

/// Patterns over the names of tools: names, globs, and either with a server and `:` before it.
pub(crate) fn patterns(
    raw: Vec<Located<String>>,
    servers: &[String],
    reader: &mut Reader<'_>,
) -> Vec<String> {
    for pattern in &raw {
        let text = &pattern.value;
        if text.trim().is_empty() {
            reader.error(&pattern.spot, "expected a tool's name or a glob", None);
        } else if text.starts_with('!') {
            let hint = "write what is meant, or leave tools out by the `toolFilters` of a server";
            reader.error(&pattern.spot, "`!` has no meaning here", Some(hint.to_owned()));
        } else if glob(pattern, reader).is_some() {
            check_server_of(pattern, servers, reader);
        }
    }
    texts(raw)
}

/// Warns where the part before `:` is no server: whoever misspells that of a dangerous tool has to
/// hear of it.
pub(crate) fn check_server_of(
    pattern: &Located<String>,
    servers: &[String],
    reader: &mut Reader<'_>,
) {
    let Some((server, tool)) = pattern.value.split_once(':') else { return };
    let is_one = |known: &String| {
        pattern.value.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with(':'))
            || Glob::new(server).is_ok_and(|glob| glob.compile_matcher().is_match(known))
    };
    // In braces it may stand anywhere.
    if !server.is_empty()
        && !tool.is_empty()
        && !server.contains('{')
        && !servers.iter().any(is_one)
    {
        unknown_server(server, &pattern.spot, servers, reader);
    }
}

pub(crate) fn unknown_server(name: &str, spot: &Spot, servers: &[String], reader: &mut Reader<'_>) {
    let known: Vec<&str> = servers.iter().map(String::as_str).collect();
    let hint = did_you_mean(name, &known);
    let hint = hint.or_else(|| {
        const MOST: usize = 12;
        (!known.is_empty() && known.len() <= MOST)
            .then(|| format!("the servers are {}", listed(&known, "and")))
    });
    reader.warn(spot, format!("there is no server `{name}`"), hint);
}

/// The pattern as a glob; where it is none, that has been reported.
pub(crate) fn glob(pattern: &Located<String>, reader: &mut Reader<'_>) -> Option<Glob> {
    match Glob::new(&pattern.value) {
        Ok(glob) => Some(glob),
        Err(error) => {
            let message = format!("`{}` is not a glob: {}", pattern.value, error.kind());
            let hint = "write a name, or a glob such as `read_*`".to_owned();
            reader.error(&pattern.spot, message, Some(hint));
            None
        }
    }
}

pub(crate) fn texts(located: Vec<Located<String>>) -> Vec<String> {
    located.into_iter().map(|text| text.value).collect()
}
