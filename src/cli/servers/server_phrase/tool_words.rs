//! A phrase from the names of tools: their verbs and nouns.

use crate::cli::servers::server_phrase::{MAX_PHRASE, joined, own_words, words_of};
use mcp_workbench_core::catalog::ToolDefinition;

/// Verbs in tool names, in the order in which a phrase lists them.
const VERBS: [&str; 76] = [
    "search",
    "find",
    "query",
    "list",
    "browse",
    "get",
    "fetch",
    "read",
    "retrieve",
    "show",
    "view",
    "describe",
    "check",
    "inspect",
    "count",
    "compare",
    "analyze",
    "explain",
    "lookup",
    "look",
    "resolve",
    "translate",
    "convert",
    "calculate",
    "compute",
    "generate",
    "render",
    "create",
    "add",
    "insert",
    "write",
    "append",
    "open",
    "save",
    "store",
    "upload",
    "download",
    "export",
    "import",
    "update",
    "edit",
    "modify",
    "set",
    "rename",
    "move",
    "copy",
    "merge",
    "assign",
    "comment",
    "reply",
    "post",
    "send",
    "publish",
    "share",
    "schedule",
    "book",
    "play",
    "run",
    "execute",
    "call",
    "invoke",
    "start",
    "stop",
    "restart",
    "deploy",
    "install",
    "scan",
    "test",
    "validate",
    "click",
    "type",
    "navigate",
    "manage",
    "delete",
    "remove",
    "cancel",
];
/// Words that end the noun after a verb.
const STOPS: [&str; 21] = [
    "by", "for", "from", "to", "in", "into", "with", "without", "of", "and", "or", "on", "at",
    "as", "via", "using", "across", "about", "multiple", "single", "tool",
];
/// Words that say nothing about the noun.
const FILLERS: [&str; 17] = [
    "all", "a", "an", "the", "advanced", "similar", "one", "many", "new", "recent", "current",
    "my", "bulk", "batch", "semantic", "v2", "mcp",
];
/// Nouns without a plural.
const UNCOUNTABLE: [&str; 29] = [
    "documentation",
    "knowledge",
    "research",
    "data",
    "info",
    "information",
    "status",
    "content",
    "text",
    "code",
    "history",
    "metadata",
    "health",
    "help",
    "time",
    "news",
    "weather",
    "feedback",
    "sql",
    "output",
    "input",
    "memory",
    "media",
    "music",
    "access",
    "traffic",
    "usage",
    "progress",
    "thinking",
];
const MAX_NOUNS: usize = 3;
const MAX_VERBS: usize = 3;
/// Tools considered per server.
const MAX_TOOLS: usize = 60;
/// Words longer than this are no words.
const MAX_WORD: usize = 24;

pub(super) fn is_verb(word: &str) -> bool {
    VERBS.contains(&word)
}

struct NounGroup {
    noun: String,
    /// Positions in `VERBS`, in order.
    verbs: Vec<usize>,
    tools: usize,
}

/// Returns a phrase such as `list, create and update issues; search users`.
pub(super) fn phrase(server: &str, tools: &[&ToolDefinition]) -> Option<String> {
    let split: Vec<Vec<String>> =
        tools.iter().take(MAX_TOOLS).map(|tool| words_of(&tool.name)).collect();
    let own = own_words(server);
    let mut groups: Vec<NounGroup> = Vec::new();
    for words in &split {
        let is_common =
            |at: usize| split.len() > 1 && split.iter().all(|other| other.get(at) == words.get(at));
        let common = (0..words.len()).take_while(|at| is_common(*at)).count();
        let words = words[common..].iter().map(String::as_str);
        let words = words.filter(|word| !FILLERS.contains(word) && word.len() <= MAX_WORD);
        // The tools of `linear` repeat that word, but those of `recipes` are about recipes.
        let others: Vec<&str> = words.clone().filter(|word| !own.contains(*word)).collect();
        let found = verb_and_noun(&others).filter(|(_, noun)| !noun.is_empty());
        let found = found.or_else(|| verb_and_noun(&words.collect::<Vec<_>>()));
        let Some((verb, noun)) = found else { continue };
        match groups.iter_mut().find(|group| group.noun == noun) {
            Some(group) => {
                group.tools += 1;
                if !group.verbs.contains(&verb) {
                    group.verbs.push(verb);
                }
            }
            None => groups.push(NounGroup { noun, verbs: vec![verb], tools: 1 }),
        }
    }
    // A verb alone says too little.
    groups.retain(|group| !group.noun.is_empty());
    if groups.is_empty() {
        return names(&split);
    }
    // A stable sort: nouns of equally many tools stay in the order of the tools.
    groups.sort_by_key(|group| std::cmp::Reverse(group.tools));
    let texts = (1..=MAX_NOUNS).rev().map(|most| text(&groups[..most.min(groups.len())]));
    texts.into_iter().find(|text| !text.is_empty() && text.chars().count() <= MAX_PHRASE)
}

/// The first few names as words, without those that all share: `status, commit and diff`.
fn names(split: &[Vec<String>]) -> Option<String> {
    let first = split.first()?;
    let is_shared =
        |at: usize| split.len() > 1 && split.iter().all(|words| words.get(at) == first.get(at));
    let shared = (0..first.len()).take_while(|at| is_shared(*at)).count();
    let mut names: Vec<String> = Vec::new();
    for words in split {
        let name = words[shared.min(words.len())..].join(" ");
        let is_word = name.chars().count() > 2 && name.len() <= MAX_WORD;
        if is_word && name.starts_with(char::is_alphabetic) && !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MAX_NOUNS);
    (!names.is_empty()).then(|| joined(&names))
}

fn text(groups: &[NounGroup]) -> String {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for group in groups {
        let mut verbs = group.verbs.clone();
        verbs.truncate(MAX_VERBS);
        verbs.sort_unstable();
        let verbs: Vec<String> = verbs.iter().map(|verb| VERBS[*verb].to_owned()).collect();
        let verbs = joined(&verbs);
        match said.iter_mut().find(|(other, _)| *other == verbs) {
            Some((_, nouns)) => nouns.push(group.noun.clone()),
            None => said.push((verbs, vec![group.noun.clone()])),
        }
    }
    let parts = said.iter().map(|(verbs, nouns)| format!("{verbs} {}", joined(nouns)));
    parts.collect::<Vec<_>>().join("; ")
}

/// Splits the words of a tool's name into the position of its verb and its noun in the plural. The
/// verb is the first word, or else the last one.
fn verb_and_noun(words: &[&str]) -> Option<(usize, String)> {
    let verb = |word: &&str| VERBS.iter().position(|verb| verb == word);
    let (verb, rest) = match words {
        [first, rest @ ..] if verb(first).is_some() => (verb(first)?, rest),
        [rest @ .., last] => (verb(last)?, rest),
        [] => return None,
    };
    let noun: Vec<&str> =
        rest.iter().copied().take_while(|word| !STOPS.contains(word)).take(3).collect();
    // In `list pull request comments`, the last words matter.
    let noun = &noun[noun.len().saturating_sub(2)..];
    let Some((last, before)) = noun.split_last() else { return Some((verb, String::new())) };
    let words: Vec<String> =
        before.iter().map(|word| (*word).to_owned()).chain([plural(last)]).collect();
    Some((verb, words.join(" ")))
}

fn plural(noun: &str) -> String {
    let ends = |ends: &[&str]| ends.iter().any(|end| noun.ends_with(end));
    let is_vowel = |c: char| "aeiou".contains(c);
    if UNCOUNTABLE.contains(&noun) || !noun.is_ascii() || noun.len() < 3 {
        return noun.to_owned();
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{stem}ies"),
        _ if ends(&["ss", "ch", "sh", "x", "z"]) => format!("{noun}es"),
        _ if noun.ends_with('s') => noun.to_owned(),
        _ => format!("{noun}s"),
    }
}
