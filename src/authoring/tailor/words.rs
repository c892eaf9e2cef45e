//! Words of a task, and whether a rule's word is among them.

/// The words of a text, each as it is written and as it is compared.
pub(super) struct Words(Vec<Word>);

struct Word {
    written: String,
    stem: String,
}

impl Words {
    /// Takes a text apart at everything that is neither a letter nor a digit.
    pub(super) fn of(text: &str) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        Self(words.map(|word| Word { written: word.to_owned(), stem: stem(word) }).collect())
    }

    /// Where these words stand one after the other, in whatever form: the text's own words for it.
    pub(super) fn find(&self, keyword: &str) -> Option<String> {
        let Self(wanted) = Self::of(keyword);
        if wanted.is_empty() {
            return None;
        }
        let is_meant = |found: &&[Word]| found.iter().zip(&wanted).all(|(a, b)| a.stem == b.stem);
        let found = self.0.windows(wanted.len()).find(is_meant)?;
        let words: Vec<&str> = found.iter().map(|word| word.written.as_str()).collect();
        Some(words.join(" "))
    }
}

/// Returns `true` if the name of a service has this word in it. One of two letters has to stand
/// alone, for `ui` is in `build`.
pub(super) fn is_in_name(word: &str, name: &str) -> bool {
    let (word, name) = (word.to_lowercase(), name.to_lowercase());
    if word.chars().count() > 2 {
        return name.contains(&word);
    }
    !word.is_empty() && name.split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
}

/// Returns what a word has in common with its other forms: `test` for `tests`, `tested` and
/// `testing`.
///
/// It is only compared with others of its kind, and need not be a word itself.
fn stem(word: &str) -> String {
    let mut stem = word.to_lowercase();
    // The endings are of English, and so are the letters before them.
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

/// The word without an ending, if that leaves as many letters.
fn cut<'a>(word: &'a str, ending: &str, least: usize) -> Option<&'a str> {
    word.strip_suffix(ending).filter(|rest| rest.len() >= least)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_keyword_is_found_in_all_its_forms_and_as_a_word() {
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
                assert!(Words::of(text).find(keyword).is_some(), "{keyword} in {text}");
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
            assert_eq!(Words::of(text).find(keyword), None, "{keyword} in {text}");
        }
        assert_eq!(
            Words::of("Open two pull-Requests").find("pull request").unwrap(),
            "pull Requests"
        );
    }

    #[test]
    fn the_name_of_a_service_contains_a_word() {
        for (word, name) in [("api", "payments-api"), ("api", "userAPI2"), ("ui", "web-ui")] {
            assert!(is_in_name(word, name), "{word} in {name}");
        }
        for (word, name) in [("api", "frontend"), ("ui", "build"), ("", "a")] {
            assert!(!is_in_name(word, name), "{word} in {name}");
        }
    }
}
