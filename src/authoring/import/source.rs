//! Reads the servers of a client's file.

use std::path::Path;

use crate::authoring::client_files::TimeoutUnit;
use crate::authoring::import::allowlist::ClientAllowlist;
use crate::authoring::import::entry::{self, ImportedEntry, SignInDoubt};
use crate::authoring::import::grading::grade_findings;
use crate::authoring::import::imported_policy::ImportedPolicy;
use crate::authoring::import::server_groups::{
    SourceClient, ToolboxDescription, builtin_extension_finding, inputs, is_builtin_extension,
    keys, places,
};
use crate::authoring::import::top_level::TopLevelSettings;
use crate::authoring::import::{Grade, ImportFinding, SecretExtractor, SourceFile, client_entry};
use mcp_workbench_config::Dialect;
use mcp_workbench_config::dialect::is_toml;
use mcp_workbench_config::loader::catalog::is_yaml;
use mcp_workbench_config::loader::{toolman, toolman_server};
use mcp_workbench_config::sections::root::RawServer;
use mcp_workbench_config::sections::server::TransportChoice;
use mcp_workbench_config::syntax::document::{self, Node, line_columns};
use mcp_workbench_config::syntax::finding::Severity;
use mcp_workbench_config::syntax::reader::{ConfigReader, Located};
use mcp_workbench_settings::ToolMode;

#[derive(Debug, Default)]
pub(super) struct SourceContents {
    pub(super) groups: Vec<ServerGroup>,
    pub(super) top: Option<TopLevelSettings>,
    pub(super) rules: Option<ImportedPolicy>,
    pub(super) findings: Vec<ImportFinding>,
    /// `true` if the file is readable and has no servers.
    pub(super) has_no_servers: bool,
}

/// A group of servers in a file.
#[derive(Debug)]
pub(super) struct ServerGroup {
    /// The name for a toolbox of these servers.
    pub(super) name: String,
    pub(super) description: ToolboxDescription,
    /// The prefix for the names of the servers' tools, resources and prompts.
    pub(super) namespace: Option<String>,
    /// `true` if each server must become a separate toolbox to keep the file's meaning.
    pub(super) needs_own_toolboxes: bool,
    /// `true` for the top-level servers of the file, false for a project or toolbox.
    pub(super) is_user_level: bool,
    pub(super) servers: Vec<SourceServer>,
}

#[derive(Clone, Debug)]
pub(super) struct SourceServer {
    pub(super) name: String,
    /// The name in its file.
    pub(super) original_name: String,
    pub(super) block: ImportedEntry,
    pub(super) grade: Grade,
    pub(super) may_need_sign_in: Option<SignInDoubt>,
    /// The location of the entry, for later findings.
    pub(super) file: String,
    pub(super) path: String,
    pub(super) position: Option<(usize, usize)>,
}

impl SourceServer {
    pub(super) fn note(
        &self,
        grade: Grade,
        message: String,
        hint: Option<String>,
    ) -> ImportFinding {
        ImportFinding {
            grade,
            file: self.file.clone(),
            path: self.path.clone(),
            position: self.position,
            message,
            hint,
        }
    }
}

/// Reads the servers and settings of a file, and reports the parts that cannot be imported.
pub(super) fn read(source: &SourceFile, secrets: &mut dyn SecretExtractor) -> SourceContents {
    let whole = |message: &str, hint: &str, position| ImportFinding {
        grade: Grade::Unsupported,
        file: source.file.clone(),
        path: String::new(),
        position,
        message: format!("not imported: {message}"),
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    };
    let file = Path::new(&source.file);
    let nothing = |finding| SourceContents { findings: vec![finding], ..SourceContents::default() };
    let text = document::strip_bom(&source.text);
    let tree = if is_toml(file) {
        document::toml::parse(text)
    } else if is_yaml(file) {
        document::yaml::parse(text)
    } else {
        document::parse_jsonc(text)
    };
    let tree = match tree {
        Ok(tree) => tree,
        Err(finding) => {
            let hint = finding.hint.unwrap_or_default();
            return nothing(whole(&finding.message, &hint, finding.position));
        }
    };
    let root = Node::root(&tree);
    if is_toml(file) && (root.get("servers").is_some() || root.get("active_toolsets").is_some()) {
        return toolman(source, text, &root, secrets);
    }
    let dialect = if is_toml(file) || is_yaml(file) {
        Dialect::Client
    } else if toolman_server::is_toolman_server_file(&root) {
        Dialect::ToolmanServer
    } else {
        Dialect::detect(file, &root)
    };
    let mut reader = dialect.reader(None);
    let top = TopLevelSettings::read(&root, dialect, &mut reader);
    let client = SourceClient::of(&source.file);
    let mut findings = grade_findings(source, reader.into_findings(text), false);
    let (rules, notes) = ImportedPolicy::read(source, text, &root, dialect);
    findings.extend(notes);
    let mut reading = SourceReader { source, text, client: &client, secrets };
    let mut groups = Vec::new();
    let places = places(&root, &client);
    if places.is_empty() {
        let hint = match client.program {
            Some(program) => format!("{} stores servers under `{}`", program.title, keys(program)),
            None => "expected `mcpServers`, `servers`, `mcp`, `mcp_servers`, `context_servers`, \
                     `extensions` or `toolboxes`"
                .to_owned(),
        };
        findings.push(whole("no servers found", &hint, None));
    }
    let (inputs, allowed) = (inputs(&root), ClientAllowlist::read(&root));
    for place in places {
        let mut group = ServerGroup {
            name: place.name,
            description: place.description,
            namespace: place.namespace,
            needs_own_toolboxes: top.is_some() && place.is_top,
            is_user_level: place.is_top,
            servers: Vec::new(),
        };
        let dialect = entry::ClientConventions {
            bare_variables: client.program.is_some_and(|program| program.has_bare_variables),
            runs_commands: client.program.is_some_and(|program| program.runs_commands),
            folder: place.folder,
            inputs: inputs.clone(),
            call_timeout: toolman_server::call_timeout(&root),
        };
        let (own, servers): (Vec<_>, Vec<_>) =
            place.servers.into_iter().partition(|(_, node)| is_builtin_extension(node));
        findings.extend(builtin_extension_finding(source, text, &own, &client));
        for (name, node) in servers {
            let refusal = allowed.denial_reason(&name.value);
            match reading.server((name, &node), refusal, &dialect) {
                Ok((found, notes)) => {
                    findings.extend(notes);
                    group.servers.push(found);
                }
                Err(notes) => findings.extend(notes),
            }
        }
        groups.push(group);
    }
    let is_beside_the_point = groups.iter().all(|group| group.servers.is_empty())
        && findings.iter().all(|finding| finding.path.is_empty());
    SourceContents { groups, top, rules, findings, has_no_servers: is_beside_the_point }
}

fn toolman(
    source: &SourceFile,
    text: &str,
    root: &Node<'_>,
    secrets: &mut dyn SecretExtractor,
) -> SourceContents {
    let mut reader = Dialect::Toolman.reader(None);
    let raw = toolman::read(root, None, &mut reader).unwrap_or_default();
    let mut findings = grade_findings(source, reader.into_findings(text), true);
    let mut group = ServerGroup {
        name: "toolman".to_owned(),
        description: ToolboxDescription::Generated("Toolman"),
        namespace: None,
        needs_own_toolboxes: true,
        is_user_level: true,
        servers: Vec::new(),
    };
    let client = SourceClient { name: group.name.clone(), title: "Toolman", program: None };
    let mut reading = SourceReader { source, text, client: &client, secrets };
    for (name, raw) in raw.mcp_servers.unwrap_or_default().0 {
        let dialect = entry::ClientConventions::default();
        match reading.convert(&name, Some(raw), Dialect::Toolman.reader(None), &dialect) {
            Ok((found, notes)) => {
                findings.extend(notes);
                group.servers.push(found);
            }
            Err(notes) => findings.extend(notes),
        }
    }
    let active = raw.active_toolsets.unwrap_or_default().into_iter().map(|glob| glob.value);
    let mode = Some(ToolMode::Activate.as_str().to_owned());
    let top = TopLevelSettings { mode, active: active.collect(), ..TopLevelSettings::default() };
    SourceContents { groups: vec![group], top: Some(top), findings, ..SourceContents::default() }
}

struct SourceReader<'a> {
    source: &'a SourceFile,
    text: &'a str,
    client: &'a SourceClient,
    secrets: &'a mut dyn SecretExtractor,
}

impl SourceReader<'_> {
    /// Converts one server, or reports why it cannot be imported. A `refusal` is the reason why the
    /// client doesn't use it; such a server is imported as disabled.
    fn server(
        &mut self,
        (name, node): (Located<String>, &Node<'_>),
        refusal: Option<&str>,
        dialect: &entry::ClientConventions,
    ) -> Result<(SourceServer, Vec<ImportFinding>), Vec<ImportFinding>> {
        let mut reader = Dialect::Native.reader(None);
        let timeout: Option<TimeoutUnit> = self.client.program.and_then(|program| program.timeout);
        let mut raw = client_entry::server(node, timeout, &mut reader);
        let refusal = refusal.filter(|_| raw.as_ref().is_some_and(|raw| !raw.is_disabled()));
        if let Some(raw) = raw.as_mut().filter(|_| refusal.is_some()) {
            raw.disabled = Some(Located { value: true, location: name.location.clone() });
        }
        let (mut found, mut notes) = self.convert(&name, raw, reader, dialect)?;
        if let Some(refusal) = refusal {
            found.grade = found.grade.max(Grade::Approximate);
            let hint = "remove `\"disabled\": true` to use it";
            let message = format!("disabled: {refusal}");
            notes.push(found.note(Grade::Approximate, message, Some(hint.to_owned())));
        }
        Ok((found, notes))
    }

    /// Converts a server to a native entry, or reports why it cannot be imported.
    fn convert(
        &mut self,
        name: &Located<String>,
        raw: Option<RawServer>,
        mut reader: ConfigReader<'_>,
        dialect: &entry::ClientConventions,
    ) -> Result<(SourceServer, Vec<ImportFinding>), Vec<ImportFinding>> {
        let position = line_columns(self.text, &[name.location.offset]).first().copied();
        let file = self.source.file.clone();
        let place = |grade, message: String, hint| ImportFinding {
            grade,
            file: file.clone(),
            path: name.location.path(),
            position,
            message,
            hint,
        };
        let means =
            match raw.as_ref().and_then(|raw| TransportChoice::select(raw, name, &mut reader)) {
                Some(TransportChoice::Unsupported { reason, hint }) => {
                    let message = format!("not imported: {reason}");
                    return Err(vec![place(Grade::Unsupported, message, Some(hint.to_owned()))]);
                }
                means => means,
            };
        let findings = reader.into_findings(self.text);
        let errors = findings.iter().any(|finding| finding.severity == Severity::Error);
        let block = raw.zip(means).filter(|_| !errors);
        let block = block.and_then(|(raw, means)| {
            ImportedEntry::new(raw, means, dialect, (&name.value, &mut *self.secrets))
        });
        let findings = findings.into_iter();
        let worst = findings.filter(|finding| !errors || finding.severity == Severity::Error);
        let mut notes = grade_findings(self.source, worst.collect(), errors);
        let Some((block, remarks)) = block else {
            if errors {
                return Err(notes);
            }
            let message = "not imported: no command".to_owned();
            return Err(vec![place(Grade::Unsupported, message, None)]);
        };
        let remarks = remarks.into_iter();
        notes.extend(remarks.map(|remark| place(remark.grade, remark.message, remark.hint)));
        let found = SourceServer {
            may_need_sign_in: block.launch.may_need_sign_in(),
            block,
            grade: notes.iter().map(|note| note.grade).max().unwrap_or(Grade::Exact),
            file: self.source.file.clone(),
            path: name.location.path(),
            position,
            original_name: name.value.clone(),
            name: name.value.clone(),
        };
        Ok((found, notes))
    }
}
