//! The servers of a client's file, and how its client is called.

use std::path::Path;

use crate::authoring::client_files::Timeout;
use crate::authoring::import::allowed::Allowed;
use crate::authoring::import::block::{self, Block, Doubt};
use crate::authoring::import::category::Top;
use crate::authoring::import::grading::graded;
use crate::authoring::import::places::{
    Client, Description, inputs, is_part_of_its_client, keys, of_the_client, places,
};
use crate::authoring::import::rules::Rules;
use crate::authoring::import::{Grade, HideSecrets, ImportFinding, Source, spelling};
use crate::config::Dialect;
use crate::config::dialect::is_toml;
use crate::config::keys::raw::RawServer;
use crate::config::keys::server::Means;
use crate::config::load::catalog::is_yaml;
use crate::config::load::{toolman, toolman_server};
use crate::config::syntax::document::{self, Node, positions};
use crate::config::syntax::finding::Severity;
use crate::config::syntax::reader::{Located, Reader};
use crate::settings::ToolMode;

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) groups: Vec<Group>,
    /// The part beside its servers.
    pub(super) top: Option<Top>,
    /// Its rules of who may use what.
    pub(super) rules: Option<Rules>,
    /// Findings on what cannot be carried over of it.
    pub(super) findings: Vec<ImportFinding>,
    /// `true` if it can be read and has nothing to do with servers.
    pub(super) is_beside_the_point: bool,
}

/// Servers that stand together in a file.
#[derive(Debug)]
pub(super) struct Group {
    /// The name for a toolbox of them.
    pub(super) name: String,
    /// A description of their purpose in the file, or who they are from.
    pub(super) description: Description,
    /// The prefix of the names of their primitives, where the file has one.
    pub(super) namespace: Option<String>,
    /// `true` if each has to be a toolbox of its own, for the file to mean the same.
    pub(super) is_apart: bool,
    /// `true` if they stand where the file's client keeps its own, and not those of one project.
    pub(super) is_top: bool,
    /// The servers that can be carried over.
    pub(super) servers: Vec<Found>,
}

/// One server that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: String,
    /// Its name in its file.
    pub(super) called: String,
    pub(super) block: Block,
    pub(super) grade: Grade,
    /// The doubt that only a start removes.
    pub(super) doubt: Option<Doubt>,
    /// Where it stands, for what there is to say of it later.
    pub(super) file: String,
    pub(super) path: String,
    pub(super) position: Option<(usize, usize)>,
}

impl Found {
    /// Something to say about this server.
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

/// Finds the servers of a file, and what cannot be carried over of it.
pub(super) fn read(source: &Source, secrets: &mut dyn HideSecrets) -> Contents {
    let whole = |message: &str, hint: &str, position| ImportFinding {
        grade: Grade::Unsupported,
        file: source.file.clone(),
        path: String::new(),
        position,
        message: format!("not carried over: {message}"),
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    };
    let file = Path::new(&source.file);
    let nothing = |finding| Contents { findings: vec![finding], ..Contents::default() };
    let text = document::without_mark(&source.text);
    let tree = if is_toml(file) {
        document::toml::parse(text)
    } else if is_yaml(file) {
        document::yaml::parse(text)
    } else {
        document::parse(text)
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
    } else if toolman_server::is_one(&root) {
        Dialect::ToolmanServer
    } else {
        Dialect::of(file, &root)
    };
    let mut reader = dialect.reader(None);
    let top = Top::read(&root, dialect, &mut reader);
    let client = Client::of(&source.file);
    let mut findings = graded(source, reader.into_findings(text), false);
    let (rules, notes) = Rules::read(source, text, &root, dialect);
    findings.extend(notes);
    let mut reading = Reading { source, text, client: &client, secrets };
    let mut groups = Vec::new();
    let places = places(&root, &client);
    if places.is_empty() {
        let hint = match client.program {
            Some(program) => format!("{} keeps them under `{}`", program.title, keys(program)),
            None => "expected `mcpServers`, `servers`, `mcp`, `mcp_servers`, `context_servers`, \
                     `extensions` or `toolboxes`"
                .to_owned(),
        };
        findings.push(whole("no servers in it", &hint, None));
    }
    let (inputs, allowed) = (inputs(&root), Allowed::read(&root));
    for place in places {
        let mut group = Group {
            name: place.name,
            description: place.description,
            namespace: place.namespace,
            is_apart: top.is_some() && place.is_top,
            is_top: place.is_top,
            servers: Vec::new(),
        };
        let dialect = block::Dialect {
            bare_variables: client.program.is_some_and(|program| program.has_bare_variables),
            runs_commands: client.program.is_some_and(|program| program.runs_commands),
            folder: place.folder,
            inputs: inputs.clone(),
            call_timeout: toolman_server::call_timeout(&root),
        };
        let (own, servers): (Vec<_>, Vec<_>) =
            place.servers.into_iter().partition(|(_, node)| is_part_of_its_client(node));
        findings.extend(of_the_client(source, text, &own, &client));
        for (name, node) in servers {
            let refusal = allowed.refusal(&name.value);
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
    Contents { groups, top, rules, findings, is_beside_the_point }
}

/// Reads a file of Toolman.
fn toolman(
    source: &Source,
    text: &str,
    root: &Node<'_>,
    secrets: &mut dyn HideSecrets,
) -> Contents {
    let mut reader = Dialect::Toolman.reader(None);
    let raw = toolman::read(root, None, &mut reader).unwrap_or_default();
    let mut findings = graded(source, reader.into_findings(text), true);
    let mut group = Group {
        name: "toolman".to_owned(),
        description: Description::Client("Toolman"),
        namespace: None,
        is_apart: true,
        is_top: true,
        servers: Vec::new(),
    };
    let client = Client { name: group.name.clone(), title: "Toolman", program: None };
    let mut reading = Reading { source, text, client: &client, secrets };
    for (name, raw) in raw.mcp_servers.unwrap_or_default().0 {
        let dialect = block::Dialect::default();
        match reading.found(&name, Some(raw), Dialect::Toolman.reader(None), &dialect) {
            Ok((found, notes)) => {
                findings.extend(notes);
                group.servers.push(found);
            }
            Err(notes) => findings.extend(notes),
        }
    }
    let active = raw.active_toolsets.unwrap_or_default().into_iter().map(|glob| glob.value);
    let mode = Some(ToolMode::Activate.as_str().to_owned());
    let top = Top { mode, active: active.collect(), ..Top::default() };
    Contents { groups: vec![group], top: Some(top), findings, ..Contents::default() }
}

/// One file as it is read.
struct Reading<'a> {
    source: &'a Source,
    text: &'a str,
    client: &'a Client,
    secrets: &'a mut dyn HideSecrets,
}

impl Reading<'_> {
    /// Reads one server, or says why it cannot be carried over; where its client does not use it, for
    /// the reason of a `refusal`, it is switched off.
    fn server(
        &mut self,
        (name, node): (Located<String>, &Node<'_>),
        refusal: Option<&str>,
        dialect: &block::Dialect,
    ) -> Result<(Found, Vec<ImportFinding>), Vec<ImportFinding>> {
        let mut reader = Dialect::Native.reader(None);
        let timeout: Option<Timeout> = self.client.program.and_then(|program| program.timeout);
        let mut raw = spelling::server(node, timeout, &mut reader);
        let refusal = refusal.filter(|_| raw.as_ref().is_some_and(|raw| !raw.is_off()));
        if let Some(raw) = raw.as_mut().filter(|_| refusal.is_some()) {
            raw.disabled = Some(Located { value: true, spot: name.spot.clone() });
        }
        let (mut found, mut notes) = self.found(&name, raw, reader, dialect)?;
        if let Some(refusal) = refusal {
            found.grade = found.grade.max(Grade::Approximate);
            let hint = "remove its `\"disabled\": true` if it is to be used";
            let message = format!("switched off: {refusal}");
            notes.push(found.note(Grade::Approximate, message, Some(hint.to_owned())));
        }
        Ok((found, notes))
    }

    /// Puts one server into our words, or says why it cannot be carried over.
    fn found(
        &mut self,
        name: &Located<String>,
        raw: Option<RawServer>,
        mut reader: Reader<'_>,
        dialect: &block::Dialect,
    ) -> Result<(Found, Vec<ImportFinding>), Vec<ImportFinding>> {
        let position = positions(self.text, &[name.spot.offset]).first().copied();
        let file = self.source.file.clone();
        let place = |grade, message: String, hint| ImportFinding {
            grade,
            file: file.clone(),
            path: name.spot.path(),
            position,
            message,
            hint,
        };
        let means = match raw.as_ref().and_then(|raw| Means::of(raw, name, &mut reader)) {
            Some(Means::Unsupported { reason, hint }) => {
                let message = format!("not carried over: {reason}");
                return Err(vec![place(Grade::Unsupported, message, Some(hint.to_owned()))]);
            }
            means => means,
        };
        let findings = reader.into_findings(self.text);
        let errors = findings.iter().any(|finding| finding.severity == Severity::Error);
        let block = raw.zip(means).filter(|_| !errors);
        let block = block.and_then(|(raw, means)| {
            Block::new(raw, means, dialect, (&name.value, &mut *self.secrets))
        });
        let findings = findings.into_iter();
        let worst = findings.filter(|finding| !errors || finding.severity == Severity::Error);
        let mut notes = graded(self.source, worst.collect(), errors);
        let Some((block, remarks)) = block else {
            if errors {
                return Err(notes);
            }
            let message = "not carried over: it has no command".to_owned();
            return Err(vec![place(Grade::Unsupported, message, None)]);
        };
        let remarks = remarks.into_iter();
        notes.extend(remarks.map(|remark| place(remark.grade, remark.message, remark.hint)));
        let found = Found {
            doubt: block.launch.doubt(),
            block,
            grade: notes.iter().map(|note| note.grade).max().unwrap_or(Grade::Exact),
            file: self.source.file.clone(),
            path: name.spot.path(),
            position,
            called: name.value.clone(),
            name: name.value.clone(),
        };
        Ok((found, notes))
    }
}
