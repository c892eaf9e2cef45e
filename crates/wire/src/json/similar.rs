//! Names of members that some parsers take for one name.
//!
//! Go and .NET, among others, ignore the case of member names by default. Such a server can read a
//! member that the checks of another name didn't look at.

use std::cmp::Ordering;

/// Compares two names without regard to case, as broadly as any parser does.
pub fn compare(one: &str, other: &str) -> Ordering {
    folded(one).cmp(folded(other))
}

/// Returns `true` if the names are equal or differ only in case.
pub fn is_similar(one: &str, other: &str) -> bool {
    folded(one).eq(folded(other))
}

/// All steps are needed: `ſ` is `S` in upper case, the Kelvin sign is `k` in lower case, and `ẞ` has
/// only a lower case. `İ` is `i` in some languages and in others `i` with a combining dot, which is
/// left out.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .filter(|c| *c != '\u{307}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_one(one: &str, other: &str) -> bool {
        let is_similar = is_similar(one, other);
        assert_eq!(is_similar, compare(one, other).is_eq(), "{one} {other}");
        is_similar
    }

    #[test]
    fn names_that_some_parser_takes_for_one_are_similar() {
        for (one, other) in [
            ("name", "NAME"),
            ("tasks", "ta\u{17f}\u{212a}s"),
            ("size", "s\u{130}ze"),
            ("size", "s\u{131}ze"),
            ("si\u{307}ze", "s\u{130}ze"),
            ("stra\u{df}e", "STRA\u{1e9e}E"),
            ("\u{3c3}", "\u{3c2}"),
            ("\u{1fd3}", "\u{390}"),
        ] {
            assert!(is_one(one, other) && is_one(other, one), "{one} {other}");
        }
        for (one, other) in [("name", "names"), ("name", "nam\u{e9}"), ("a", ""), ("_a", "a")] {
            assert!(!is_one(one, other), "{one} {other}");
        }
    }

    #[test]
    fn every_character_is_similar_to_its_upper_and_lower_case() {
        let has_case = |c: &char| !c.to_lowercase().eq([*c]) || !c.to_uppercase().eq([*c]);
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(has_case) {
            let one = c.to_string();
            for other in [one.to_uppercase(), one.to_lowercase()] {
                assert!(is_similar(&one, &other), "{one} {other}");
            }
            // Java and .NET compare the simple mappings, which have one character each.
            let lower = c.to_lowercase().next().unwrap_or(c);
            assert!(is_similar(&one, &lower.to_string()), "{one} {lower}");
        }
    }
}
