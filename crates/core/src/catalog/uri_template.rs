//! URI templates (RFC 6570), as far as needed to recognize their expansions.

/// Returns `true` if `uri` may be an expansion of `template` (RFC 6570).
///
/// Compares only the literal text between the template's expressions.
pub fn may_expand_to(template: &str, uri: &str) -> bool {
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

/// Returns the number of literal bytes of a template. The more there are, the fewer URIs match.
pub fn literal_length(template: &str) -> usize {
    let literal = |part: &str| part.split_once('}').map_or(part.len(), |(_, text)| text.len());
    template.split('{').map(literal).sum()
}

/// Returns `true` if `uri` is an expansion of `template` (RFC 6570).
///
/// Stricter than [`may_expand_to`]: a value can't contain characters that its expression would have
/// encoded.
pub fn expands_to(template: &str, uri: &str) -> bool {
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
            // Some servers let an exploded variable span several path segments.
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
    fn uri_matches_the_template_it_was_expanded_from() {
        assert!(may_expand_to("test://template/{id}/data", "test://template/12/data"));
        assert!(may_expand_to("file:///{+path}", "file:///a/b.txt"));
        assert!(may_expand_to("db://rows{?limit,offset}", "db://rows?limit=3"));
        assert!(!may_expand_to("test://template/{id}/data", "test://template/12"));
        assert!(!may_expand_to("a.c/{x}", "abc/1"));
        assert!(!may_expand_to("broken{x", "broken"));
    }

    #[test]
    fn only_literal_text_counts_for_the_length_of_a_template() {
        let lengths = ["{+x}", "q://{x}", "q://{x}/{y}.txt", "q://a", ""].map(literal_length);
        assert_eq!(lengths, [0, 4, 9, 5, 0]);
    }

    #[test]
    fn values_cannot_contain_characters_that_are_encoded() {
        assert!(expands_to("note://{id}", "note://a") && !expands_to("note://{id}", "note://a/b"));
        assert!(!expands_to("note://{id}", "note://a?b"));
        assert!(expands_to("file:///{+path}", "file:///a/b?c"));
        assert!(expands_to("file:///{path*}", "file:///a/b"));
        assert!(
            expands_to("x:/a{/more}{?q}", "x:/a/b?q=1") && expands_to("x:/a{/more}{?q}", "x:/a")
        );
        assert!(expands_to("x:/a{.kind}{;p}", "x:/a.png;p=1"));
        assert!(expands_to("a.c/{x}", "a.c/1") && !expands_to("a.c/{x}", "abc/1"));
        assert!(!expands_to("broken{x", "broken"));
    }
}
