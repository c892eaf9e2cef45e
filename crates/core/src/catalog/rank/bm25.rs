//! BM25: an inverted index whose postings hold the final weight of a term in a document.

use std::ops::Range;

use foldhash::{HashMap, HashSet};

use crate::catalog::rank::languages::{ParsedQuery, TranslatedWord};
use crate::catalog::rank::share;
use crate::catalog::rank::tokenizer::{joined_identifier, parts, stem, stemmed_identifier, words};

/// Term frequency saturation and length normalization: the usual values, and others did no better.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The weight of an English translation of a foreign word.
const MEANT: f32 = 0.8;

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

struct QueryTerm<'d> {
    /// `None` if no document has the word.
    known: Option<&'d Term>,
    rarity: f32,
}

impl Bm25Index {
    /// Scores every document. A word repeated in the query counts once.
    pub(super) fn worth(&self, reading: &ParsedQuery<'_>) -> Bm25Scores {
        let nothing = || vec![0.0; self.count];
        let mut worth = Bm25Scores { ranking: nothing(), coverage: nothing(), full_coverage: 0.0 };
        let mut seen = HashSet::default();
        for run in reading.runs.iter().copied().filter(|run| seen.insert(stemmed_identifier(run))) {
            let parts: Vec<_> = parts(run).filter_map(|word| self.wanted(&word)).collect();
            let in_parts: f32 = parts.iter().map(|part| part.rarity).sum();
            self.add(&parts, 1.0, &mut worth.ranking);
            let whole = joined_identifier(run).and_then(|word| self.wanted(&word));
            match whole {
                Some(QueryTerm { known: Some(known), rarity }) => {
                    // Count the identifier whole or in parts, the higher score of both.
                    let mut more = nothing();
                    self.add(&parts, share(rarity, in_parts), &mut more);
                    for Posting { place, worth: of_it } in self.having(known) {
                        let index = *place as usize;
                        worth.ranking[index] += of_it;
                        more[index] = of_it.max(more[index]);
                    }
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

    /// Adds the score of a foreign word: in each document, its best translation counts.
    fn add_meant(&self, TranslatedWord { own, english }: &TranslatedWord, worth: &mut Bm25Scores) {
        let own = own.iter().map(|word| (word.as_str(), 1.0));
        let words = own.chain(english.iter().map(|word| (*word, MEANT)));
        let (mut most, mut rarity) = (vec![0.0_f32; self.count], f32::INFINITY);
        for (word, times) in words {
            let Some(term) = self.wanted(word).and_then(|wanted| wanted.known) else { continue };
            rarity = rarity.min(term.rarity);
            for Posting { place, worth } in self.having(term) {
                let most = &mut most[*place as usize];
                *most = most.max(times * worth);
            }
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
        let known = self.ids.get(&*stem(word)?).map(|id| &self.terms[*id as usize]);
        let rarity =
            known.map_or_else(|| inverse_document_frequency(0, self.count), |term| term.rarity);
        Some(QueryTerm { known, rarity })
    }

    /// Returns `true` if any document has the word, which must be lowercase.
    pub(super) fn know(&self, word: &str) -> bool {
        stem(word).is_some_and(|term| self.ids.contains_key(&*term))
    }

    fn having(&self, term: &Term) -> &[Posting] {
        &self.postings[term.postings.clone()]
    }

    fn add(&self, words: &[QueryTerm<'_>], times: f32, each: &mut [f32]) {
        let known = words.iter().filter_map(|word| word.known);
        for Posting { place, worth } in known.flat_map(|term| self.having(term)) {
            each[*place as usize] += times * worth;
        }
    }
}

/// Saturates, though real indexes are far smaller.
fn as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts of words and documents")]
fn as_f32(number: usize) -> f32 {
    number as f32
}
