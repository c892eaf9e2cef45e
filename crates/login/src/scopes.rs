//! Limits for the scopes that servers and authorization servers name.

/// Maximum length of one list, in bytes with separators.
const MAX_BYTES: usize = 8 * 1024;
/// Maximum length of a list in messages and logs, in bytes.
const MAX_SHOWN: usize = 200;

/// Keeps the first `most` scopes, and at most 8 KiB. Returns `true` if there were more.
pub(crate) fn limit(scopes: &mut Vec<String>, most: usize) -> bool {
    let mut bytes = 0;
    let fitting = scopes.iter().take(most).take_while(|scope| {
        bytes += scope.len() + 1;
        bytes <= MAX_BYTES
    });
    let fitting = fitting.count();
    let has_more = fitting < scopes.len();
    scopes.truncate(fitting);
    has_more
}

/// Returns the scopes for messages and logs, shortened.
pub(crate) fn shown(scopes: &[String]) -> String {
    let mut text = String::new();
    for scope in scopes {
        if text.len() + scope.len() > MAX_SHOWN {
            return format!("{text}\u{2026} ({} scopes)", scopes.len());
        }
        text.push_str(scope);
        text.push(' ');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn scopes(count: usize, length: usize) -> Vec<String> {
        (0..count).map(|number| format!("{number:0length$}")).collect()
    }

    #[test]
    fn number_and_bytes_of_scopes_are_limited() {
        for (count, length, kept) in [
            (256, 8, 256),
            (257, 8, 256),
            (8, MAX_BYTES / 8 - 1, 8),
            (9, MAX_BYTES / 8 - 1, 8),
            (1, MAX_BYTES - 1, 1),
            (1, MAX_BYTES, 0),
            (0, 0, 0),
        ] {
            let mut all = scopes(count, length);
            assert_eq!(limit(&mut all, 256), kept < count, "{count} {length}");
            assert_eq!(all.len(), kept, "{count} {length}");
        }
    }

    #[test]
    fn long_lists_are_shortened_in_messages() {
        assert_eq!(shown(&scopes(2, 4)), "0000 0001");
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&scopes(1, 1000)), "\u{2026} (1 scopes)");
        let text = shown(&scopes(100, 30));
        assert!(text.len() < 230 && text.ends_with(" \u{2026} (100 scopes)"), "{text}");
    }
}
