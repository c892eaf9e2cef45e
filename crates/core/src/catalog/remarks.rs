//! Remarks on definitions: hidden characters, orders to the model, look-alike names, requests for
//! secrets, talk of other servers' tools.
//!
//! A definition goes into a model's context as its server wrote it. [`remarks`] looks through the
//! definitions of all servers by a table of [`RULES`] and says where something is that a person should
//! see. It proves nothing and decides nothing: a text without a remark may be hostile still. It does no
//! I/O, takes time in proportion to the texts, and what it returns is bounded.

use std::ops::Range;
use std::sync::LazyLock;

use foldhash::HashSet;
use regex::{Regex, RegexBuilder};

use crate::catalog::Listing;
use crate::catalog::remarks::folded::Folded;
use crate::catalog::remarks::names::Names;
use crate::catalog::remarks::rule::{Looks, looking};
use crate::catalog::remarks::text::{Role, Text};
use crate::name::seen;
use crate::raw::Raw;

mod encoded;
mod folded;
mod names;
mod remark;
mod rule;
#[cfg(test)]
mod tests;
mod text;
mod unseen;

pub use crate::catalog::remarks::remark::{Kind, Place, Remark};
pub use crate::catalog::remarks::rule::{RULES, Rule, Severity};

/// The most remarks on one server; further ones are counted.
pub const MAX_REMARKS: usize = 20;
/// The most characters of a text that a remark shows.
const MAX_FOUND: usize = 120;
/// The characters shown before a finding.
const BEFORE: usize = 24;

/// The definitions of one server.
#[derive(Debug, Default)]
pub struct Definitions<'a> {
    /// The name of the server, as remarks have it.
    pub server: &'a str,
    /// Its instructions, in each spelling that is known.
    pub instructions: Vec<&'a str>,
    /// The kind, name and whole text of each definition, as its server wrote it; one of which several
    /// spellings are known stands there several times.
    pub entries: Vec<(Kind, &'a str, &'a Raw)>,
    /// The names of further tools of it: they are known, and nothing else of them is looked at.
    pub others: Vec<&'a str>,
}

impl<'a> Definitions<'a> {
    /// The definitions that a server has listed.
    pub fn of(server: &'a str, listing: &'a Listing) -> Self {
        let tools = listing.tools.iter().map(|tool| (Kind::Tool, tool.name.as_str(), &tool.raw));
        let prompts = listing.prompts.iter().map(|one| (Kind::Prompt, one.name.as_str(), &one.raw));
        let templates =
            listing.templates.iter().map(|one| (Kind::Template, one.uri.as_str(), &one.raw));
        let resources =
            listing.resources.iter().map(|one| (Kind::Resource, one.uri.as_str(), &one.raw));
        let entries = tools.chain(prompts).chain(templates).chain(resources).collect();
        let instructions = listing.instructions.as_deref().into_iter().collect();
        Self { server, instructions, entries, others: Vec::new() }
    }

    /// Returns the names of the tools.
    fn tools(&self) -> Vec<&'a str> {
        let tools = self.entries.iter().filter(|(kind, ..)| *kind == Kind::Tool);
        tools.map(|(_, name, _)| *name).chain(self.others.iter().copied()).collect()
    }
}

/// The remarks on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRemarks {
    /// The name of the server.
    pub server: String,
    /// At most [`MAX_REMARKS`], the most severe ones first, then in the order of its definitions.
    pub shown: Vec<Remark>,
    /// The number of further ones.
    pub more: usize,
}

/// Returns the remarks on servers' definitions, for each server in the order given. Names of tools are
/// compared with those of the other servers.
pub fn remarks(servers: &[Definitions<'_>]) -> Vec<ServerRemarks> {
    let names = Names::new(servers.iter().map(|server| (server.server, server.tools())));
    let all = servers.iter().enumerate();
    all.map(|(place, server)| of_server(place, server, &names)).collect()
}

fn of_server(place: usize, server: &Definitions<'_>, names: &Names<'_>) -> ServerRemarks {
    let mut found = Found::default();
    for instructions in &server.instructions {
        let words = (*instructions).to_owned();
        let text = Text { pointer: String::new(), words, role: Role::Prose };
        Entry { kind: Kind::Instructions, name: "", place, names }.look(&[text], &mut found);
    }
    for (kind, name, raw) in &server.entries {
        let entry = Entry { kind: *kind, name, place, names };
        entry.look(&text::texts(raw), &mut found);
        if *kind == Kind::Tool {
            entry.compare(&mut found);
        }
    }
    found.prune();
    ServerRemarks { server: server.server.to_owned(), shown: found.kept, more: found.more }
}

/// The remarks found so far, of which no more are kept than can be shown.
#[derive(Default)]
struct Found {
    kept: Vec<Remark>,
    more: usize,
}

impl Found {
    fn push(&mut self, remark: Remark) {
        // Another spelling of a definition often has it too.
        if self.kept.contains(&remark) {
            return;
        }
        self.kept.push(remark);
        if self.kept.len() >= 8 * MAX_REMARKS {
            self.prune();
        }
    }

    /// Keeps the most severe ones, and of these the first.
    fn prune(&mut self) {
        self.kept.sort_by_key(|remark| remark.rule.severity);
        self.more += self.kept.len().saturating_sub(MAX_REMARKS);
        self.kept.truncate(MAX_REMARKS);
    }
}

/// One definition, and what it is compared with.
struct Entry<'a> {
    kind: Kind,
    name: &'a str,
    /// The place of its server.
    place: usize,
    names: &'a Names<'a>,
}

impl Entry<'_> {
    /// Looks through the texts of the definition: one remark for each rule and text.
    fn look(&self, texts: &[Text], found: &mut Found) {
        let own: HashSet<&str> = texts
            .iter()
            .filter(|text| text.role != Role::Prose)
            .map(|t| t.words.as_str())
            .collect();
        for text in texts {
            let mut add = |looks: Looks, bytes: Range<usize>, means: Option<String>| {
                if let Some(rule) = looking(looks) {
                    found.push(self.remark(rule, text, bytes, means));
                }
            };
            for run in unseen::runs(&text.words) {
                add(Looks::Hidden(run.kind), run.bytes, run.says.map(|says| quoted(&says)));
            }
            if let Some(bytes) = names::mixed(&text.words) {
                add(Looks::MixedScripts, bytes, None);
            }
            let decoded = encoded::encoded(&text.words).find(|one| is_remarkable(&one.text));
            if let Some(encoded) = decoded {
                add(Looks::Encoded, encoded.bytes, Some(quoted(&encoded.text)));
            }
            let folded = Folded::new(&text.words);
            let place = |bytes: Range<usize>| folded.place(bytes.start)..folded.place(bytes.end);
            if text.role == Role::Prose
                && let Some(mention) = self.names.mentioned(self.place, &folded, &own)
            {
                let looks = if mention.steers { Looks::Steering } else { Looks::Naming };
                let means = format!("a tool of `{}`", mention.server);
                add(looks, place(mention.bytes), Some(means));
            }
            for (rule, bytes) in matches(&folded.text, text.role) {
                found.push(self.remark(rule, text, place(bytes), None));
            }
        }
    }

    /// Compares the name of the tool with those of other servers' tools.
    fn compare(&self, found: &mut Found) {
        let rule = looking(Looks::LookAlike);
        let other = self.names.looks_like(self.place, self.name);
        if let (Some(rule), Some(other)) = (rule, other) {
            let pointer = "/name".to_owned();
            let text = Text { pointer, words: self.name.to_owned(), role: Role::Value };
            found.push(self.remark(rule, &text, 0..self.name.len(), Some(format!("like {other}"))));
        }
    }

    fn remark(
        &self,
        rule: &'static Rule,
        text: &Text,
        bytes: Range<usize>,
        means: Option<String>,
    ) -> Remark {
        let before = &text.words[..bytes.start];
        let place = Place {
            kind: self.kind,
            name: self.name.to_owned(),
            pointer: text.pointer.clone(),
            offset: before.chars().count(),
        };
        Remark { rule, place, found: excerpt(&text.words, &bytes), means }
    }
}

/// Returns what was found in a text with some of what is around it.
fn excerpt(text: &str, bytes: &Range<usize>) -> String {
    let back = text[..bytes.start].char_indices().rev().take(BEFORE).last();
    let from = back.map_or(bytes.start, |(at, _)| at);
    let cut = if from == 0 { "" } else { "…" };
    let mut shown = String::new();
    for (at, c) in text[from..].char_indices() {
        // Some of what follows is shown, too.
        if shown.chars().count() >= MAX_FOUND || from + at > bytes.end + BEFORE {
            shown.push('…');
            break;
        }
        if matches!(c, '\n' | '\r' | '\t' | ' ') {
            if !shown.ends_with(' ') {
                shown.push(' ');
            }
        } else {
            shown.push_str(&seen::escaped(c.encode_utf8(&mut [0; 4])));
        }
    }
    format!("{cut}{}", shown.trim_start())
}

/// Returns a text that was hidden, for a remark.
fn quoted(text: &str) -> String {
    let start: String = text.chars().take(MAX_FOUND).collect();
    let cut = if start.len() < text.len() { "…" } else { "" };
    format!("says `{}{cut}`", seen::escaped(&start).trim())
}

/// Returns `true` if a text that was hidden has orders in it.
fn is_remarkable(text: &str) -> bool {
    matches(&Folded::new(text).text, Role::Prose).next().is_some()
}

/// Returns the first match of each rule in a folded text.
fn matches(text: &str, role: Role) -> impl Iterator<Item = (&'static Rule, Range<usize>)> + '_ {
    static COMPILED: LazyLock<Vec<(&Rule, Regex)>> =
        LazyLock::new(|| RULES.iter().filter_map(|rule| Some((rule, compiled(rule)?))).collect());
    let fitting = move |rule: &Rule| matches!(rule.looks, Looks::Patterns(_)) || role == Role::Key;
    COMPILED.iter().filter(move |(rule, _)| fitting(rule)).filter_map(move |(rule, regex)| {
        let found = regex.find(text)?;
        Some((*rule, found.range()))
    })
}

/// Returns the regular expression of a rule that has one.
fn compiled(rule: &Rule) -> Option<Regex> {
    let pattern = match rule.looks {
        Looks::Patterns(patterns) => patterns.join("|"),
        Looks::Keys(keys) => format!("^(?:{})$", keys.join("|")),
        _ => return None,
    };
    RegexBuilder::new(&pattern).case_insensitive(true).size_limit(MAX_REGEX).build().ok()
}

/// The most memory of one regular expression, in bytes.
const MAX_REGEX: usize = 64 << 20;
