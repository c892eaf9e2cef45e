//! BM25: an inverted index, each entry with all that its term is worth in its document.

use std::ops::Range;

use foldhash::{HashMap, HashSet};

use crate::catalog::rank::languages::{Meant, Reading};
use crate::catalog::rank::share;
use crate::catalog::rank::text::{name, parts, term, whole, words};

/// How soon more of the same term stops to matter, and how much long documents pay for their
/// length; the usual values, and no others did better.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The weight of an English word that stands for one of another language.
const MEANT: f32 = 0.8;

/// Documents on their way into an index.
#[derive(Default)]
pub(super) struct Builder {
    /// Words seen so far; none for those that do not count.
    words: HashMap<Box<str>, Option<u32>>,
    ids: HashMap<Box<str>, u32>,
    /// For each term the documents that have it, and how often.
    counts: Vec<Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    /// The terms of the document that is being read.
    document: Vec<u32>,
}

impl Builder {
    /// Adds a text to the document that is being read.
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
        let id = term(word).map(|term| {
            let next = as_u32(self.ids.len());
            *self.ids.entry(Box::from(&*term)).or_insert(next)
        });
        self.words.insert(Box::from(word), id);
        self.counts.resize_with(self.ids.len(), Vec::new);
        id
    }

    /// Ends the document; what is read from now on is of the next one.
    pub(super) fn end_document(&mut self) {
        let place = as_u32(self.lengths.len());
        self.lengths.push(as_u32(self.document.len()));
        self.document.sort_unstable();
        for same in self.document.chunk_by(|a, b| a == b) {
            self.counts[same[0] as usize].push((place, as_u32(same.len())));
        }
        self.document.clear();
    }

    /// The index of all documents.
    pub(super) fn build(self) -> Documents {
        let Self { mut ids, counts, lengths, .. } = self;
        let total: f32 = lengths.iter().map(|length| as_f32(*length as usize)).sum();
        let average = (total / as_f32(lengths.len())).max(1.0);
        let mut postings = Vec::with_capacity(counts.iter().map(Vec::len).sum());
        let mut terms = Vec::with_capacity(counts.len());
        for documents_of_term in &counts {
            let start = postings.len();
            let rarity = rarity(documents_of_term.len(), lengths.len());
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
        Documents { ids, terms, postings, count: lengths.len() }
    }
}

/// The weight of a term that `having` of all documents have. It is computed as `f64`, so that every
/// machine finds the same, however its library rounds.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is small")]
fn rarity(having: usize, documents: usize) -> f32 {
    let having = having as f64;
    (1.0 + (documents as f64 - having + 0.5) / (having + 0.5)).ln() as f32
}

/// That a document has a term.
#[derive(Debug)]
struct Posting {
    place: u32,
    worth: f32,
}

/// A term that documents have.
#[derive(Debug)]
struct Term {
    /// Where the documents that have it stand.
    postings: Range<usize>,
    rarity: f32,
}

/// Documents that can be asked for.
#[derive(Debug)]
pub(super) struct Documents {
    ids: HashMap<Box<str>, u32>,
    terms: Vec<Term>,
    postings: Vec<Posting>,
    count: usize,
}

/// The worth of every document to a query.
pub(super) struct Worth {
    /// For each document, what it is worth, an identifier for all of its forms together: by that,
    /// documents rank best.
    pub(super) each: Vec<f32>,
    /// The worth with every run of the query counted once. It tells how much of the query a
    /// document has, however that is written: `GitHub` is as much as `github`.
    pub(super) once: Vec<f32>,
    /// The worth, counted so, of a document of the usual length that has every run once.
    pub(super) whole: f32,
}

/// A word of a query.
struct Wanted<'d> {
    /// That documents have it, if any does.
    known: Option<&'d Term>,
    rarity: f32,
}

impl Documents {
    /// Computes the worth of every document to a query. A word that the query says twice counts
    /// once.
    pub(super) fn worth(&self, reading: &Reading<'_>) -> Worth {
        let nothing = || vec![0.0; self.count];
        let mut worth = Worth { each: nothing(), once: nothing(), whole: 0.0 };
        let mut seen = HashSet::default();
        for run in reading.runs.iter().copied().filter(|run| seen.insert(name(run))) {
            let parts: Vec<_> = parts(run).filter_map(|word| self.wanted(&word)).collect();
            let in_parts: f32 = parts.iter().map(|part| part.rarity).sum();
            self.add(&parts, 1.0, &mut worth.each);
            let whole = whole(run).and_then(|word| self.wanted(&word));
            match whole {
                Some(Wanted { known: Some(known), rarity }) => {
                    // It counts in the form that a document has more of.
                    let mut more = nothing();
                    self.add(&parts, share(rarity, in_parts), &mut more);
                    for Posting { place, worth: of_it } in self.having(known) {
                        let place = *place as usize;
                        worth.each[place] += of_it;
                        more[place] = of_it.max(more[place]);
                    }
                    worth.once.iter_mut().zip(more).for_each(|(once, more)| *once += more);
                    worth.whole += rarity;
                }
                Some(whole) if parts.iter().all(|part| part.known.is_none()) => {
                    worth.whole += whole.rarity;
                }
                _ => {
                    self.add(&parts, 1.0, &mut worth.once);
                    worth.whole += in_parts;
                }
            }
        }
        reading.meant.iter().for_each(|meant| self.add_meant(meant, &mut worth));
        worth
    }

    /// Adds what a word of another language is worth: of all English words for it, the one that a
    /// document has more of.
    fn add_meant(&self, Meant { own, english }: &Meant, worth: &mut Worth) {
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
        for (place, most) in most.into_iter().enumerate() {
            worth.each[place] += most;
            worth.once[place] += most;
        }
        worth.whole += if rarity.is_finite() { rarity } else { self::rarity(0, self.count) };
    }

    /// The documents that have a word, and its weight; nothing for a stop word. A word that no
    /// document has counts as the rarest.
    fn wanted(&self, word: &str) -> Option<Wanted<'_>> {
        let known = self.ids.get(&*term(word)?).map(|id| &self.terms[*id as usize]);
        let rarity = known.map_or_else(|| rarity(0, self.count), |term| term.rarity);
        Some(Wanted { known, rarity })
    }

    /// Tells whether any document has a word, which is in lower case.
    pub(super) fn know(&self, word: &str) -> bool {
        term(word).is_some_and(|term| self.ids.contains_key(&*term))
    }

    fn having(&self, term: &Term) -> &[Posting] {
        &self.postings[term.postings.clone()]
    }

    /// Adds what words are worth to each document, so many times.
    fn add(&self, words: &[Wanted<'_>], times: f32, each: &mut [f32]) {
        let known = words.iter().filter_map(|word| word.known);
        for Posting { place, worth } in known.flat_map(|term| self.having(term)) {
            each[*place as usize] += times * worth;
        }
    }
}

/// Places and counts are far below where this would matter.
fn as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts of words and documents")]
fn as_f32(number: usize) -> f32 {
    number as f32
}
