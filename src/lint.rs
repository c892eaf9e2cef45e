//! Remarks on definitions: hidden characters, orders to the model, look-alike names, requests for
//! secrets, mentions of other servers' tools.
//!
//! A definition enters a model's context as its server wrote it. [`scan`] checks the definitions of
//! all servers against a table of [`RULES`] and reports passages that a person should see. A remark
//! neither proves nor decides anything, and a text without remarks may still be hostile. Scanning
//! does no I/O, takes time linear in the texts, and returns a bounded result.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::lint::names::ToolNameIndex;
use crate::lint::normalized_text::NormalizedText;
use crate::lint::rule::{Detector, rule_with};
use crate::lint::text::{Role, TextField};
use mcp_workbench_core::catalog::Listing;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_wire::json::RawJson;

mod encoded_text;
mod hidden_chars;
mod names;
mod normalized_text;
mod remark;
mod rule;
#[cfg(test)]
mod tests;
mod text;

pub use crate::lint::remark::{DefinitionKind, Remark, RemarkLocation};
pub use crate::lint::rule::{RULES, RemarkRule, Severity};

/// Maximum number of remarks on one server; further ones are only counted.
pub const MAX_REMARKS: usize = 20;
/// The longest excerpt of a text, in characters.
const MAX_FOUND: usize = 120;
/// The characters shown before a finding.
const BEFORE: usize = 24;

/// The definitions of one server, to be scanned.
#[derive(Debug, Default)]
pub struct ScanInput<'a> {
    pub server: &'a str,
    /// All known variants of the instructions.
    pub instructions: Vec<&'a str>,
    /// Kind, name and JSON of each definition, as its server wrote it. A definition with several
    /// variants has several entries.
    pub entries: Vec<(DefinitionKind, &'a str, &'a RawJson)>,
    /// The names of further tools, which texts and tool names are compared with. Their definitions
    /// aren't scanned.
    pub others: Vec<&'a str>,
}

impl<'a> ScanInput<'a> {
    /// Collects the definitions of a listing.
    pub fn of(server: &'a str, listing: &'a Listing) -> Self {
        let tools =
            listing.tools.iter().map(|tool| (DefinitionKind::Tool, tool.name.as_str(), &tool.raw));
        let prompts =
            listing.prompts.iter().map(|one| (DefinitionKind::Prompt, one.name.as_str(), &one.raw));
        let templates = listing
            .templates
            .iter()
            .map(|one| (DefinitionKind::Template, one.uri.as_str(), &one.raw));
        let resources = listing
            .resources
            .iter()
            .map(|one| (DefinitionKind::Resource, one.uri.as_str(), &one.raw));
        let entries = tools.chain(prompts).chain(templates).chain(resources).collect();
        let instructions = listing.instructions.as_deref().into_iter().collect();
        Self { server, instructions, entries, others: Vec::new() }
    }

    fn tools(&self) -> Vec<&'a str> {
        let tools = self.entries.iter().filter(|(kind, ..)| *kind == DefinitionKind::Tool);
        tools.map(|(_, name, _)| *name).chain(self.others.iter().copied()).collect()
    }
}

/// The remarks on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRemarks {
    pub server: String,
    /// At most [`MAX_REMARKS`], most severe first, then in the order of the definitions.
    pub shown: Vec<Remark>,
    /// The number of further remarks.
    pub omitted_count: usize,
}

/// Scans definitions and returns the remarks on each server, in the order given.
///
/// Tool names are also compared between servers.
pub fn scan(servers: &[ScanInput<'_>]) -> Vec<ServerRemarks> {
    let names = ToolNameIndex::new(servers.iter().map(|server| (server.server, server.tools())));
    let all = servers.iter().enumerate();
    all.map(|(index, server)| of_server(index, server, &names)).collect()
}

fn of_server(index: usize, server: &ScanInput<'_>, names: &ToolNameIndex<'_>) -> ServerRemarks {
    let mut found = RemarkCollector::default();
    for instructions in &server.instructions {
        let words = (*instructions).to_owned();
        let text = TextField { pointer: String::new(), words, role: Role::Prose };
        DefinitionScanner { kind: DefinitionKind::Instructions, name: "", index, names }
            .look(&[text], &mut found);
    }
    for (kind, name, raw) in &server.entries {
        let entry = DefinitionScanner { kind: *kind, name, index, names };
        entry.look(&text::texts(raw), &mut found);
        if *kind == DefinitionKind::Tool {
            entry.compare(&mut found);
        }
    }
    found.prune();
    ServerRemarks { server: server.server.to_owned(), shown: found.kept, omitted_count: found.more }
}

/// Collects remarks, and drops those beyond the limit.
#[derive(Default)]
struct RemarkCollector {
    kept: Vec<Remark>,
    more: usize,
}

impl RemarkCollector {
    fn push(&mut self, remark: Remark) {
        // Variants of a definition often share a remark.
        if self.kept.contains(&remark) {
            return;
        }
        self.kept.push(remark);
        if self.kept.len() >= 8 * MAX_REMARKS {
            self.prune();
        }
    }

    /// Keeps the most severe remarks; the sort is stable, so earlier ones win.
    fn prune(&mut self) {
        self.kept.sort_by_key(|remark| remark.rule.severity);
        self.more += self.kept.len().saturating_sub(MAX_REMARKS);
        self.kept.truncate(MAX_REMARKS);
    }
}

struct DefinitionScanner<'a> {
    kind: DefinitionKind,
    name: &'a str,
    /// The position of its server.
    index: usize,
    names: &'a ToolNameIndex<'a>,
}

impl DefinitionScanner<'_> {
    /// Scans the texts of the definition: at most one remark per rule and text.
    fn look(&self, texts: &[TextField], found: &mut RemarkCollector) {
        let own: HashSet<&str> = texts
            .iter()
            .filter(|text| text.role != Role::Prose)
            .map(|t| t.words.as_str())
            .collect();
        for text in texts {
            let mut add = |looks: Detector, bytes: Range<usize>, means: Option<String>| {
                if let Some(rule) = rule_with(looks) {
                    found.push(self.remark(rule, text, bytes, means));
                }
            };
            for run in hidden_chars::runs(&text.words) {
                add(Detector::Hidden(run.kind), run.bytes, run.says.map(|says| quoted(&says)));
            }
            if let Some(bytes) = names::mixed(&text.words) {
                add(Detector::MixedScripts, bytes, None);
            }
            let decoded = encoded_text::encoded(&text.words).find(|one| is_remarkable(&one.text));
            if let Some(encoded) = decoded {
                add(Detector::Encoded, encoded.bytes, Some(quoted(&encoded.text)));
            }
            let folded = NormalizedText::new(&text.words);
            let place = |bytes: Range<usize>| folded.place(bytes.start)..folded.place(bytes.end);
            if text.role == Role::Prose
                && let Some(mention) = self.names.find_mention(self.index, &folded, &own)
            {
                let looks = if mention.steers { Detector::Steering } else { Detector::Naming };
                let means = format!("a tool of `{}`", mention.server);
                add(looks, place(mention.bytes), Some(means));
            }
            for (rule, bytes) in matches(&folded.text, text.role) {
                found.push(self.remark(rule, text, place(bytes), None));
            }
        }
    }

    fn compare(&self, found: &mut RemarkCollector) {
        let rule = rule_with(Detector::LookAlike);
        let other = self.names.find_lookalike(self.index, self.name);
        if let (Some(rule), Some(other)) = (rule, other) {
            let pointer = "/name".to_owned();
            let text = TextField { pointer, words: self.name.to_owned(), role: Role::Value };
            found.push(self.remark(
                rule,
                &text,
                0..self.name.len(),
                Some(format!("resembles {other}")),
            ));
        }
    }

    fn remark(
        &self,
        rule: &'static RemarkRule,
        text: &TextField,
        bytes: Range<usize>,
        means: Option<String>,
    ) -> Remark {
        let before = &text.words[..bytes.start];
        let place = RemarkLocation {
            kind: self.kind,
            name: self.name.to_owned(),
            pointer: text.pointer.clone(),
            offset: before.chars().count(),
        };
        Remark { rule, location: place, excerpt: excerpt(&text.words, &bytes), explanation: means }
    }
}

fn excerpt(text: &str, bytes: &Range<usize>) -> String {
    let back = text[..bytes.start].char_indices().rev().take(BEFORE).last();
    let from = back.map_or(bytes.start, |(at, _)| at);
    let cut = if from == 0 { "" } else { "…" };
    let mut shown = String::new();
    for (at, c) in text[from..].char_indices() {
        // Show some of the text after the finding, too.
        if shown.chars().count() >= MAX_FOUND || from + at > bytes.end + BEFORE {
            shown.push('…');
            break;
        }
        if matches!(c, '\n' | '\r' | '\t' | ' ') {
            if !shown.ends_with(' ') {
                shown.push(' ');
            }
        } else {
            shown.push_str(&untrusted_text::escape_invisible(c.encode_utf8(&mut [0; 4])));
        }
    }
    format!("{cut}{}", shown.trim_start())
}

fn quoted(text: &str) -> String {
    let start: String = text.chars().take(MAX_FOUND).collect();
    let cut = if start.len() < text.len() { "…" } else { "" };
    format!("decoded: `{}{cut}`", untrusted_text::escape_invisible(&start).trim())
}

fn is_remarkable(text: &str) -> bool {
    matches(&NormalizedText::new(text).text, Role::Prose).next().is_some()
}

/// Returns the first match of each rule in normalized text.
fn matches(
    text: &str,
    role: Role,
) -> impl Iterator<Item = (&'static RemarkRule, Range<usize>)> + '_ {
    static COMPILED: LazyLock<Vec<(&RemarkRule, Regex)>> =
        LazyLock::new(|| RULES.iter().filter_map(|rule| Some((rule, compiled(rule)?))).collect());
    let fitting =
        move |rule: &RemarkRule| matches!(rule.looks, Detector::Patterns(_)) || role == Role::Key;
    COMPILED.iter().filter(move |(rule, _)| fitting(rule)).filter_map(move |(rule, regex)| {
        let found = regex.find(text)?;
        Some((*rule, found.range()))
    })
}

fn compiled(rule: &RemarkRule) -> Option<Regex> {
    let pattern = match rule.looks {
        Detector::Patterns(patterns) => patterns.join("|"),
        Detector::Keys(keys) => format!("^(?:{})$", keys.join("|")),
        _ => return None,
    };
    RegexBuilder::new(&pattern).case_insensitive(true).size_limit(MAX_REGEX).build().ok()
}

/// The memory limit of one regular expression, in bytes.
const MAX_REGEX: usize = 64 << 20;
