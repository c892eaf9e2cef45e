//! Ranks tools by how well they match a query.
//!
//! Each tool is one document: its server's name and description, its own name and description, and
//! its parameter names. The rank combines BM25 with similarity of meaning, taken from a compiled-in
//! table of word vectors, because users don't know the words that a tool's author chose. A query
//! that fits the tool's name adds to the rank, and a contradicting verb subtracts from it. Term
//! statistics cover the tools of a [`SearchIndex`], so apply access rules before building one.

mod bm25;
pub mod clustering;
mod languages;
mod model_vectors;
mod names;
mod operation;
mod quantization;
mod services;
mod tokenizer;
mod vectors;

use std::cmp::Ordering;

use crate::catalog::ToolDefinition;
use crate::catalog::rank::bm25::{Bm25Builder, Bm25Index, Bm25Scores};
use crate::catalog::rank::languages::{ParsedQuery, parse_query};
use crate::catalog::rank::names::ToolNames;
use crate::catalog::rank::operation::{Directions, Operation, OperationSet};
use crate::catalog::rank::services::absent;
use crate::catalog::rank::vectors::{Embedder, TextEmbedding, TextSum};

pub use crate::catalog::rank::model_vectors::{BACKGROUND, CenteredVectors, QuantizedVector};
pub use crate::catalog::rank::services::absent_services_message;
pub use crate::catalog::rank::tokenizer::shared_words;

#[cfg(test)]
mod tests;

/// The longest query, in bytes; the rest is ignored.
pub const MAX_QUERY: usize = 1024;
/// The longest description in bytes, and the most parameters, that are indexed.
const MAX_DESCRIPTION: usize = 8 * 1024;
const MAX_PARAMETERS: usize = 256;
/// Anything shorter is more likely an abbreviation or a heading than a sentence.
const SHORTEST_SENTENCE: usize = 20;

/// The weight of BM25 in the rank; similarity of meaning has the rest of 1. Measured in
/// `scripts/embedding/README.md`.
const LEXICAL_WEIGHT: f32 = 0.3;
/// The lowest score of a tool that is found in hybrid ranking.
///
/// Low on purpose, since missing the right tool costs more than returning a wrong one:
/// `tests/eval/README.md` has the rates of both. Lexical scores can't tell the two apart.
pub const MIN_SCORE: f32 = 0.1;
/// Tools with at least this score are more likely right than wrong.
pub const GOOD_SCORE: f32 = 0.3;
/// The minimum score for a call without asking; the tool must also lead the next one by
/// [`CONFIDENT_MARGIN`]. `tests/eval/README.md` has the error rate.
pub const CONFIDENT_SCORE: f32 = 0.5;
/// The minimum lead in rank over the next tool for a call without asking.
pub const CONFIDENT_MARGIN: f32 = 0.14;
/// The rank that a tool gains if the query has the words of its name, and no others. A partial fit
/// gains by its third power: a part of the words says little. Measured in `tests/eval/README.md`.
const NAME_WEIGHT: f32 = 0.2;
/// The rank that a tool gains if the query is its name. No other difference is as large.
const CALLED_WEIGHT: f32 = 1.0;
/// The rank and score that a tool loses if its name is about another operation than the query. A
/// query of more than [`MAX_STEP`] words probably asks for several operations, so it has no
/// penalty. Measured in `tests/eval/README.md`.
const OPERATION_MISMATCH_PENALTY: f32 = 0.15;
/// The rank and score that a tool loses if its name has the opposite of a word of the query, such as
/// `unmute`. It replaces the other penalty.
const OPPOSITE_PENALTY: f32 = 0.25;
const MAX_STEP: usize = 12;

/// How tools are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingMethod {
    /// By common words (BM25) only.
    Lexical,
    /// By common words and by meaning.
    Hybrid,
}

/// The minimum score of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreCutoff {
    /// Only tools that reach the minimum score.
    Relevant,
    /// The nearest tools, however low their scores, for callers that choose among them.
    None,
}

/// A tool to index, with the texts about its server.
#[derive(Clone, Copy, Debug)]
pub struct ToolDocument<'a> {
    pub server: &'a str,
    /// The server's description; may be empty.
    pub about: &'a str,
    pub tool: &'a ToolDefinition,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedTool {
    /// The position among the tools that the index was built from.
    pub index: usize,
    /// Relevance from 0 to 1: the tool's share of the query's words, weighted by rarity, and its
    /// similarity in meaning. Comparable between queries, and never above the score of an earlier
    /// result.
    pub score: f32,
    /// The sort key. Its lead over the next tool says how clear the choice is. Not comparable
    /// between queries.
    pub rank: f32,
}

impl RankedTool {
    /// Returns score and rank without the position.
    pub fn relevance(&self) -> Relevance {
        Relevance { score: self.score, rank: self.rank }
    }
}

/// How well a tool matches; see [`RankedTool`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relevance {
    /// From 0 to 1, comparable between queries.
    pub score: f32,
    pub rank: f32,
}

impl Relevance {
    /// Returns `true` if the score, rounded, is at least `GOOD_SCORE`.
    pub fn is_strong(self) -> bool {
        round_score(self.score) >= round_score(GOOD_SCORE)
    }

    /// Returns the lead in rank over the next tool, if there is one.
    pub fn margin_over(self, next: Option<Self>) -> f32 {
        self.rank - next.map_or(0.0, |next| next.rank)
    }

    /// Returns `true` if the tool may be called without asking, considering the next one.
    pub fn is_confident(self, next: Option<Self>) -> bool {
        self.score >= CONFIDENT_SCORE && self.margin_over(next) >= CONFIDENT_MARGIN
    }
}

/// Rounds a score to two decimals; further digits carry no information.
pub fn round_score(score: f32) -> f64 {
    (f64::from(score) * 100.0).round() / 100.0
}

/// Returns `true` if the first known verb in a tool's name is about reading, such as `list`.
pub fn is_read_operation(name: &str) -> bool {
    Operation::of_name(name) == Some(Operation::Read)
}

/// Returns `true` if a tool's name is about deleting and `text` doesn't ask to delete anything.
pub fn is_unrequested_delete(name: &str, text: &str) -> bool {
    // Without an index, no word counts as used by tools.
    let text = parse_query(start_of(text, MAX_QUERY), |_| false).text;
    Operation::of_name(name) == Some(Operation::Delete)
        && !OperationSet::of_text(&text).has(Operation::Delete)
}

/// Embeddings of a tool's server, name and description: with the whole description and, if it has
/// several sentences, with only the first. A short query is often nearer to the first sentence.
#[derive(Debug)]
struct ToolMeaning {
    whole: TextEmbedding,
    start: Option<TextEmbedding>,
}

impl ToolMeaning {
    fn of(server: &str, name: &str, description: &str, embedder: &mut Embedder) -> Self {
        let (first, rest) = split_first_sentence(description);
        let mut sum = TextSum::default();
        for text in [server, name, first] {
            embedder.add(text, &mut sum);
        }
        let start = (!rest.is_empty()).then(|| sum.embedding());
        embedder.add(rest, &mut sum);
        Self { whole: sum.embedding(), start }
    }

    fn cosine(&self, query: &TextEmbedding) -> f32 {
        let whole = self.whole.cosine(query);
        self.start.as_ref().map_or(whole, |start| whole.max(start.cosine(query)))
    }
}

/// A search index over tools.
#[derive(Debug)]
pub struct SearchIndex {
    documents: Bm25Index,
    names: ToolNames,
    /// The meaning of each tool; `None` in lexical ranking.
    meanings: Option<Vec<ToolMeaning>>,
    /// The operation in each tool's name, if it has a known verb, and its directions.
    operations: Vec<(Option<Operation>, Directions)>,
}

impl SearchIndex {
    /// Builds an index. Results refer to the tools by their position in `entries`.
    pub fn new<'a>(
        entries: impl IntoIterator<Item = ToolDocument<'a>>,
        method: RankingMethod,
    ) -> Self {
        let mut builder = Bm25Builder::default();
        let mut reader = Embedder::default();
        let mut meanings = (method == RankingMethod::Hybrid).then(Vec::new);
        let mut operations = Vec::new();
        let mut names = ToolNames::default();
        for ToolDocument { server, about, tool } in entries {
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
            names.add(server, &tool.name, &mut builder);
            operations.push((Operation::of_name(&tool.name), Directions::of_name(&tool.name)));
            if let Some(meanings) = &mut meanings {
                meanings.push(ToolMeaning::of(server, &tool.name, description, &mut reader));
            }
        }
        Self { documents: builder.build(), names, meanings, operations }
    }

    /// Returns the `limit` best tools for a query, best first, among those that `wanted` accepts.
    ///
    /// Ties keep index order, and excluded tools don't affect the scores of the others. Returns
    /// nothing if no tool is relevant. Only the first [`MAX_QUERY`] bytes of the query count.
    pub fn search(
        &self,
        query: &str,
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<RankedTool> {
        self.search_by(query, ScoreCutoff::Relevant, None, limit, wanted)
    }

    /// Like `search`, but without a minimum score. In lexical ranking a tool still needs a common
    /// word.
    pub fn search_nearest(
        &self,
        query: &str,
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<RankedTool> {
        self.search_by(query, ScoreCutoff::None, None, limit, wanted)
    }

    /// Returns the well-known services that a query names but no indexed text mentions. No result
    /// can belong to one of them.
    pub fn absent_services(&self, query: &str) -> Vec<String> {
        absent(start_of(query, MAX_QUERY), |word| self.documents.know(word))
    }

    /// Searches with either cutoff. `given` replaces the compiled-in table with the similarity of
    /// each tool to the query, by position.
    pub fn search_by(
        &self,
        query: &str,
        finds: ScoreCutoff,
        given: Option<&[f32]>,
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<RankedTool> {
        let query = start_of(query, MAX_QUERY);
        let counts_meaning = given.is_some() || self.meanings.is_some();
        let floor = match finds {
            _ if !counts_meaning => f32::MIN_POSITIVE,
            ScoreCutoff::Relevant => MIN_SCORE,
            ScoreCutoff::None => 0.0,
        };
        let reading = parse_query(query, |word| self.documents.know(word));
        let Bm25Scores { ranking: each, coverage: once, full_coverage: whole } =
            self.documents.worth(&reading);
        let fits = self.names.fits(&self.documents.query_words(&reading), &self.documents);
        let called = self.names.called(query);
        let most = each.iter().copied().fold(0.0, f32::max);
        let table = self.meanings.as_ref().filter(|_| given.is_none());
        let table = table.map(|all| (all, Embedder::default().embed(&[&reading.text])));
        if finds == ScoreCutoff::Relevant && table.is_some() && !self.understands(&reading) {
            return Vec::new();
        }
        let asked = OperationSet::of_text(&reading.text).if_one_step(MAX_STEP);
        let directions = Directions::of_text(&reading.text, MAX_STEP);
        let wanted = each.into_iter().enumerate().filter(|(place, _)| wanted(*place));
        let ranked = wanted.map(|(index, worth)| {
            let words = share(once[index], whole).min(1.0);
            let near = match (given, &table) {
                (Some(given), _) => given.get(index).copied().unwrap_or_default(),
                (None, Some((meanings, query))) => meanings[index].cosine(query),
                (None, None) => return Ranked { index, rank: worth, score: words },
            };
            let mixed =
                |words: f32, near: f32| LEXICAL_WEIGHT * words + (1.0 - LEXICAL_WEIGHT) * near;
            // For the rank, the best lexical match counts as a full one, however few words it has.
            // That ranks better, but says nothing about relevance.
            let rank = mixed(share(worth, most), near) + NAME_WEIGHT * fits[index].powi(3);
            let score = mixed(words, near.clamp(0.0, 1.0));
            if called.binary_search(&index).is_ok() {
                return Ranked {
                    index,
                    rank: rank + CALLED_WEIGHT,
                    score: score.max(CONFIDENT_SCORE),
                };
            }
            let (operation, named) = self.operations[index];
            let less = if directions.rule_out(named) {
                OPPOSITE_PENALTY
            } else if operation.is_some_and(|operation| asked.rule_out(operation)) {
                OPERATION_MISMATCH_PENALTY
            } else {
                0.0
            };
            Ranked { index, rank: rank - less, score: (score - less).max(0.0) }
        });
        best(ranked.filter(|tool| tool.score >= floor).collect(), limit)
    }
}

impl SearchIndex {
    /// Returns `true` if a word of the query is used by tools or is in the table. A made-up word
    /// has an embedding too, from the letters it consists of.
    fn understands(&self, reading: &ParsedQuery<'_>) -> bool {
        !reading.meant.is_empty()
            || reading.runs.iter().any(|run| self.documents.know(&run.to_lowercase()))
            || Embedder::default().knows_any(&reading.text)
    }
}

fn share(part: f32, whole: f32) -> f32 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[derive(Clone, Copy)]
struct Ranked {
    index: usize,
    rank: f32,
    score: f32,
}

/// Returns the best `limit` tools in order, with scores capped to be non-increasing.
fn best(mut ranked: Vec<Ranked>, limit: usize) -> Vec<RankedTool> {
    if limit == 0 {
        return Vec::new();
    }
    if ranked.len() > limit {
        ranked.select_nth_unstable_by(limit - 1, order);
        ranked.truncate(limit);
    }
    ranked.sort_unstable_by(order);
    let mut least = f32::INFINITY;
    let hits = ranked.into_iter().map(|Ranked { index: place, score, rank }| {
        least = least.min(score);
        RankedTool { index: place, score: least, rank }
    });
    hits.collect()
}

fn order(a: &Ranked, b: &Ranked) -> Ordering {
    b.rank.total_cmp(&a.rank).then(a.index.cmp(&b.index))
}

fn parameters(tool: &ToolDefinition) -> Vec<String> {
    let Some(properties) = tool.schema.member("properties") else {
        return Vec::new();
    };
    let members = properties.each_member().into_iter().flatten().flatten();
    members.take(MAX_PARAMETERS).map(|(name, _)| name.into_owned()).collect()
}

/// Truncates `text` to at most `max` bytes, at a character boundary.
fn start_of(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Splits a description after the first sentence of at least `SHORTEST_SENTENCE` bytes, or after the
/// first paragraph if that is shorter.
fn split_first_sentence(description: &str) -> (&str, &str) {
    let description = description.trim();
    let paragraph = description.find("\n\n").unwrap_or(description.len());
    let mut ends = description[..paragraph].match_indices(". ").map(|(at, _)| at + 1);
    let end = ends.find(|end| *end > SHORTEST_SENTENCE).unwrap_or(paragraph);
    description.split_at(end)
}
