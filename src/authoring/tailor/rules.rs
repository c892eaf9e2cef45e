//! The rules of tailoring: which tools which task wants. They are data, and stand in a file of their
//! own or in the full configuration (`taskBasedToolSelection`).

use crate::authoring::import::Source;
use crate::authoring::tailor::Reason;
use crate::authoring::tailor::words::{Words, is_in_name};
use crate::config::Dialect;
use crate::config::keys::task_rules::{RawPattern, RawServiceType, RawTaskRules};
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::finding::{Report, Severity};
use crate::config::syntax::reader::{Located, Reader};
use crate::config::syntax::section::FromNode;

/// The rules that are used where nobody brings others.
const DEFAULT: &str = include_str!("../../../examples/selective/tailor-rules.json");
/// The name of a file of rules.
const DEFAULT_FILE: &str = "tailor-rules.json";
/// Where a configuration has its own.
const KEYS: [&str; 2] = ["taskBasedToolSelection", "task_based_tool_selection"];

/// Rules that can be used: servers, each with tools, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    base: Tools,
    services: Vec<(String, Vec<String>, Tools)>,
    patterns: Vec<(String, Vec<String>, Tools)>,
}

type Tools = Vec<(String, Vec<String>)>;

/// A tool that the rules want, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) server: String,
    /// A name, or a glob over names.
    pub(super) tool: String,
    pub(super) reasons: Vec<Reason>,
}

impl Rules {
    /// The rules that the executable carries.
    fn carried() -> Result<Self, Report> {
        let source = Source { file: DEFAULT_FILE.to_owned(), text: DEFAULT.to_owned() };
        Ok(Self::of(read(&source, Dialect::Native.reader(None))?, &Self::default()))
    }

    /// The rules in a file, else those in the full configuration; what is not there is as in those
    /// that the executable carries.
    pub(super) fn parse(file: Option<&Source>, full: &Source) -> Result<Self, Report> {
        let carried = Self::carried()?;
        match file {
            Some(file) => Ok(Self::of(read(file, Dialect::Native.reader(None))?, &carried)),
            // The reader of the whole has said what it thinks of them.
            None if are_in(full) => {
                Ok(Self::of(read(full, Dialect::ToolmanServer.reader(None))?, &carried))
            }
            None => Ok(carried),
        }
    }

    fn of(raw: RawTaskRules, rest: &Self) -> Self {
        let RawTaskRules { base_tools, service_types, patterns } = raw;
        let service = |(name, raw): (Located<String>, RawServiceType)| {
            let words = raw.words.map_or_else(|| vec![name.value.clone()], texts);
            (name.value, words, tools_of(raw.additional_tools))
        };
        let pattern = |(name, raw): (Located<String>, RawPattern)| {
            (name.value, texts(raw.keywords.unwrap_or_default()), tools_of(raw.additional_tools))
        };
        let services = service_types.map(|all| all.0.into_iter().map(service).collect());
        let patterns = patterns.map(|all| all.0.into_iter().map(pattern).collect());
        Self {
            base: base_tools.map_or_else(|| rest.base.clone(), |tools| tools_of(Some(tools))),
            services: services.unwrap_or_else(|| rest.services.clone()),
            patterns: patterns.unwrap_or_else(|| rest.patterns.clone()),
        }
    }

    /// The kind of a service of this name, and the word that says so.
    fn service(&self, name: &str) -> Option<(&str, &str, &Tools)> {
        self.services.iter().find_map(|(kind, words, tools)| {
            let word = words.iter().find(|word| is_in_name(word, name))?;
            Some((kind.as_str(), word.as_str(), tools))
        })
    }

    /// The kinds of services that there are rules for.
    pub(super) fn kinds(&self) -> Vec<&str> {
        self.services.iter().map(|(kind, ..)| kind.as_str()).collect()
    }

    /// Returns `true` if there is a rule for a service of this name.
    pub(super) fn knows(&self, service: &str) -> bool {
        self.service(service).is_some()
    }

    /// Returns what a task wants, in the order of the rules.
    pub(super) fn wanted(&self, task: &str, service: Option<&str>) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        add(&mut wanted, &self.base, &Reason::EveryTask);
        if let Some(service) = service
            && let Some((kind, word, tools)) = self.service(service)
        {
            let (kind, word, service) = (kind.to_owned(), word.to_owned(), service.to_owned());
            add(&mut wanted, tools, &Reason::Service { kind, word, service });
        }
        let words = Words::of(task);
        for (pattern, keywords, tools) in &self.patterns {
            let found = keywords.iter().find_map(|keyword| Some((keyword, words.find(keyword)?)));
            if let Some((keyword, found)) = found {
                let (pattern, keyword) = (pattern.clone(), keyword.clone());
                add(&mut wanted, tools, &Reason::Keyword { pattern, keyword, found });
            }
        }
        wanted
    }
}

fn add(wanted: &mut Vec<Wanted>, tools: &Tools, reason: &Reason) {
    let pairs = tools.iter().flat_map(|(server, tools)| tools.iter().map(move |t| (server, t)));
    for (server, tool) in pairs {
        let same = |other: &&mut Wanted| other.server == *server && other.tool == *tool;
        match wanted.iter_mut().find(same) {
            Some(there) if there.reasons.contains(reason) => {}
            Some(there) => there.reasons.push(reason.clone()),
            None => wanted.push(Wanted {
                server: server.clone(),
                tool: tool.clone(),
                reasons: vec![reason.clone()],
            }),
        }
    }
}

/// Reads rules, of which nothing may be wrong.
fn read(source: &Source, mut reader: Reader<'_>) -> Result<RawTaskRules, Report> {
    let refuse = |findings| Report { file: source.file.clone(), findings };
    let text = document::without_mark(&source.text);
    let tree = document::parse(text).map_err(|finding| refuse(vec![finding]))?;
    let root = Node::root(&tree);
    let inside = KEYS.iter().find_map(|key| root.get(key));
    let raw = RawTaskRules::from_node(&inside.unwrap_or(root), &mut reader);
    let findings = reader.into_findings(text);
    let is_wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
    raw.filter(|_| !is_wrong).ok_or_else(|| refuse(findings))
}

/// Returns `true` if a configuration brings rules of its own.
fn are_in(source: &Source) -> bool {
    let tree = document::parse(document::without_mark(&source.text));
    tree.is_ok_and(|tree| KEYS.iter().any(|key| Node::root(&tree).get(key).is_some()))
}

fn texts(strings: Vec<Located<String>>) -> Vec<String> {
    strings.into_iter().map(|text| text.value).collect()
}

fn tools_of(raw: Option<Entries<Vec<Located<String>>>>) -> Tools {
    let entries = raw.unwrap_or_default().0.into_iter();
    entries.map(|(server, tools)| (server.value, texts(tools))).collect()
}
