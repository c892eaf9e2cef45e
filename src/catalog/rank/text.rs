//! Words: taking texts and identifiers apart, and what of a word tells tools from each other.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

/// The longest word that is looked at, in bytes; what is longer is data and no word.
const MAX_WORD: usize = 48;

/// Words that say nothing of what a tool does. Short on purpose: a rare word that is none in one
/// catalog may be one in the next.
const STOP: [&str; 37] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "i", "in", "is",
    "it", "its", "me", "my", "of", "on", "or", "our", "that", "the", "this", "to", "was", "we",
    "were", "will", "with", "you", "your", "been", "being", "into",
];

/// The words of a text in lower case: identifiers in their parts, and once more as a whole, so that
/// `GitHub` is found by `github` and by `git`.
pub(super) fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    runs(text).flat_map(|run| {
        let is_whole = parts(run).nth(1).is_some();
        parts(run).chain(is_whole.then_some(run)).map(lower)
    })
}

/// The same with identifiers in their parts only.
pub(super) fn plain_words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    runs(text).flat_map(parts).map(lower)
}

fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|run| !run.is_empty() && run.len() <= MAX_WORD)
}

/// The parts of an identifier: `readHTMLFile2` is `read`, `HTML`, `File` and `2`.
fn parts(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = rest.split_at(end_of_part(rest));
        rest = after;
        Some(part)
    })
}

/// Where the first part of an identifier ends.
fn end_of_part(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        let Some((at, next)) = chars.peek().copied() else {
            break;
        };
        if c.is_numeric() != next.is_numeric() || !c.is_uppercase() && next.is_uppercase() {
            return at;
        }
        // The last of several capitals begins a word: `HTMLFile`.
        let begins_a_word = || {
            let after = text[at + next.len_utf8()..].chars().next();
            after.is_some_and(|after| after.is_alphabetic() && !after.is_uppercase())
        };
        if c.is_uppercase() && next.is_uppercase() && begins_a_word() {
            return at;
        }
    }
    text.len()
}

fn lower(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(word.to_lowercase())
    }
}

/// What a word in lower case counts as: its stem, nothing for a stop word.
pub(super) fn term(word: &str) -> Option<Cow<'_, str>> {
    if STOP.contains(&word) {
        return None;
    }
    // The rules are for English; other words, and numbers, count as they are.
    let is_english = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let stemmer = Stemmer::create(Algorithm::English);
    Some(if is_english { stemmer.stem(word) } else { Cow::Borrowed(word) })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{prop_assert, proptest};

    use super::*;

    fn all(text: &str) -> Vec<String> {
        words(text).map(Cow::into_owned).collect()
    }

    #[test]
    fn identifiers_are_words() {
        assert_eq!(all("list_pull-requests"), ["list", "pull", "requests"]);
        assert_eq!(all("readHTMLFile2"), ["read", "html", "file", "2", "readhtmlfile2"]);
        assert_eq!(all("GitHub's API"), ["git", "hub", "github", "s", "api"]);
        assert_eq!(all("s3.getObject"), ["s", "3", "s3", "get", "object", "getobject"]);
        assert_eq!(all("Ändere ÄPFEL, größer"), ["ändere", "äpfel", "größer"]);
        assert_eq!(all("  — ()"), [""; 0]);
        assert_eq!(all(&"x".repeat(MAX_WORD + 1)), [""; 0]);
    }

    #[test]
    fn a_term_is_a_stem() {
        for (word, stem) in [("searching", "search"), ("queries", "queri"), ("42", "42")] {
            assert_eq!(term(word).as_deref(), Some(stem));
        }
        assert_eq!(term("größere").as_deref(), Some("größere"));
        assert_eq!(term("the"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,80}|[a-zA-Z0-9'_äß大 ]{0,80}|[aeiouylst]{0,48}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty());
                term(&word);
            }
        }
    }
}
