//! Splits texts and identifiers into words, and reduces words to their stems.

use std::borrow::Cow;
use std::collections::HashSet;

use rust_stemmers::{Algorithm, Stemmer};

/// The longest word in bytes. Anything longer is data rather than a word.
const MAX_WORD: usize = 48;

/// Stop words. Few on purpose: a word without meaning in one catalog may have one in the next.
const STOP: [&str; 37] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "i", "in", "is",
    "it", "its", "me", "my", "of", "on", "or", "our", "that", "the", "this", "to", "was", "we",
    "were", "will", "with", "you", "your", "been", "being", "into",
];

/// Returns the identifiers and words of a text, as written. Scripts without spaces are split into
/// overlapping pairs of characters.
pub(super) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let first = rest.chars().next()?;
        let (end, next) = if is_unspaced(first) {
            let mut more = rest.char_indices().skip(1).take_while(|(_, c)| is_unspaced(*c));
            let end = more.next().map_or(first.len_utf8(), |(at, c)| at + c.len_utf8());
            (end, if more.next().is_some() { first.len_utf8() } else { end })
        } else {
            let ends = |c: char| !c.is_alphanumeric() || is_unspaced(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            (end, end)
        };
        let run = &rest[..end];
        rest = &rest[next..];
        Some(run)
    })
}

/// Returns `true` for characters of scripts that don't separate words: Thai, Lao, Myanmar, Khmer,
/// Kana and Han.
pub(super) fn is_unspaced(c: char) -> bool {
    let is_of_such_a_script = matches!(
        c,
        '\u{e00}'..='\u{eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}'
    );
    is_of_such_a_script && c.is_alphanumeric()
}

/// Returns the lowercase words of a text. An identifier yields its parts and itself, so that both
/// `github` and `git` find `GitHub`.
pub(super) fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    identifiers(text).flat_map(|run| parts(run).chain(joined_identifier(run)))
}

/// Returns the lowercase parts of an identifier, or the identifier itself if it has only one.
pub(super) fn parts(run: &str) -> impl Iterator<Item = Cow<'_, str>> {
    split(run).filter(|part| part.len() <= MAX_WORD).map(lower)
}

/// Returns the lowercase stem of an identifier, to recognize repeated words.
pub(super) fn stemmed_identifier(run: &str) -> String {
    let word = lower(run);
    stem(&word).unwrap_or_default().into_owned()
}

/// Returns the whole identifier in lowercase, if it has several parts.
pub(super) fn joined_identifier(run: &str) -> Option<Cow<'_, str>> {
    (run.len() <= MAX_WORD && split(run).nth(1).is_some()).then(|| lower(run))
}

/// Splits an identifier: `readHTMLFile2` becomes `read`, `HTML`, `File` and `2`.
fn split(run: &str) -> impl Iterator<Item = &str> {
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

fn end_of_part(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        let Some((at, next)) = chars.peek().copied() else {
            break;
        };
        if c.is_numeric() != next.is_numeric() || !c.is_uppercase() && next.is_uppercase() {
            return at;
        }
        // The last of several capitals starts a new part: `HTMLFile`.
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

/// Returns the stem of a lowercase word, or `None` for a stop word.
pub(super) fn stem(word: &str) -> Option<Cow<'_, str>> {
    if STOP.contains(&word) {
        return None;
    }
    // The stemmer is for English; other words, and numbers, stay as they are.
    let is_english = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let stemmer = Stemmer::create(Algorithm::English);
    Some(if is_english { stemmer.stem(word) } else { Cow::Borrowed(word) })
}

/// Returns the words of a query that a text has too, compared by stem, in query order.
pub fn shared_words(query: &str, text: &str) -> Vec<String> {
    let terms: HashSet<_> =
        words(text).filter_map(|word| Some(stem(&word)?.into_owned())).collect();
    let mut shared: Vec<String> = Vec::new();
    for word in words(query) {
        let is_shared = stem(&word).is_some_and(|term| terms.contains(&*term));
        if is_shared && !shared.iter().any(|known| *known == word) {
            shared.push(word.into_owned());
        }
    }
    shared
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
    fn shared_words_are_compared_by_stem() {
        let text = "create_issue: Opens the issues of GitHub";
        assert_eq!(
            shared_words("creating an issue on github, issue", text),
            ["creating", "issue", "github"]
        );
        assert!(shared_words("the of", text).is_empty());
    }

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(all("list_pull-requests"), ["list", "pull", "requests"]);
        assert_eq!(all("readHTMLFile2"), ["read", "html", "file", "2", "readhtmlfile2"]);
        assert_eq!(all("GitHub's API"), ["git", "hub", "github", "s", "api"]);
        assert_eq!(all("s3.getObject"), ["s", "3", "s3", "get", "object", "getobject"]);
        assert_eq!(all("Ändere ÄPFEL, größer"), ["ändere", "äpfel", "größer"]);
        assert_eq!(all("  — ()"), [""; 0]);
    }

    #[test]
    fn overlong_words_are_dropped_but_their_parts_count() {
        assert_eq!(all(&"x".repeat(MAX_WORD + 1)), [""; 0]);
        assert_eq!(
            all("createOrUpdateVirtualNetworkGatewayConnectionSharedKey"),
            [
                "create",
                "or",
                "update",
                "virtual",
                "network",
                "gateway",
                "connection",
                "shared",
                "key"
            ]
        );
    }

    #[test]
    fn unspaced_scripts_become_pairs_of_characters() {
        assert_eq!(all("创建问题"), ["创建", "建问", "问题"]);
        assert_eq!(all("用GitHub创建issue。"), ["用", "git", "hub", "github", "创建", "issue"]);
        assert_eq!(all("ファイルを読む"), ["ファ", "ァイ", "イル", "ルを", "を読", "読む"]);
        assert_eq!(all("ค้น hà nội 파일 읽기"), ["ค", "น", "hà", "nội", "파일", "읽기"]);
        let long = all(&"大".repeat(10_000));
        assert_eq!((long.len(), &*long[0]), (9_999, "大大"));
    }

    #[test]
    fn words_are_reduced_to_stems() {
        for (word, expected) in [("searching", "search"), ("queries", "queri"), ("42", "42")] {
            assert_eq!(stem(word).as_deref(), Some(expected));
        }
        assert_eq!(stem("größere").as_deref(), Some("größere"));
        assert_eq!(stem("the"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_empty_words(text in "\\PC{0,80}|[a-zA-Z0-9'_äß大 ]{0,80}|[aeiouylst]{0,48}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty());
                stem(&word);
            }
        }
    }
}
