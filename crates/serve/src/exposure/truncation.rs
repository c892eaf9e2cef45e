//! Truncation of texts to a size limit.

/// Returns the first of `versions`, best first, that has at most `max` bytes, or else the last one.
pub(crate) fn first_that_fits(max: usize, versions: impl IntoIterator<Item = String>) -> String {
    let mut last = String::new();
    for version in versions {
        if version.len() <= max {
            return version;
        }
        last = version;
    }
    last
}

/// Joins `names` with commas up to `max` bytes. Also returns how many were omitted.
pub(crate) fn names_that_fit<'a>(
    max: usize,
    names: impl IntoIterator<Item = &'a str>,
) -> (String, usize) {
    let mut text = String::new();
    let mut left_out = 0;
    for name in names {
        let separator = if text.is_empty() { "" } else { ", " };
        if left_out == 0 && text.len() + separator.len() + name.len() <= max {
            text.push_str(separator);
            text.push_str(name);
        } else {
            left_out += 1;
        }
    }
    (text, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_first_version_that_fits() {
        let versions = || ["longest", "longer", "long"].map(str::to_owned);
        assert_eq!(first_that_fits(99, versions()), "longest");
        assert_eq!(first_that_fits(6, versions()), "longer");
        assert_eq!(first_that_fits(1, versions()), "long");
    }

    #[test]
    fn names_are_never_truncated() {
        assert_eq!(names_that_fit(99, ["ab", "cd"]), ("ab, cd".to_owned(), 0));
        assert_eq!(names_that_fit(5, ["ab", "cd", "e"]), ("ab".to_owned(), 2));
        assert_eq!(names_that_fit(1, ["ab"]), (String::new(), 1));
    }
}
