//! Ranking: which of many tools are meant by a few words.
//!
//! BM25 over one document a tool: its server's title and description, its name and description, and
//! the names of its parameters. The statistics are those of the tools that an [`Index`] is made of,
//! so whoever makes one decides first who may see what. Mixed with it is how near two texts are in
//! meaning, by a table of word vectors that is compiled in, for who asks does not know the words
//! that a tool's author chose.

mod bm25;
mod deeds;
mod given;
mod languages;
mod numbers;
pub mod purposes;
mod services;
mod text;
mod vectors;

use std::cmp::Ordering;

use crate::catalog::ToolDefinition;
use crate::catalog::rank::bm25::{Builder, Documents, Worth};
use crate::catalog::rank::deeds::{Deed, Deeds};
use crate::catalog::rank::languages::{Reading, read};
use crate::catalog::rank::services::absent;
use crate::catalog::rank::vectors::{Direction, Reader};

pub use crate::catalog::rank::given::{BACKGROUND, Vector, Vectors};
pub use crate::catalog::rank::services::no_server_for;
pub use crate::catalog::rank::text::shared_words;

#[cfg(test)]
mod tests;

/// The most bytes of a query that are read.
pub const MAX_QUERY: usize = 1024;
/// The most bytes of a description, and the most parameters, that are read.
const MAX_DESCRIPTION: usize = 8 * 1024;
const MAX_PARAMETERS: usize = 256;

/// The share of common words in a tool's rank; meaning has the rest of 1. It was measured
/// (`scripts/embedding/README.md`).
const WORDS: f32 = 0.3;
/// The score from which on a tool is found at all, where meaning counts. It is low on purpose, since
/// a right tool that is not found costs more than a wrong one that is: `tests/eval/README.md` has
/// what it keeps out, and what it loses. By words alone the two cannot be told apart.
pub const FLOOR: f32 = 0.1;
/// The score from which on a tool fits well: it is likelier than not what was wanted.
pub const WELL: f32 = 0.3;
/// The score from which on a tool may be called for a task without a question, if it is also ahead
/// of the next one by [`LEAD`]. `tests/eval/README.md` has how often such a call is wrong.
pub const SURE: f32 = 0.5;
/// How far a tool has to be ahead of the next one, in rank, to be called without a question.
pub const LEAD: f32 = 0.12;
/// How much rank and score a tool loses that is named after another kind of deed than the query's;
/// in a query of more words than [`MAX_STEP`], which is likely to want several things, none.
const OTHER_DEED: f32 = 0.1;
const MAX_STEP: usize = 12;

/// How tools are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the same words alone.
    Words,
    /// By the same words and by meaning.
    Mixed,
}

/// The choice between finding tools that hardly fit and leaving them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finds {
    /// Tools that fit, and no others.
    WhatFits,
    /// All tools that come near, for whoever chooses among them.
    WhatIsNearest,
}

/// One tool with what is said of its server.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The server's name.
    pub server: &'a str,
    /// The server's purpose, if anybody said.
    pub about: &'a str,
    /// The tool.
    pub tool: &'a ToolDefinition,
}

/// One tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Which of the tools that the index was made of, from 0 on.
    pub place: usize,
    /// How well it fits: from 0 to 1, a part for the share of the query's words that the tool has,
    /// the rarer ones before the others, and a part for how near it is in meaning. Comparable
    /// between queries, and never more than that of a tool that was found before it.
    pub score: f32,
    /// The number that tools are put in order by; how far two of them are apart says how clear it
    /// is that the first is meant. Not comparable between queries.
    pub rank: f32,
}

impl Hit {
    /// Returns how well the tool fits, without its place.
    pub fn fit(&self) -> Fit {
        Fit { score: self.score, rank: self.rank }
    }
}

/// How well a tool fits; see [`Hit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// From 0 to 1, comparable between queries.
    pub score: f32,
    /// The number that tools are put in order by.
    pub rank: f32,
}

impl Fit {
    /// Tells whether a tool fits well.
    pub fn is_good(self) -> bool {
        rounded(self.score) >= rounded(WELL)
    }

    /// Returns how far it is ahead of the next one, which may not be there.
    pub fn lead(self, next: Option<Self>) -> f32 {
        self.rank - next.map_or(0.0, |next| next.rank)
    }

    /// Tells whether the tool may be called without a question, being so far ahead of the next one.
    pub fn is_clear(self, next: Option<Self>) -> bool {
        self.score >= SURE && self.lead(next) >= LEAD
    }
}

/// A score with two digits behind the point: more say nothing.
pub fn rounded(score: f32) -> f64 {
    (f64::from(score) * 100.0).round() / 100.0
}

/// Tells whether a tool of this name looks at something and leaves it as it is, by the first verb in
/// its name.
pub fn only_reads(name: &str) -> bool {
    Deed::of_name(name) == Some(Deed::Read)
}

/// Tells whether a tool of this name deletes something, by the words of its name, for a text that
/// speaks of no such deed.
pub fn deletes_unasked(name: &str, text: &str) -> bool {
    // Whether tools have its words does not matter here.
    let text = read(start_of(text, MAX_QUERY), |_| false).text;
    Deed::of_name(name) == Some(Deed::Delete) && !Deeds::of_text(&text).has(Deed::Delete)
}

/// Tools, ready to be found.
#[derive(Debug)]
pub struct Index {
    documents: Documents,
    /// For each tool what it means, where that counts.
    meanings: Option<Vec<Direction>>,
    /// For each tool what it does, as far as its name says it.
    deeds: Vec<Option<Deed>>,
}

impl Index {
    /// Makes an index of tools.
    pub fn new<'a>(entries: impl IntoIterator<Item = Entry<'a>>, method: Method) -> Self {
        let mut builder = Builder::default();
        let mut reader = Reader::default();
        let mut meanings = (method == Method::Mixed).then(Vec::new);
        let mut deeds = Vec::new();
        for Entry { server, about, tool } in entries {
            let description = tool.description.as_deref().unwrap_or_default();
            let description = start_of(description, MAX_DESCRIPTION);
            builder.read(server);
            builder.read(start_of(about, MAX_DESCRIPTION));
            builder.read(&tool.name);
            builder.read(description);
            for parameter in parameters(tool) {
                builder.read(&parameter);
            }
            builder.end_document();
            deeds.push(Deed::of_name(&tool.name));
            if let Some(meanings) = &mut meanings {
                meanings.push(reader.direction(&[server, &tool.name, description]));
            }
        }
        Self { documents: builder.build(), meanings, deeds }
    }

    /// The `limit` tools that fit a query best, the best first, of those that are `wanted` (by
    /// place). Of equals, the one that comes first in the index is first. What is not wanted makes
    /// no difference to the others. Nothing is found where nothing fits; of a query longer than
    /// [`MAX_QUERY`] bytes, its beginning counts.
    pub fn search(&self, query: &str, limit: usize, wanted: impl Fn(usize) -> bool) -> Vec<Hit> {
        self.search_by(query, Finds::WhatFits, None, limit, wanted)
    }

    /// Finds tools even if they hardly fit. By words alone, a tool still must have one of them.
    pub fn nearest(&self, query: &str, limit: usize, wanted: impl Fn(usize) -> bool) -> Vec<Hit> {
        self.search_by(query, Finds::WhatIsNearest, None, limit, wanted)
    }

    /// Returns the well-known services that a query names, and of which no tool has a word: nothing
    /// that is found can be theirs.
    pub fn absent_services(&self, query: &str) -> Vec<String> {
        absent(start_of(query, MAX_QUERY), |word| self.documents.know(word))
    }

    /// Either of `search` and `nearest`, with how near each tool is to the query, by its place, if somebody else has
    /// said it in place of the table.
    pub fn search_by(
        &self,
        query: &str,
        finds: Finds,
        given: Option<&[f32]>,
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<Hit> {
        let query = start_of(query, MAX_QUERY);
        let counts_meaning = given.is_some() || self.meanings.is_some();
        let floor = match finds {
            _ if !counts_meaning => f32::MIN_POSITIVE,
            Finds::WhatFits => FLOOR,
            Finds::WhatIsNearest => 0.0,
        };
        let reading = read(query, |word| self.documents.know(word));
        let Worth { each, once, whole } = self.documents.worth(&reading);
        let most = each.iter().copied().fold(0.0, f32::max);
        let table = self.meanings.as_ref().filter(|_| given.is_none());
        let table = table.map(|all| (all, Reader::default().direction(&[&reading.text])));
        if finds == Finds::WhatFits && table.is_some() && !self.understands(&reading) {
            return Vec::new();
        }
        let asked = Deeds::of_text(&reading.text).if_one_step(MAX_STEP);
        let wanted = each.into_iter().enumerate().filter(|(place, _)| wanted(*place));
        let ranked = wanted.map(|(place, worth)| {
            let words = share(once[place], whole).min(1.0);
            let near = match (given, &table) {
                (Some(given), _) => given.get(place).copied().unwrap_or_default(),
                (None, Some((meanings, query))) => meanings[place].cosine(query),
                (None, None) => return Ranked { place, rank: worth, score: words },
            };
            let mixed = |words: f32, near: f32| WORDS * words + (1.0 - WORDS) * near;
            // What is best of all by words counts as all of them, however many it has: that ranks
            // better, but says nothing of how well it fits.
            let rank = mixed(share(worth, most), near);
            let score = mixed(words, near.clamp(0.0, 1.0));
            let is_other = self.deeds[place].is_some_and(|deed| asked.rule_out(deed));
            let less = if is_other { OTHER_DEED } else { 0.0 };
            Ranked { place, rank: rank - less, score: (score - less).max(0.0) }
        });
        best(ranked.filter(|tool| tool.score >= floor).collect(), limit)
    }
}

impl Index {
    /// Tells whether a query has any word that says something: one that tools have, or one that is in
    /// the table. What is made up points somewhere too, by the letters that it is made of.
    fn understands(&self, reading: &Reading<'_>) -> bool {
        !reading.meant.is_empty()
            || reading.runs.iter().any(|run| self.documents.know(&run.to_lowercase()))
            || Reader::default().knows_any(&reading.text)
    }
}

/// A part of a whole, if there is any.
fn share(part: f32, whole: f32) -> f32 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A tool with what it is ranked by.
#[derive(Clone, Copy)]
struct Ranked {
    place: usize,
    rank: f32,
    score: f32,
}

/// The first `limit` of them, in order.
fn best(mut ranked: Vec<Ranked>, limit: usize) -> Vec<Hit> {
    if limit == 0 {
        return Vec::new();
    }
    if ranked.len() > limit {
        ranked.select_nth_unstable_by(limit - 1, order);
        ranked.truncate(limit);
    }
    ranked.sort_unstable_by(order);
    let mut least = f32::INFINITY;
    let hits = ranked.into_iter().map(|Ranked { place, score, rank }| {
        least = least.min(score);
        Hit { place, score: least, rank }
    });
    hits.collect()
}

/// The better first; of equals, the one that was there first.
fn order(a: &Ranked, b: &Ranked) -> Ordering {
    b.rank.total_cmp(&a.rank).then(a.place.cmp(&b.place))
}

/// The names of a tool's parameters, as far as there are not too many.
fn parameters(tool: &ToolDefinition) -> Vec<String> {
    let Some(properties) = tool.schema.member("properties") else {
        return Vec::new();
    };
    let members = properties.each_member().into_iter().flatten().flatten();
    members.take(MAX_PARAMETERS).map(|(name, _)| name.into_owned()).collect()
}

/// At most `max` bytes from the start of a text, whole characters.
fn start_of(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
