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

/// Replaces lines by longer versions, step by step, while the total stays within `capacity` bytes.
/// `used` is the total of `lines`. Lines of a step are replaced from the first one on; the step
/// that doesn't fit for all of them is the last one.
pub(crate) fn lengthen<L>(
    mut lines: Vec<L>,
    steps: impl IntoIterator<Item = Vec<L>>,
    text: impl Fn(&L) -> &str,
    (mut used, capacity): (usize, usize),
) -> Vec<L> {
    for step in steps {
        let mut all_fit = true;
        for (line, longer) in lines.iter_mut().zip(step) {
            let with = used - text(line).len() + text(&longer).len();
            if with <= capacity {
                (used, *line) = (with, longer);
            } else {
                all_fit = false;
            }
        }
        if !all_fit {
            break;
        }
    }
    lines
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
    fn lines_grow_step_by_step_up_to_the_capacity() {
        let owned = |lines: [&str; 2]| lines.map(str::to_owned).to_vec();
        let grown = |capacity| {
            let steps = [owned(["aaa", "bbb"]), owned(["aaaaaa", "bbbbbb"])];
            lengthen(owned(["a", "b"]), steps, |line| line, (2, capacity)).join(" ")
        };
        assert_eq!(grown(2), "a b");
        assert_eq!(grown(4), "aaa b");
        assert_eq!(grown(8), "aaa bbb");
        assert_eq!(grown(9), "aaaaaa bbb");
        assert_eq!(grown(99), "aaaaaa bbbbbb");
    }

    #[test]
    fn names_are_never_truncated() {
        assert_eq!(names_that_fit(99, ["ab", "cd"]), ("ab, cd".to_owned(), 0));
        assert_eq!(names_that_fit(5, ["ab", "cd", "e"]), ("ab".to_owned(), 2));
        assert_eq!(names_that_fit(1, ["ab"]), (String::new(), 1));
    }
}
