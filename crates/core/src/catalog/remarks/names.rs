//! Names of tools, and how other servers speak of them or look like them.

use std::ops::Range;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt, HashSet};
use regex::Regex;

use crate::catalog::remarks::folded::{Folded, latin};
use crate::name::seen;

/// Tools that many servers have, and that somebody may want to be taken for.
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
/// Names of tools that are longer are not compared with those that are one letter apart.
const MAX_COMPARED: usize = 64;
/// Words that are shorter differ by a letter in honest names, too.
const MIN_WORD: usize = 5;

/// The tools of all servers, by the forms of their names.
pub(super) struct Names<'a> {
    /// The servers that have a tool of this name, by their places.
    exact: HashMap<&'a str, HashSet<usize>>,
    /// The first tool whose name looks like this.
    skeletons: HashMap<String, Known<'a>>,
    /// The tools whose name becomes this when one letter is left out.
    near: HashMap<String, Vec<Known<'a>>>,
    servers: Vec<&'a str>,
}

/// A tool that names are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known<'a> {
    /// The place of its server; `None`: it is well known.
    server: Option<usize>,
    name: &'a str,
}

/// A place where a text has the name of another server's tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    /// The bytes of the folded text.
    pub(super) bytes: Range<usize>,
    /// The name of the server.
    pub(super) server: String,
    /// `true` if the text says how the tool is to be used.
    pub(super) steers: bool,
}

impl<'a> Names<'a> {
    /// The names of the tools of servers, each with its server's name, in the order of the servers.
    pub(super) fn new(servers: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>) -> Self {
        let mut names = Self {
            exact: HashMap::new(),
            skeletons: HashMap::new(),
            near: HashMap::new(),
            servers: Vec::new(),
        };
        for name in WELL_KNOWN {
            names.add(Known { server: None, name });
        }
        for (place, (server, tools)) in servers.into_iter().enumerate() {
            names.servers.push(server);
            for name in tools {
                names.exact.entry(name).or_default().insert(place);
                names.add(Known { server: Some(place), name });
            }
        }
        names
    }

    fn add(&mut self, known: Known<'a>) {
        self.skeletons.entry(skeleton(known.name)).or_insert(known);
        for shorter in shorter(&convention(known.name)) {
            let all = self.near.entry(shorter).or_default();
            if all.len() < MAX_NEAR {
                all.push(known);
            }
        }
    }

    /// Returns the tool of an earlier server, or the well-known one, that a name can be mistaken for.
    pub(super) fn looks_like(&self, place: usize, name: &str) -> Option<String> {
        let other = |known: &&Known<'a>| known.server.is_none_or(|server| server < place);
        let says = |known: &Known<'a>| match known.server.and_then(|at| self.servers.get(at)) {
            Some(server) => format!("`{}` of `{server}`", seen::named(known.name, MAX_COMPARED)),
            None => format!("`{}`, which many servers have", known.name),
        };
        // A name that somebody else has as it is, is no imitation of a third one.
        let is_shared =
            self.exact.get(name).is_some_and(|servers| servers.iter().any(|at| *at != place));
        if is_shared || WELL_KNOWN.contains(&name) {
            return None;
        }
        let own = convention(name);
        let alike = self.skeletons.get(&skeleton(name)).filter(other);
        if let Some(known) = alike.filter(|known| convention(known.name) != own) {
            return Some(says(known));
        }
        let mut near = shorter(&own).filter_map(|shorter| self.near.get(&shorter)).flatten();
        near.find(|known| other(known) && is_slip(name, known.name)).map(says)
    }

    /// Returns the first place where a text of a server has the name of another one's tool, those first
    /// that say how to use it. Words in `own`, such as its parameters, are its own.
    pub(super) fn mentioned(
        &self,
        place: usize,
        text: &Folded,
        own: &HashSet<&str>,
    ) -> Option<Mention> {
        static WORD: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r"[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]").ok());
        let mut named = None;
        for word in WORD.iter().flat_map(|word| word.find_iter(&text.text)) {
            let name = word.as_str();
            let Some(servers) = self.exact.get(name) else { continue };
            if servers.contains(&place) || own.contains(name) {
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

/// Tools that become the same when a letter is left out, of which so many are kept.
const MAX_NEAR: usize = 16;

/// Returns `true` for a name that is no word of everyday language.
fn is_distinctive(name: &str) -> bool {
    let has_hump =
        name.chars().skip(1).any(char::is_uppercase) && name.chars().any(char::is_lowercase);
    name.len() >= 6 && (name.contains(['_', '-']) || has_hump)
}

/// Returns `true` if the text around a name gives an order.
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

/// Returns `true` if the text calls a word the name of a tool, or sets it apart as one.
fn is_called_tool(text: &str, name: &Range<usize>) -> bool {
    let (before, after) = (&text[..name.start], &text[name.end..]);
    let is_quoted = before.ends_with(['`', '\'', '"']) && after.starts_with(['`', '\'', '"']);
    let after = after.trim_start_matches(['`', '\'', '"', ' ']);
    after.starts_with("tool")
        || is_quoted && before.trim_end_matches(['`', '\'', '"', ' ']).ends_with("tool")
}

/// Returns the end of at most `count` bytes before or after a byte, at a character.
pub(super) fn around(text: &str, at: usize, count: usize, is_after: bool) -> usize {
    if is_after {
        let far = at.saturating_add(count).min(text.len());
        (far..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
    } else {
        (0..=at.saturating_sub(count)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// Returns a name in the one form that all conventions of writing have in common.
fn convention(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | '.' | '/' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the look of a name: names that cannot be told apart have the same.
fn skeleton(name: &str) -> String {
    let plain: String = Folded::new(name).text.chars().map(|c| latin(c).unwrap_or(c)).collect();
    let plain: String = plain.replace('I', "l");
    convention(&plain)
        .replace("rn", "m")
        .replace("vv", "w")
        .replace(['1', 'i', '|'], "l")
        .replace('0', "o")
}

/// Returns the forms of a name with one letter left out, and itself.
fn shorter(name: &str) -> impl Iterator<Item = String> + use<> {
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

/// Returns `true` if a name is another one with a slip of the pen, such as `send_emial`: one letter
/// more, less, other or swapped with the next, in one long word, and no plural.
fn is_slip(name: &str, other: &str) -> bool {
    let (one, two) = (words(name), words(other));
    if one.len() != two.len() {
        return false;
    }
    let mut apart = one.iter().zip(&two).filter(|(a, b)| a != b);
    let (Some((a, b)), None) = (apart.next(), apart.next()) else { return false };
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Letters in another order make a word less often than another letter does.
    let min = if a.len() == b.len() && is_swapped(&a, &b) { MIN_WORD - 1 } else { MIN_WORD };
    let is_long = a.len().min(b.len()) >= min;
    let is_plural = |a: &[char], b: &[char]| a.strip_suffix(&['s']).is_some_and(|a| a == b);
    let has_digit = a.iter().chain(&b).any(char::is_ascii_digit);
    is_long && !has_digit && !is_plural(&a, &b) && !is_plural(&b, &a) && is_one_slip(&a, &b)
}

/// Returns `true` if two words differ by one letter, or by two neighbors in the other order.
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

/// Returns `true` if two words have the same letters in another order.
fn is_swapped(a: &[char], b: &[char]) -> bool {
    let sorted = |word: &[char]| {
        let mut word = word.to_vec();
        word.sort_unstable();
        word
    };
    sorted(a) == sorted(b)
}

/// Returns the words of a name, in lower case.
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

/// Returns the bytes of the first word that has Latin letters, and others that look like such, and none
/// else.
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
        Names::new(servers).looks_like(1, name)
    }

    #[test]
    fn a_name_is_taken_for_another_by_its_look_or_by_one_slip() {
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
    fn words_of_two_scripts_are_told_from_words_of_two_languages() {
        assert_eq!(mixed("a sеnd b"), Some(2..7));
        for text in ["µs", "API-ключ", "Grüße", "JSONом", "Слово", "α-test", "plain"]
        {
            assert_eq!(mixed(text), None, "{text}");
        }
    }
}
