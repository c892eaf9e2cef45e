//! Matches the words of a task with the keywords of rules.

/// The words of a text, in their original and stemmed form.
pub(super) struct TaskWords(Vec<TaskWord>);

struct TaskWord {
    written: String,
    stem: String,
}

impl TaskWords {
    /// Splits a text at every character that is neither a letter nor a digit.
    pub(super) fn of(text: &str) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        Self(words.map(|word| TaskWord { written: word.to_owned(), stem: stem(word) }).collect())
    }

    /// Returns the first words in the text that match `keyword` in any inflection, as the text
    /// spells them.
    pub(super) fn find(&self, keyword: &str) -> Option<String> {
        let Self(wanted) = Self::of(keyword);
        if wanted.is_empty() {
            return None;
        }
        let is_meant =
            |found: &&[TaskWord]| found.iter().zip(&wanted).all(|(a, b)| a.stem == b.stem);
        let found = self.0.windows(wanted.len()).find(is_meant)?;
        let words: Vec<&str> = found.iter().map(|word| word.written.as_str()).collect();
        Some(words.join(" "))
    }
}

/// Returns `true` if a service name contains `word`. A word of up to two letters must be a part of
/// its own, because `build` contains `ui`.
pub(super) fn is_in_name(word: &str, name: &str) -> bool {
    let (word, name) = (word.to_lowercase(), name.to_lowercase());
    if word.chars().count() > 2 {
        return name.contains(&word);
    }
    !word.is_empty() && name.split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
}

/// Returns the stem that a word shares with its inflected forms, such as `test` for `tests`,
/// `tested` and `testing`. A stem is only compared with other stems and need not be a word.
fn stem(word: &str) -> String {
    let mut stem = word.to_lowercase();
    // The suffix rules are English.
    if !stem.is_ascii() {
        return stem;
    }
    if let Some(rest) = cut(&stem, "ies", 2).or_else(|| cut(&stem, "ied", 2)) {
        return format!("{rest}y");
    }
    let has_vowel = |rest: &&str| rest.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    let by_verb = cut(&stem, "ing", 3).or_else(|| cut(&stem, "ed", 3)).filter(has_vowel);
    let hisses = |rest: &&str| ["s", "x", "z", "ch", "sh"].iter().any(|end| rest.ends_with(end));
    let plural = || cut(&stem, "es", 2).filter(hisses);
    let is_plural = |rest: &&str| !rest.ends_with(['s', 'u', 'i']);
    let shorter = by_verb.or_else(plural).or_else(|| cut(&stem, "s", 2).filter(is_plural));
    let is_verb = by_verb.is_some();
    if let Some(shorter) = shorter {
        stem.truncate(shorter.len());
    }
    let mut from_end = stem.bytes().rev();
    let (last, before) = (from_end.next(), from_end.next());
    if is_verb && last == before && !matches!(last, Some(b'l' | b's' | b'z')) {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

/// Removes `ending` if at least `least` bytes remain.
fn cut<'a>(word: &'a str, ending: &str, least: usize) -> Option<&'a str> {
    word.strip_suffix(ending).filter(|rest| rest.len() >= least)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn keyword_matches_every_inflection_as_a_whole_word() {
        let forms: &[(&str, &[&str])] = &[
            ("test", &["test", "Tests", "tested", "TESTING", "test's", "unit-test", "(tests)"]),
            ("testing", &["test", "tests"]),
            ("deploy", &["deploys", "deployed", "deploying"]),
            ("query", &["queries", "queried", "querying"]),
            ("cache", &["caches", "caching", "cached"]),
            ("fix", &["fixes", "fixing"]),
            ("debug", &["debugging", "debugged"]),
            ("database", &["databases"]),
            ("pull request", &["two pull requests", "pull-request"]),
            ("ci/cd", &["the CI/CD of it"]),
            ("analysis", &["Analysis"]),
            ("über", &["ÜBER"]),
        ];
        for (keyword, texts) in forms {
            for text in *texts {
                assert!(TaskWords::of(text).find(keyword).is_some(), "{keyword} in {text}");
            }
        }
        let others = [
            ("test", "the latest contest"),
            ("ui", "build a guide"),
            ("pull request", "request a pull"),
            ("thing", "the th"),
            ("deploy", "employed"),
            ("", "anything"),
            ("/", "a / b"),
        ];
        for (keyword, text) in others {
            assert_eq!(TaskWords::of(text).find(keyword), None, "{keyword} in {text}");
        }
        assert_eq!(
            TaskWords::of("Open two pull-Requests").find("pull request").unwrap(),
            "pull Requests"
        );
    }

    #[test]
    fn short_words_must_be_a_part_of_the_service_name() {
        for (word, name) in [("api", "payments-api"), ("api", "userAPI2"), ("ui", "web-ui")] {
            assert!(is_in_name(word, name), "{word} in {name}");
        }
        for (word, name) in [("api", "frontend"), ("ui", "build"), ("", "a")] {
            assert!(!is_in_name(word, name), "{word} in {name}");
        }
    }
}
