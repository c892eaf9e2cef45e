//! Finds tool names that look like another server's, and texts that mention another server's tool.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::lint::normalized_text::{NormalizedText, latin};
use mcp_workbench_names::untrusted_text;

/// Names of common tools, which are worth imitating.
const WELL_KNOWN: &[&str] = &[
    "create_pull_request",
    "execute_command",
    "get_file_contents",
    "list_directory",
    "read_file",
    "read_multiple_files",
    "run_command",
    "search_files",
    "send_email",
    "send_message",
    "send_payment",
    "transfer_funds",
    "write_file",
];
/// In characters. Longer names aren't checked for typos.
const MAX_COMPARED: usize = 64;
/// Honest names with shorter words also differ by one letter.
const MIN_WORD: usize = 5;

pub(super) struct ToolNameIndex<'a> {
    /// The positions of the servers that have a tool of this name.
    exact: HashMap<&'a str, HashSet<usize>>,
    /// The first tool with this skeleton.
    skeletons: HashMap<String, KnownTool<'a>>,
    /// The tools whose name becomes this if one letter is deleted.
    near: HashMap<String, Vec<KnownTool<'a>>>,
    servers: Vec<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownTool<'a> {
    /// The position of its server; `None` for a well-known tool.
    server: Option<usize>,
    name: &'a str,
}

/// A mention of another server's tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    /// The range in the normalized text.
    pub(super) bytes: Range<usize>,
    pub(super) server: String,
    /// `true` if the text says how to use the tool.
    pub(super) steers: bool,
}

impl<'a> ToolNameIndex<'a> {
    /// Indexes the tools of servers. A tool can only imitate one of an earlier server.
    pub(super) fn new(servers: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>) -> Self {
        let mut names = Self {
            exact: HashMap::new(),
            skeletons: HashMap::new(),
            near: HashMap::new(),
            servers: Vec::new(),
        };
        for name in WELL_KNOWN {
            names.add(KnownTool { server: None, name });
        }
        for (index, (server, tools)) in servers.into_iter().enumerate() {
            names.servers.push(server);
            for name in tools {
                names.exact.entry(name).or_default().insert(index);
                names.add(KnownTool { server: Some(index), name });
            }
        }
        names
    }

    fn add(&mut self, known: KnownTool<'a>) {
        self.skeletons.entry(skeleton(known.name)).or_insert(known);
        for shorter in deletion_neighbors(&convention(known.name)) {
            let all = self.near.entry(shorter).or_default();
            if all.len() < MAX_NEAR {
                all.push(known);
            }
        }
    }

    /// Returns a description of the earlier server's tool, or the well-known one, that `name`
    /// resembles.
    pub(super) fn find_lookalike(&self, index: usize, name: &str) -> Option<String> {
        let other = |known: &&KnownTool<'a>| known.server.is_none_or(|server| server < index);
        let says = |known: &KnownTool<'a>| match known.server.and_then(|at| self.servers.get(at)) {
            Some(server) => format!(
                "`{}` of `{server}`",
                untrusted_text::display_name(known.name, MAX_COMPARED)
            ),
            None => format!("the well-known `{}`", known.name),
        };
        // A name that another server also has isn't an imitation of a third one.
        let is_shared =
            self.exact.get(name).is_some_and(|servers| servers.iter().any(|at| *at != index));
        if is_shared || WELL_KNOWN.contains(&name) {
            return None;
        }
        let own = convention(name);
        let alike = self.skeletons.get(&skeleton(name)).filter(other);
        if let Some(known) = alike.filter(|known| convention(known.name) != own) {
            return Some(says(known));
        }
        let mut near =
            deletion_neighbors(&own).filter_map(|shorter| self.near.get(&shorter)).flatten();
        near.find(|known| other(known) && is_typo_of(name, known.name)).map(says)
    }

    /// Returns the first mention of another server's tool that says how to use it, or else the
    /// first mention. Words in `own`, such as parameter names, don't count.
    pub(super) fn find_mention(
        &self,
        index: usize,
        text: &NormalizedText,
        own: &HashSet<&str>,
    ) -> Option<Mention> {
        static WORD: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r"[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]").ok());
        let mut named = None;
        for word in WORD.iter().flat_map(|word| word.find_iter(&text.text)) {
            let name = word.as_str();
            let Some(servers) = self.exact.get(name) else { continue };
            if servers.contains(&index) || own.contains(name) {
                continue;
            }
            let Some(server) = servers.iter().min().and_then(|at| self.servers.get(*at)) else {
                continue;
            };
            let steers = is_order(&text.text, &word.range());
            let is_plain = !is_distinctive(name);
            if is_plain && !(steers && is_called_tool(&text.text, &word.range())) {
                continue;
            }
            let mention = Mention { bytes: word.range(), server: (*server).to_owned(), steers };
            if steers {
                return Some(mention);
            }
            named.get_or_insert(mention);
        }
        named
    }
}

/// Maximum number of tools stored per deletion neighbor.
const MAX_NEAR: usize = 16;

/// Returns `true` if a name can't be an everyday word.
fn is_distinctive(name: &str) -> bool {
    let has_hump =
        name.chars().skip(1).any(char::is_uppercase) && name.chars().any(char::is_lowercase);
    name.len() >= 6 && (name.contains(['_', '-']) || has_hump)
}

fn is_order(text: &str, name: &Range<usize>) -> bool {
    static ORDER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)\b(?:instead of|rather than|do not (?:use|call)|don't (?:use|call)|never (?:use|call)|avoid|replaces?|supersedes?|must|always|before (?:using|calling)|after (?:using|calling)|whenever|nicht|statt|anstatt|immer)\b|不要|代替|必须",
        )
        .ok()
    });
    let (from, to) = (around(text, name.start, 60, false), around(text, name.end, 40, true));
    ORDER.as_ref().is_some_and(|order| order.is_match(&text[from..to]))
}

/// Returns `true` if the text says `tool` after the name, or before it if the name is quoted.
fn is_called_tool(text: &str, name: &Range<usize>) -> bool {
    let (before, after) = (&text[..name.start], &text[name.end..]);
    let is_quoted = before.ends_with(['`', '\'', '"']) && after.starts_with(['`', '\'', '"']);
    let after = after.trim_start_matches(['`', '\'', '"', ' ']);
    after.starts_with("tool")
        || is_quoted && before.trim_end_matches(['`', '\'', '"', ' ']).ends_with("tool")
}

/// Moves `at` by `count` bytes, rounded outward to a character boundary.
pub(super) fn around(text: &str, at: usize, count: usize, is_after: bool) -> usize {
    if is_after {
        let far = at.saturating_add(count).min(text.len());
        (far..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
    } else {
        (0..=at.saturating_sub(count)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// Returns the name without separators and case, which is equal in all naming conventions.
fn convention(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | '.' | '/' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the skeleton of a name: equal for names that look the same (compare UTS 39).
fn skeleton(name: &str) -> String {
    let plain: String =
        NormalizedText::new(name).text.chars().map(|c| latin(c).unwrap_or(c)).collect();
    let plain: String = plain.replace('I', "l");
    convention(&plain)
        .replace("rn", "m")
        .replace("vv", "w")
        .replace(['1', 'i', '|'], "l")
        .replace('0', "o")
}

/// Returns the name with each letter deleted in turn, and the name itself.
fn deletion_neighbors(name: &str) -> impl Iterator<Item = String> + use<> {
    let letters: Vec<char> = name.chars().collect();
    let count = if letters.len() > MAX_COMPARED { 0 } else { letters.len() + 1 };
    (0..count).map(move |left_out| {
        letters
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != left_out)
            .map(|(_, letter)| *letter)
            .collect()
    })
}

/// Returns `true` if a name is a typo of another, such as `send_emial`: one letter is missing,
/// added, different or swapped with the next. The word must be long and the only one that differs;
/// a plural is not a typo.
fn is_typo_of(name: &str, other: &str) -> bool {
    let (one, two) = (words(name), words(other));
    if one.len() != two.len() {
        return false;
    }
    let mut apart = one.iter().zip(&two).filter(|(a, b)| a != b);
    let (Some((a, b)), None) = (apart.next(), apart.next()) else { return false };
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Swapped letters rarely make another real word, so a shorter word suffices.
    let min = if a.len() == b.len() && is_swapped(&a, &b) { MIN_WORD - 1 } else { MIN_WORD };
    let is_long = a.len().min(b.len()) >= min;
    let is_plural = |a: &[char], b: &[char]| a.strip_suffix(&['s']).is_some_and(|a| a == b);
    let has_digit = a.iter().chain(&b).any(char::is_ascii_digit);
    is_long && !has_digit && !is_plural(&a, &b) && !is_plural(&b, &a) && is_one_slip(&a, &b)
}

/// Returns `true` if two words differ by one letter, or by a swap of two neighbors.
fn is_one_slip(a: &[char], b: &[char]) -> bool {
    let before = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[before..], &b[before..]);
    match (a, b) {
        ([_, rest @ ..], b) if rest == b => true,
        (a, [_, rest @ ..]) if rest == a => true,
        ([_, a @ ..], [_, b @ ..]) if a == b => true,
        ([a1, a2, a @ ..], [b1, b2, b @ ..]) => a1 == b2 && a2 == b1 && a == b,
        _ => false,
    }
}

fn is_swapped(a: &[char], b: &[char]) -> bool {
    let sorted = |word: &[char]| {
        let mut word = word.to_vec();
        word.sort_unstable();
        word
    };
    sorted(a) == sorted(b)
}

fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_lower = false;
    for c in name.chars() {
        let is_apart = matches!(c, '_' | '-' | '.' | '/' | ' ');
        if is_apart || is_lower && c.is_uppercase() {
            words.push(String::new());
        }
        is_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| !is_apart) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Returns the range of the first word that mixes Latin letters with look-alikes of Latin letters.
pub(super) fn mixed(text: &str) -> Option<Range<usize>> {
    if text.is_ascii() {
        return None;
    }
    let mut from = 0;
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let start = from;
        from += word.len() + text[from + word.len()..].chars().next().map_or(0, char::len_utf8);
        let is_latin = word.contains(|c: char| c.is_ascii_alphabetic());
        let is_mixed = word.chars().filter(|c| !c.is_ascii()).all(|c| latin(c).is_some());
        if is_latin && is_mixed && !word.is_ascii() && word.chars().count() > 2 {
            return Some(start..start + word.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_like(name: &str) -> Option<String> {
        let servers =
            [("mail", vec!["send_invoice", "get_issue", "list_users"]), ("other", vec![name])];
        ToolNameIndex::new(servers).find_lookalike(1, name)
    }

    #[test]
    fn look_alikes_and_typos_are_found() {
        for name in [
            "send_inv0ice",
            "send_involce",
            "send_invioce",
            "send_invoicee",
            "send_invoce",
            "send_invo\u{456}ce",
            "rеad_file",
            "wr1te_file",
            "send_emai1",
            "send_mesage",
        ] {
            assert!(looks_like(name).is_some(), "{name}");
        }
        for name in [
            "send_invoice",
            "send-invoices",
            "sendInvoice",
            "set_issue",
            "get_issues",
            "list_uses",
            "read_file",
        ] {
            assert_eq!(looks_like(name), None, "{name}");
        }
    }

    #[test]
    fn mixed_scripts_differ_from_mixed_languages() {
        assert_eq!(mixed("a sеnd b"), Some(2..7));
        for text in ["µs", "API-ключ", "Grüße", "JSONом", "Слово", "α-test", "plain"]
        {
            assert_eq!(mixed(text), None, "{text}");
        }
    }
}
