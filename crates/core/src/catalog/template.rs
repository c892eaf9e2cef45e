//! Templates of addresses (RFC 6570), as far as it takes to tell what was made of one.

/// Returns `true` if an address may have been made of a template (RFC 6570): it has to have the
/// text between the template's expressions.
pub fn fits(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let Some(mut rest) = parts.next().and_then(|first| uri.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let Some((_, text)) = part.split_once('}') else { return false };
        if parts.peek().is_none() {
            return rest.ends_with(text);
        }
        let Some(at) = rest.find(text) else { return false };
        rest = &rest[at + text.len()..];
    }
    false
}

/// Returns `true` if an address is made of a template (RFC 6570): like [`fits`], but values have no
/// characters in them that their expressions would have encoded.
pub fn is_made_of(template: &str, uri: &str) -> bool {
    let mut pattern = String::from(r"(?s)\A");
    let mut parts = template.split('{');
    pattern.push_str(&regex::escape(parts.next().unwrap_or_default()));
    for part in parts {
        let Some((expression, text)) = part.split_once('}') else { return false };
        pattern.push_str(match expression.chars().next() {
            Some('+' | '#') => ".*",
            Some('/') => "(?:/[^?#]*)?",
            Some('?') => r"(?:\?[^#]*)?",
            Some('&') => "(?:&[^#]*)?",
            Some('.') => r"(?:\.[^/?#]*)?",
            Some(';') => "(?:;[^/?#]*)?",
            // There are servers to which this means any number of parts of a path.
            _ if expression.ends_with('*') => "[^?#]*",
            _ => "[^/?#]*",
        });
        pattern.push_str(&regex::escape(text));
    }
    pattern.push_str(r"\z");
    regex::Regex::new(&pattern).is_ok_and(|made| made.is_match(uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_the_template_it_was_made_of() {
        assert!(fits("test://template/{id}/data", "test://template/12/data"));
        assert!(fits("file:///{+path}", "file:///a/b.txt"));
        assert!(fits("db://rows{?limit,offset}", "db://rows?limit=3"));
        assert!(!fits("test://template/{id}/data", "test://template/12"));
        assert!(!fits("a.c/{x}", "abc/1"));
        assert!(!fits("broken{x", "broken"));
    }

    #[test]
    fn a_value_has_nothing_in_it_that_would_have_been_encoded() {
        assert!(is_made_of("note://{id}", "note://a") && !is_made_of("note://{id}", "note://a/b"));
        assert!(!is_made_of("note://{id}", "note://a?b"));
        assert!(is_made_of("file:///{+path}", "file:///a/b?c"));
        assert!(is_made_of("file:///{path*}", "file:///a/b"));
        assert!(
            is_made_of("x:/a{/more}{?q}", "x:/a/b?q=1") && is_made_of("x:/a{/more}{?q}", "x:/a")
        );
        assert!(is_made_of("x:/a{.kind}{;p}", "x:/a.png;p=1"));
        assert!(is_made_of("a.c/{x}", "a.c/1") && !is_made_of("a.c/{x}", "abc/1"));
        assert!(!is_made_of("broken{x", "broken"));
    }
}
