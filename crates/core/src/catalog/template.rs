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
}
