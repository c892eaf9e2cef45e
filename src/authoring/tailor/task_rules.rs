//! The rules that map tasks to tools. They are read from a separate file or from
//! `taskBasedToolSelection` in the full configuration.

use crate::authoring::import::SourceFile;
use crate::authoring::tailor::SelectionReason;
use crate::authoring::tailor::task_words::{TaskWords, is_in_name};
use mcp_workbench_config::Dialect;
use mcp_workbench_config::sections::task_rules::{RawServiceType, RawTaskPattern, RawTaskRules};
use mcp_workbench_config::syntax::document::{self, Node};
use mcp_workbench_config::syntax::finding::{ConfigReport, Severity};
use mcp_workbench_config::syntax::objects::LocatedMap;
use mcp_workbench_config::syntax::reader::{ConfigReader, Located};
use mcp_workbench_config::syntax::section::FromNode;

const DEFAULT: &str = include_str!("../../../examples/selective/tailor-rules.json");
/// The name of the built-in rules in error messages.
const DEFAULT_FILE: &str = "tailor-rules.json";
/// The keys of the rules in a configuration.
const KEYS: [&str; 2] = ["taskBasedToolSelection", "task_based_tool_selection"];

/// Checked rules. Servers and their tools keep the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskRules {
    base: ServerTools,
    services: Vec<(String, Vec<String>, ServerTools)>,
    patterns: Vec<(String, Vec<String>, ServerTools)>,
}

type ServerTools = Vec<(String, Vec<String>)>;

/// A tool that the rules request for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestedTool {
    pub(super) server: String,
    /// A tool name or a glob.
    pub(super) tool: String,
    pub(super) reasons: Vec<SelectionReason>,
}

impl TaskRules {
    fn builtin() -> Result<Self, ConfigReport> {
        let source = SourceFile { file: DEFAULT_FILE.to_owned(), text: DEFAULT.to_owned() };
        Ok(Self::of(read(&source, Dialect::Native.reader(None))?, &Self::default()))
    }

    /// Reads the rules from `file`, or else from the full configuration. Missing sections come from
    /// the built-in rules.
    /// Returns `true` if neither file has rules.
    pub(super) fn are_builtin(file: Option<&SourceFile>, full: &SourceFile) -> bool {
        file.is_none() && !has_rules(full)
    }

    pub(super) fn parse(
        file: Option<&SourceFile>,
        full: &SourceFile,
    ) -> Result<Self, ConfigReport> {
        let carried = Self::builtin()?;
        match file {
            Some(file) => Ok(Self::of(read(file, Dialect::Native.reader(None))?, &carried)),
            // Warnings were already reported when the full configuration was read, so only errors
            // matter.
            None if has_rules(full) => {
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
        let pattern = |(name, raw): (Located<String>, RawTaskPattern)| {
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

    /// Returns the type of a service, the word of the rule that matched its name, and the tools for
    /// it.
    fn service(&self, name: &str) -> Option<(&str, &str, &ServerTools)> {
        self.services.iter().find_map(|(kind, words, tools)| {
            let word = words.iter().find(|word| is_in_name(word, name))?;
            Some((kind.as_str(), word.as_str(), tools))
        })
    }

    pub(super) fn kinds(&self) -> Vec<&str> {
        self.services.iter().map(|(kind, ..)| kind.as_str()).collect()
    }

    /// Returns `true` if a rule matches the name of a service.
    pub(super) fn knows(&self, service: &str) -> bool {
        self.service(service).is_some()
    }

    /// Returns the tools for a task, in the order of the rules.
    pub(super) fn wanted(&self, task: &str, service: Option<&str>) -> Vec<RequestedTool> {
        let mut wanted = Vec::new();
        add(&mut wanted, &self.base, &SelectionReason::EveryTask);
        if let Some(service) = service
            && let Some((kind, word, tools)) = self.service(service)
        {
            let (kind, word, service) = (kind.to_owned(), word.to_owned(), service.to_owned());
            add(&mut wanted, tools, &SelectionReason::Service { kind, word, service });
        }
        let words = TaskWords::of(task);
        for (pattern, keywords, tools) in &self.patterns {
            let found = keywords.iter().find_map(|keyword| Some((keyword, words.find(keyword)?)));
            if let Some((keyword, found)) = found {
                let (pattern, keyword) = (pattern.clone(), keyword.clone());
                add(&mut wanted, tools, &SelectionReason::Keyword { pattern, keyword, found });
            }
        }
        wanted
    }
}

fn add(wanted: &mut Vec<RequestedTool>, tools: &ServerTools, reason: &SelectionReason) {
    let pairs = tools.iter().flat_map(|(server, tools)| tools.iter().map(move |t| (server, t)));
    for (server, tool) in pairs {
        let same = |other: &&mut RequestedTool| other.server == *server && other.tool == *tool;
        match wanted.iter_mut().find(same) {
            Some(there) if there.reasons.contains(reason) => {}
            Some(there) => there.reasons.push(reason.clone()),
            None => wanted.push(RequestedTool {
                server: server.clone(),
                tool: tool.clone(),
                reasons: vec![reason.clone()],
            }),
        }
    }
}

/// Parses rules. Any error rejects them.
fn read(source: &SourceFile, mut reader: ConfigReader<'_>) -> Result<RawTaskRules, ConfigReport> {
    let refuse = |findings| ConfigReport { file: source.file.clone(), findings };
    let text = document::strip_bom(&source.text);
    let tree = document::parse_jsonc(text).map_err(|finding| refuse(vec![finding]))?;
    let root = Node::root(&tree);
    let inside = KEYS.iter().find_map(|key| root.get(key));
    let raw = RawTaskRules::from_node(&inside.unwrap_or(root), &mut reader);
    let findings = reader.into_findings(text);
    let is_wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
    raw.filter(|_| !is_wrong).ok_or_else(|| refuse(findings))
}

fn has_rules(source: &SourceFile) -> bool {
    let tree = document::parse_jsonc(document::strip_bom(&source.text));
    tree.is_ok_and(|tree| KEYS.iter().any(|key| Node::root(&tree).get(key).is_some()))
}

fn texts(strings: Vec<Located<String>>) -> Vec<String> {
    strings.into_iter().map(|text| text.value).collect()
}

fn tools_of(raw: Option<LocatedMap<Vec<Located<String>>>>) -> ServerTools {
    let entries = raw.unwrap_or_default().0.into_iter();
    entries.map(|(server, tools)| (server.value, texts(tools))).collect()
}
