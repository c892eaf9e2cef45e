//! How well a query fits the names of tools.
//!
//! A description shares words with many queries, but the words of a name are few and chosen: a query
//! that has all of them, and no others, names the tool. `create_issue_link` has a word that "create
//! issue" doesn't ask for.

use foldhash::HashMap;

use crate::catalog::rank::bm25::{Bm25Builder, Bm25Index, QueryWord};
use crate::catalog::rank::{share, start_of};

/// The longest name in bytes; the rest is ignored.
const MAX_NAME: usize = 256;
/// The number of a query's words that are compared with names.
const MAX_WORDS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct ToolNames {
    /// The positions of the tools with a name, by the name without case and punctuation.
    by_spelling: HashMap<Box<str>, Vec<usize>>,
    names: Vec<Name>,
}

/// The terms of a tool's name and of its server's, each once.
#[derive(Debug)]
struct Name {
    own: Box<[u32]>,
    server: Box<[u32]>,
}

impl ToolNames {
    pub(super) fn add(&mut self, server: &str, tool: &str, terms: &mut Bm25Builder) {
        let place = self.names.len();
        let (tool, server) = (start_of(tool, MAX_NAME), start_of(server, MAX_NAME));
        let own = terms.terms_of(tool);
        let server = terms.terms_of(server);
        if let Some(spelling) = spelling(tool) {
            self.by_spelling.entry(spelling.into()).or_default().push(place);
        }
        self.names.push(Name { own, server });
    }

    /// Returns the positions, in order, of the tools whose whole name the query is, in any spelling.
    pub(super) fn called(&self, query: &str) -> &[usize] {
        let places = spelling(query).and_then(|spelling| self.by_spelling.get(&*spelling));
        places.map_or(&[], Vec::as_slice)
    }

    /// Returns from 0 to 1 how well each name fits the query: 1 if both have the same words, apart
    /// from the server's.
    pub(super) fn fits(&self, query: &[QueryWord], index: &Bm25Index) -> Vec<f32> {
        let query = &query[..query.len().min(MAX_WORDS)];
        let asked: f32 = query.iter().map(|word| word.rarity).sum();
        let mut places: HashMap<u32, usize> = HashMap::default();
        for (place, word) in query.iter().enumerate() {
            for form in &word.forms {
                places.entry(*form).or_insert(place);
            }
        }
        let fit = |name: &Name| {
            // The words of the query that the name has, a bit each.
            let mut has = 0_u64;
            let (mut whole, mut wanted) = (0.0, 0.0);
            for term in &name.own {
                if let Some(place) = places.get(term) {
                    has |= 1 << place;
                    wanted += index.rarity(*term);
                } else if name.server.contains(term) {
                    continue;
                }
                whole += index.rarity(*term);
            }
            if has == 0 {
                return 0.0;
            }
            let of_server = name.server.iter().filter_map(|term| places.get(term));
            has = of_server.fold(has, |has, place| has | 1 << place);
            let said = query.iter().enumerate().filter(|(place, _)| has & 1 << place != 0);
            let said: f32 = said.map(|(_, word)| word.rarity).sum();
            share(said, asked) * share(wanted, whole)
        };
        self.names.iter().map(fit).collect()
    }
}

/// Returns a name without case and punctuation, or `None` if nothing is left.
fn spelling(name: &str) -> Option<String> {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    let spelling: String = letters.flat_map(char::to_lowercase).collect();
    (!spelling.is_empty()).then_some(spelling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_ignores_case_and_punctuation() {
        for name in ["create_issue", "createIssue", "create issue", "Create-Issue."] {
            assert_eq!(spelling(name).as_deref(), Some("createissue"), "{name}");
        }
        assert_eq!(spelling("_-"), None);
    }
}
