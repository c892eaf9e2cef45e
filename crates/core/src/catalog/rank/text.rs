//! Words: taking texts and identifiers apart, and what of a word tells tools from each other.

use std::borrow::Cow;
use std::collections::HashSet;

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

/// The pieces of a text, without anything between them: identifiers and words as they are written.
/// Where a script does not set words apart, a piece is every two characters that follow each other.
pub(super) fn runs(text: &str) -> impl Iterator<Item = &str> {
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

/// Returns `true` for a character of a script that does not set words apart: Thai, Lao, Myanmar,
/// Khmer, Kana and Han.
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

/// The words of a text in lower case: identifiers in their parts, and once more as a whole, so that
/// `GitHub` is found by `github` and by `git`.
pub(super) fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    runs(text).flat_map(|run| parts(run).chain(whole(run)))
}

/// The parts of an identifier in lower case, or the one that it is.
pub(super) fn parts(run: &str) -> impl Iterator<Item = Cow<'_, str>> {
    split(run).filter(|part| part.len() <= MAX_WORD).map(lower)
}

/// The form in which runs are compared: the stem of the word in lower case.
pub(super) fn name(run: &str) -> String {
    let word = lower(run);
    term(&word).unwrap_or_default().into_owned()
}

/// An identifier as a whole in lower case, where it has parts.
pub(super) fn whole(run: &str) -> Option<Cow<'_, str>> {
    (run.len() <= MAX_WORD && split(run).nth(1).is_some()).then(|| lower(run))
}

/// The parts of an identifier: `readHTMLFile2` is `read`, `HTML`, `File` and `2`.
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

/// The form in which a word in lower case counts: its stem, or nothing for a stop word.
pub(super) fn term(word: &str) -> Option<Cow<'_, str>> {
    if STOP.contains(&word) {
        return None;
    }
    // The rules are for English; other words, and numbers, count as they are.
    let is_english = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let stemmer = Stemmer::create(Algorithm::English);
    Some(if is_english { stemmer.stem(word) } else { Cow::Borrowed(word) })
}

/// Returns the words of a query that a text has too, in whichever form, in the order of the query.
pub fn shared_words(query: &str, text: &str) -> Vec<String> {
    let terms: HashSet<_> =
        words(text).filter_map(|word| Some(term(&word)?.into_owned())).collect();
    let mut shared: Vec<String> = Vec::new();
    for word in words(query) {
        let is_shared = term(&word).is_some_and(|term| terms.contains(&*term));
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
    fn words_are_shared_in_whichever_form_they_are_written() {
        let text = "create_issue: Opens the issues of GitHub";
        assert_eq!(
            shared_words("creating an issue on github, issue", text),
            ["creating", "issue", "github"]
        );
        assert!(shared_words("the of", text).is_empty());
    }

    #[test]
    fn identifiers_are_words() {
        assert_eq!(all("list_pull-requests"), ["list", "pull", "requests"]);
        assert_eq!(all("readHTMLFile2"), ["read", "html", "file", "2", "readhtmlfile2"]);
        assert_eq!(all("GitHub's API"), ["git", "hub", "github", "s", "api"]);
        assert_eq!(all("s3.getObject"), ["s", "3", "s3", "get", "object", "getobject"]);
        assert_eq!(all("Ändere ÄPFEL, größer"), ["ändere", "äpfel", "größer"]);
        assert_eq!(all("  — ()"), [""; 0]);
    }

    #[test]
    fn what_is_too_long_for_a_word_is_none_and_its_parts_are() {
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
    fn where_words_are_not_set_apart_every_two_characters_are_one() {
        assert_eq!(all("创建问题"), ["创建", "建问", "问题"]);
        assert_eq!(all("用GitHub创建issue。"), ["用", "git", "hub", "github", "创建", "issue"]);
        assert_eq!(all("ファイルを読む"), ["ファ", "ァイ", "イル", "ルを", "を読", "読む"]);
        assert_eq!(all("ค้น hà nội 파일 읽기"), ["ค", "น", "hà", "nội", "파일", "읽기"]);
        let long = all(&"大".repeat(10_000));
        assert_eq!((long.len(), &*long[0]), (9_999, "大大"));
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
