//! Inflected forms and compounds in other languages, as candidates for a dictionary lookup.

use rust_stemmers::{Algorithm, Stemmer};

use crate::catalog::rank::languages::Language;

/// The longest and the shortest word that is split as a compound, in bytes.
const MAX_COMPOUND: usize = 40;
const MIN_COMPOUND: usize = 8;
/// The shortest part of a compound in bytes, and its shortest last part if the rest is unknown.
const MIN_PART: usize = 4;
const MIN_LAST: usize = 5;

/// German endings that the stemmer leaves, longest first.
const GERMAN_ENDS: [&str; 8] = ["ungen", "ung", "ten", "te", "et", "st", "t", "s"];
/// Linking elements between the parts of a German compound.
const JOINTS: [&str; 7] = ["", "s", "es", "n", "en", "er", "e"];
/// Pronouns attached to the end of an Italian verb.
const ITALIAN_ENDS: [&str; 14] =
    ["melo", "mela", "glielo", "gli", "celo", "mi", "ti", "lo", "la", "li", "le", "ci", "vi", "ne"];
/// Pronouns attached to the end of a Spanish verb.
const SPANISH_ENDS: [&str; 14] = [
    "melos", "melas", "melo", "mela", "selo", "nos", "los", "las", "les", "me", "lo", "la", "le",
    "te",
];

pub(super) struct WordForms {
    language: Language,
    stemmer: Stemmer,
}

impl WordForms {
    pub(super) fn of(language: Language) -> Self {
        let algorithm = match language {
            Language::German => Algorithm::German,
            Language::French => Algorithm::French,
            Language::Spanish => Algorithm::Spanish,
            Language::Italian => Algorithm::Italian,
            Language::Portuguese => Algorithm::Portuguese,
        };
        Self { language, stemmer: Stemmer::create(algorithm) }
    }

    /// Returns the stem of a lowercase word, without accents, as the dictionary stores it.
    pub(super) fn stem(&self, word: &str) -> String {
        folded(&self.stemmer.stem(word))
    }

    /// Returns the stems that a lowercase word may have in the dictionary, likeliest first.
    pub(super) fn all<'a>(&'a self, word: &'a str) -> impl Iterator<Item = String> + 'a {
        let more: Vec<String> = match self.language {
            Language::German => german(word),
            Language::French => Vec::new(),
            Language::Portuguese => infinitive(word).into_iter().collect(),
            Language::Italian => without_ends(word, &ITALIAN_ENDS).map(folded).collect(),
            Language::Spanish => {
                let bare = without_ends(word, &SPANISH_ENDS).map(folded);
                bare.chain(infinitive(word)).collect()
            }
        };
        std::iter::once(self.stem(word)).chain(more.into_iter().map(|form| self.stem(&form)))
    }
}

/// Returns other forms of a German word: with `ä`, `ö` and `ü` for `ae`, `oe` and `ue`, without
/// verb and noun endings, and without the `ge` of a participle or the `zu` of an infinitive.
fn german(word: &str) -> Vec<String> {
    let mut forms = Vec::new();
    let spelled = word.replace("ae", "ä").replace("oe", "ö").replace("ue", "ü");
    if spelled != word {
        forms.push(spelled);
    }
    forms.extend(without_ends(word, &GERMAN_ENDS).map(str::to_owned));
    if let Some(rest) = word.strip_prefix("ge").filter(|rest| rest.len() >= MIN_PART) {
        forms.push(rest.to_owned());
        forms.extend(without_ends(rest, &GERMAN_ENDS).map(str::to_owned));
    }
    for (at, _) in word.match_indices("zu").filter(|(at, _)| *at > 0) {
        forms.push(format!("{}{}", &word[..at], &word[at + 2..]));
    }
    forms
}

/// Returns the infinitive of a Spanish or Portuguese imperative that is spelled otherwise: `busque`
/// is a form of `buscar`, and `apague` of `apagar`.
fn infinitive(word: &str) -> Option<String> {
    let ends = [("que", "car"), ("gue", "gar"), ("ce", "zar")];
    ends.iter().find_map(|(end, infinitive)| Some(word.strip_suffix(end)?.to_owned() + infinitive))
}

fn without_ends<'a>(word: &'a str, ends: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let rests = ends.iter().filter_map(|end| word.strip_suffix(end));
    rests.filter(|rest| rest.len() >= MIN_PART)
}

/// Splits a German compound into its first two known parts, or else finds its last part, which
/// carries the main meaning.
pub(super) fn compound<T>(word: &str, find: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if !(MIN_COMPOUND..=MAX_COMPOUND).contains(&word.len()) {
        return None;
    }
    let cuts: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
    let cuts = || cuts.iter().copied();
    for at in cuts().filter(|at| *at >= MIN_PART && word.len() - at >= MIN_PART) {
        let (first, last) = word.split_at(at);
        let Some(last) = find(last) else { continue };
        let mut firsts = JOINTS.iter().filter_map(|joint| first.strip_suffix(joint));
        let first = firsts.find_map(|first| if first.len() >= 3 { find(first) } else { None });
        if let Some(first) = first {
            return Some(vec![first, last]);
        }
    }
    let mut lasts = cuts().filter(|at| *at >= 2 && word.len() - at >= MIN_LAST);
    lasts.find_map(|at| find(&word[at..])).map(|last| vec![last])
}

/// Returns `true` if all letters are Latin, up to U+017F.
pub(super) fn is_latin(word: &str) -> bool {
    word.chars().all(|c| c.is_alphabetic() && c < '\u{180}')
}

fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    for c in word.chars() {
        folded.push_str(match c {
            'à' | 'á' | 'â' | 'ã' | 'ä' => "a",
            'ç' => "c",
            'è' | 'é' | 'ê' | 'ë' => "e",
            'ì' | 'í' | 'î' | 'ï' => "i",
            'ñ' => "n",
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' => "o",
            'ù' | 'ú' | 'û' | 'ü' => "u",
            'ß' => "ss",
            'æ' => "ae",
            'œ' => "oe",
            other => {
                folded.push(other);
                continue;
            }
        });
    }
    folded
}
