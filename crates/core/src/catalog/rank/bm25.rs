//! BM25: an inverted index whose postings hold the final weight of a term in a document.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::{HashMap, HashSet};

use crate::catalog::rank::languages::{ParsedQuery, TranslatedWord, synonyms};
use crate::catalog::rank::share;
use crate::catalog::rank::tokenizer::{
    identifiers, joined_identifier, parts, stem, stemmed_identifier, words,
};

/// Term frequency saturation and length normalization: the usual values, and others did no better.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The weight of a synonym, and of an English translation of a foreign word. Measured in
/// `tests/eval/README.md`.
const MEANT: f32 = 0.8;

/// The shortest part of an English compound, and the longest compound that is split, in bytes.
const MIN_PART: usize = 3;
const MAX_COMPOUND: usize = 24;

#[derive(Default)]
pub(super) struct Bm25Builder {
    /// The term of each word so far; `None` for stop words.
    words: HashMap<Box<str>, Option<u32>>,
    ids: HashMap<Box<str>, u32>,
    counts: Vec<Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    document: Vec<u32>,
}

impl Bm25Builder {
    pub(super) fn read(&mut self, text: &str) {
        for word in words(text) {
            let term = match self.words.get(&*word) {
                Some(known) => *known,
                None => self.learn(&word),
            };
            self.document.extend(term);
        }
    }

    fn learn(&mut self, word: &str) -> Option<u32> {
        let id = stem(word).map(|term| {
            let next = as_u32(self.ids.len());
            *self.ids.entry(Box::from(&*term)).or_insert(next)
        });
        self.words.insert(Box::from(word), id);
        self.counts.resize_with(self.ids.len(), Vec::new);
        id
    }

    /// Returns the distinct terms of the parts of a name.
    pub(super) fn terms_of(&mut self, name: &str) -> Box<[u32]> {
        let mut terms = Vec::new();
        for word in identifiers(name).flat_map(parts) {
            let term = match self.words.get(&*word) {
                Some(known) => *known,
                None => self.learn(&word),
            };
            terms.extend(term.filter(|term| !terms.contains(term)));
        }
        terms.into()
    }

    pub(super) fn end_document(&mut self) {
        let place = as_u32(self.lengths.len());
        self.lengths.push(as_u32(self.document.len()));
        self.document.sort_unstable();
        for same in self.document.chunk_by(|a, b| a == b) {
            self.counts[same[0] as usize].push((place, as_u32(same.len())));
        }
        self.document.clear();
    }

    pub(super) fn build(self) -> Bm25Index {
        let Self { mut ids, counts, lengths, .. } = self;
        let total: f32 = lengths.iter().map(|length| as_f32(*length as usize)).sum();
        let average = (total / as_f32(lengths.len())).max(1.0);
        let mut postings = Vec::with_capacity(counts.iter().map(Vec::len).sum());
        let mut terms = Vec::with_capacity(counts.len());
        for documents_of_term in &counts {
            let start = postings.len();
            let rarity = inverse_document_frequency(documents_of_term.len(), lengths.len());
            for (place, count) in documents_of_term {
                let count = as_f32(*count as usize);
                let length = as_f32(lengths[*place as usize] as usize);
                let frequency =
                    count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / average));
                postings.push(Posting { place: *place, worth: rarity * frequency });
            }
            terms.push(Term { postings: start..postings.len(), rarity });
        }
        ids.shrink_to_fit();
        Bm25Index { ids, terms, postings, count: lengths.len() }
    }
}

/// Returns the inverse document frequency of a term that `having` documents contain. Computed in
/// `f64`, so that every machine rounds to the same `f32`.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]
fn inverse_document_frequency(having: usize, documents: usize) -> f32 {
    let having = having as f64;
    (1.0 + (documents as f64 - having + 0.5) / (having + 0.5)).ln() as f32
}

#[derive(Debug)]
struct Posting {
    place: u32,
    worth: f32,
}

#[derive(Debug)]
struct Term {
    /// The range in `Bm25Index::postings`.
    postings: Range<usize>,
    rarity: f32,
}

#[derive(Debug)]
pub(super) struct Bm25Index {
    ids: HashMap<Box<str>, u32>,
    terms: Vec<Term>,
    postings: Vec<Posting>,
    count: usize,
}

pub(super) struct Bm25Scores {
    /// Score of each document for ranking: all forms of an identifier (`GitHub`, `git`, `hub`) add
    /// up.
    pub(super) ranking: Vec<f32>,
    /// Score of each document with every query word counted once, in one form: how much of the
    /// query the document covers. `GitHub` counts as much as `github`.
    pub(super) coverage: Vec<f32>,
    /// The coverage of a document of average length that has every query word once.
    pub(super) full_coverage: f32,
}

/// A word of a query with its forms: itself, or the translations of a foreign word.
#[derive(Debug)]
pub(super) struct QueryWord {
    /// Those that are known.
    pub(super) forms: Vec<u32>,
    pub(super) rarity: f32,
}

struct QueryTerm<'d> {
    /// `None` if no document has the word.
    known: Option<&'d Term>,
    rarity: f32,
    /// Words of about the same meaning.
    similar: Vec<&'d Term>,
}

impl Bm25Index {
    /// Scores every document. A word repeated in the query counts once.
    pub(super) fn worth(&self, reading: &ParsedQuery<'_>) -> Bm25Scores {
        let nothing = || vec![0.0; self.count];
        let mut worth = Bm25Scores { ranking: nothing(), coverage: nothing(), full_coverage: 0.0 };
        let mut seen = HashSet::default();
        let runs = self.with_compounds(&reading.runs);
        for (run, is_compound) in
            runs.iter().filter(|(run, _)| seen.insert(stemmed_identifier(run)))
        {
            let parts: Vec<_> = parts(run).filter_map(|word| self.wanted(&word)).collect();
            let in_parts: f32 = parts.iter().map(|part| part.rarity).sum();
            let whole = joined_identifier(run).and_then(|word| self.wanted(&word));
            if let Some(QueryTerm { known: Some(whole), .. }) = &whole
                && *is_compound
            {
                // The user wrote one of the two spellings, so only the better one counts.
                let mut best = nothing();
                self.add(&parts, 1.0, &mut best);
                self.raise(whole, share(in_parts, whole.rarity).min(1.0), &mut best);
                worth.ranking.iter_mut().zip(best).for_each(|(all, best)| *all += best);
            } else {
                self.add(&parts, 1.0, &mut worth.ranking);
                if let Some(QueryTerm { known: Some(whole), .. }) = &whole {
                    for Posting { place, worth: of_it } in self.having(whole) {
                        worth.ranking[*place as usize] += of_it;
                    }
                }
            }
            match whole {
                Some(QueryTerm { known: Some(known), rarity, .. }) => {
                    // Count the identifier whole or in parts, the higher score of both.
                    let mut more = nothing();
                    self.add(&parts, share(rarity, in_parts), &mut more);
                    self.raise(known, 1.0, &mut more);
                    worth.coverage.iter_mut().zip(more).for_each(|(once, more)| *once += more);
                    worth.full_coverage += rarity;
                }
                Some(whole) if parts.iter().all(|part| part.known.is_none()) => {
                    worth.full_coverage += whole.rarity;
                }
                _ => {
                    self.add(&parts, 1.0, &mut worth.coverage);
                    worth.full_coverage += in_parts;
                }
            }
        }
        reading.meant.iter().for_each(|meant| self.add_meant(meant, &mut worth));
        worth
    }

    /// Returns the distinct words of a query, with the parts of identifiers as separate words.
    pub(super) fn query_words(&self, reading: &ParsedQuery<'_>) -> Vec<QueryWord> {
        let mut seen = HashSet::default();
        let mut all = Vec::new();
        for word in reading.runs.iter().flat_map(|run| parts(run)) {
            let Some(term) = stem(&word).filter(|term| seen.insert(term.to_string())) else {
                continue;
            };
            all.push(self.query_word(self.ids.get(&*term).copied()));
        }
        for TranslatedWord { own, english } in &reading.meant {
            let words = own.iter().map(String::as_str).chain(english.iter().copied());
            let known = words.filter_map(|word| self.ids.get(&*stem(word)?).copied());
            all.push(self.query_word(known));
        }
        all
    }

    fn query_word(&self, forms: impl IntoIterator<Item = u32>) -> QueryWord {
        let forms: Vec<u32> = forms.into_iter().collect();
        let least = forms.iter().map(|form| self.rarity(*form)).reduce(f32::min);
        let rarity = least.unwrap_or_else(|| inverse_document_frequency(0, self.count));
        QueryWord { forms, rarity }
    }

    pub(super) fn rarity(&self, term: u32) -> f32 {
        self.terms[term as usize].rarity
    }

    /// Rewrites words as identifiers if tools spell them otherwise: `box plot` as `boxPlot` if tools
    /// write `boxplot`, and `fulltext` as `fullText` if they write `full text`. Returns `true` for
    /// these.
    fn with_compounds<'q>(&self, runs: &[&'q str]) -> Vec<(Cow<'q, str>, bool)> {
        let mut all: Vec<(Cow<'q, str>, bool)> = Vec::with_capacity(runs.len());
        let mut rest = runs;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if let Some((second, others)) = after.split_first()
                && first.len() >= MIN_PART
                && second.len() >= MIN_PART
                && self.know(&format!("{first}{second}").to_lowercase())
            {
                all.push((Cow::Owned(camel_case(first, second)), true));
                rest = others;
            } else {
                let split = self.split(first);
                all.push(
                    split.map_or((Cow::Borrowed(*first), false), |split| (Cow::Owned(split), true)),
                );
            }
        }
        all
    }

    /// Splits an unknown lowercase word in two known ones.
    fn split(&self, word: &str) -> Option<String> {
        let is_plain = word.len() <= MAX_COMPOUND && word.bytes().all(|b| b.is_ascii_lowercase());
        if !is_plain || self.know(word) {
            return None;
        }
        let mut places = MIN_PART..(word.len() + 1).saturating_sub(MIN_PART);
        let at = places.find(|at| self.know(&word[..*at]) && self.know(&word[*at..]))?;
        Some(camel_case(&word[..at], &word[at..]))
    }

    /// Adds the score of a foreign word: in each document, its best translation counts.
    fn add_meant(&self, TranslatedWord { own, english }: &TranslatedWord, worth: &mut Bm25Scores) {
        let own = own.iter().map(|word| (word.as_str(), 1.0));
        let words = own.chain(english.iter().map(|word| (*word, MEANT)));
        let (mut most, mut rarity) = (vec![0.0_f32; self.count], f32::INFINITY);
        for (word, times) in words {
            let Some(term) = self.wanted(word).and_then(|wanted| wanted.known) else { continue };
            rarity = rarity.min(term.rarity);
            self.raise(term, times, &mut most);
        }
        for (index, most) in most.into_iter().enumerate() {
            worth.ranking[index] += most;
            worth.coverage[index] += most;
        }
        worth.full_coverage +=
            if rarity.is_finite() { rarity } else { inverse_document_frequency(0, self.count) };
    }

    /// Looks up a query word; returns `None` for a stop word. A word in no document counts as the
    /// rarest.
    fn wanted(&self, word: &str) -> Option<QueryTerm<'_>> {
        let term = stem(word)?;
        let known = self.term(&term);
        let rarity =
            known.map_or_else(|| inverse_document_frequency(0, self.count), |term| term.rarity);
        let similar = synonyms(&term).iter().filter_map(|word| self.term(&stem(word)?));
        Some(QueryTerm { known, rarity, similar: similar.collect() })
    }

    fn term(&self, stem: &str) -> Option<&Term> {
        self.ids.get(stem).map(|id| &self.terms[*id as usize])
    }

    /// Returns `true` if any document has the word, which must be lowercase.
    pub(super) fn know(&self, word: &str) -> bool {
        stem(word).is_some_and(|term| self.ids.contains_key(&*term))
    }

    fn having(&self, term: &Term) -> &[Posting] {
        &self.postings[term.postings.clone()]
    }

    /// Adds the score of each word. In each document, the word or its best synonym counts.
    fn add(&self, words: &[QueryTerm<'_>], times: f32, each: &mut [f32]) {
        for QueryTerm { known, rarity, similar } in words {
            let own = known.iter().flat_map(|term| self.having(term));
            if similar.is_empty() {
                own.for_each(|Posting { place, worth }| each[*place as usize] += times * worth);
                continue;
            }
            let mut best = vec![0.0_f32; self.count];
            own.for_each(|Posting { place, worth }| best[*place as usize] = *worth);
            for term in similar {
                // A rare synonym doesn't make a frequent word rarer.
                let weight = MEANT * share(*rarity, term.rarity).min(1.0);
                self.raise(term, weight, &mut best);
            }
            each.iter_mut().zip(best).for_each(|(all, best)| *all += times * best);
        }
    }

    /// Raises the scores to those of a term, if these are higher.
    fn raise(&self, term: &Term, times: f32, each: &mut [f32]) {
        for Posting { place, worth } in self.having(term) {
            let score = &mut each[*place as usize];
            *score = score.max(times * worth);
        }
    }
}

/// Writes two words as an identifier, such as `boxPlot`.
fn camel_case(first: &str, second: &str) -> String {
    let (first, mut second) = (first.to_lowercase(), second.to_lowercase());
    if let Some(start) = second.get_mut(..1) {
        start.make_ascii_uppercase();
    }
    first + &second
}

/// Saturates, though real indexes are far smaller.
fn as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts of words and documents")]
fn as_f32(number: usize) -> f32 {
    number as f32
}
