//! Which servers a client's file holds, and how its client is called.

use std::path::Path;

use jsonc_parser::ast::Value;

use crate::config::dialect::is_toml;
use crate::config::document::{self, Node, positions};
use crate::config::finding::{Finding, Severity};
use crate::config::import::block::{self, Block};
use crate::config::import::category::Top;
use crate::config::import::{Grade, ImportFinding, Source};
use crate::config::raw::{RawServer, environment};
use crate::config::reader::{Located, Reader};
use crate::config::server::Means;
use crate::config::{Dialect, ToolMode, toolman, toolman_server};

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) groups: Vec<Group>,
    /// What it says beside its servers.
    pub(super) top: Option<Top>,
    /// What cannot be carried over of it.
    pub(super) findings: Vec<ImportFinding>,
}

/// Servers that stand together in a file.
#[derive(Debug)]
pub(super) struct Group {
    /// The name for a toolbox of them.
    pub(super) name: String,
    /// What the file says they are for, or who they are from.
    pub(super) description: Description,
    /// What goes before the names of their things, where the file says so.
    pub(super) namespace: Option<String>,
    /// Whether each has to be a toolbox of its own, for the file to mean the same.
    pub(super) is_apart: bool,
    /// The servers that can be carried over.
    pub(super) servers: Vec<Found>,
}

/// Where the description of a toolbox comes from.
#[derive(Clone, Debug)]
pub(super) enum Description {
    /// A person wrote it.
    Written(String),
    /// It has to be made of the name of the client.
    Client(&'static str),
}

/// One server that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) block: Block,
    pub(super) grade: Grade,
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
pub(super) fn read(source: &Source) -> Contents {
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
    let tree = if is_toml(file) { document::toml::parse(text) } else { document::parse(text) };
    let tree = match tree {
        Ok(tree) => tree,
        Err(finding) => {
            let hint = finding.hint.unwrap_or_default();
            return nothing(whole(&finding.message, &hint, finding.position));
        }
    };
    let root = Node::root(&tree);
    if is_toml(file) {
        let is_toolman = root.get("servers").is_some() || root.get("active_toolsets").is_some();
        let hint = "write each table `[mcp_servers.NAME]` as a block under `mcpServers`";
        let other = || nothing(whole("TOML is not read", hint, None));
        return if is_toolman { toolman(source, text, &root) } else { other() };
    }
    let dialect = Dialect::of(file, &root);
    let mut reader = dialect.reader(None);
    let top = Top::read(&root, dialect, &mut reader);
    let client = Client::of(&source.file);
    let mut findings = graded(source, reader.into_findings(text), false);
    if dialect == Dialect::ToolmanServer {
        findings.extend(toolman_server::rules(&root).into_iter().map(|key| ImportFinding {
            grade: Grade::Manual,
            path: key.to_owned(),
            ..whole(
                "rules are not merged with what is there",
                "copy what you want of it (`security_settings` has `dangerous_tools` and \
                 `require_confirmation`), or serve the file as it is",
                None,
            )
        }));
    }
    let mut groups = Vec::new();
    let places = places(&root, &client);
    if places.is_empty() {
        let message = "no servers in it";
        let hint = "expected `mcpServers`, `servers`, `mcp`, `context_servers` or `toolboxes`";
        findings.push(whole(message, hint, None));
    }
    for place in places {
        let mut group = Group {
            name: place.name,
            description: place.description,
            namespace: place.namespace,
            is_apart: top.is_some() && place.is_top,
            servers: Vec::new(),
        };
        for (name, node) in entries(&place.servers) {
            let dialect = block::Dialect {
                bare_variables: client.bare_variables,
                folder: place.folder.clone(),
            };
            match server(source, text, (name, &node), &dialect) {
                Ok((found, notes)) => {
                    findings.extend(notes);
                    group.servers.push(found);
                }
                Err(notes) => findings.extend(notes),
            }
        }
        groups.push(group);
    }
    Contents { groups, top, findings }
}

/// Reads a file of Toolman.
fn toolman(source: &Source, text: &str, root: &Node<'_>) -> Contents {
    let mut reader = Reader::of_toml();
    let raw = toolman::read(root, None, &mut reader).unwrap_or_default();
    let mut findings = graded(source, reader.into_findings(text), true);
    let mut group = Group {
        name: "toolman".to_owned(),
        description: Description::Client("Toolman"),
        namespace: None,
        is_apart: true,
        servers: Vec::new(),
    };
    for (name, raw) in raw.mcp_servers.unwrap_or_default().0 {
        let dialect = block::Dialect::default();
        match found(source, text, &name, Some(raw), Reader::of_toml(), &dialect) {
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
    Contents { groups: vec![group], top: Some(top), findings }
}

/// What a reader has found, in words of an import; with `hints`, what it advises too.
fn graded(source: &Source, findings: Vec<Finding>, hints: bool) -> Vec<ImportFinding> {
    let one = |finding: Finding| ImportFinding {
        grade: match finding.severity {
            Severity::Error => Grade::Unsupported,
            Severity::Warning => Grade::Approximate,
        },
        file: source.file.clone(),
        path: finding.path,
        position: finding.position,
        message: match finding.severity {
            Severity::Error => format!("not carried over: {}", finding.message),
            Severity::Warning => finding.message,
        },
        // What a warning advises is done here, or cannot be.
        hint: finding.hint.filter(|_| hints),
    };
    findings.into_iter().map(one).collect()
}

/// One object of servers in a file.
struct Place<'a> {
    name: String,
    description: Description,
    servers: Node<'a>,
    /// What goes before the names of its things, where the file says so.
    namespace: Option<String>,
    /// Whether it is a block at the top of the file.
    is_top: bool,
    /// The folder these servers belong to, where the file says so.
    folder: Option<String>,
}

fn places<'a>(root: &Node<'a>, client: &Client) -> Vec<Place<'a>> {
    let mut places = Vec::new();
    let object = |node: &Node<'a>, key: &str| node.get(key).filter(is_object);
    for (name, toolbox) in root.get("toolboxes").iter().flat_map(entries) {
        if let Some(servers) = object(&toolbox, "mcpServers") {
            let description = toolbox.get("description");
            let written = description.as_ref().and_then(|node| node.value.as_string_lit());
            places.push(Place {
                name: name.value,
                description: written.map_or(Description::Client(client.title), |text| {
                    Description::Written(text.value.clone().into_owned())
                }),
                servers,
                namespace: toolbox
                    .get("namespace")
                    .and_then(|node| Some(node.value.as_string_lit()?.value.clone().into_owned())),
                is_top: false,
                folder: None,
            });
        }
    }
    // Only the first of these that is there: `mcp` beside `mcpServers` holds settings.
    let mcp = object(root, "mcp");
    let servers = object(root, "mcpServers")
        .or_else(|| object(root, "amp.mcpServers"))
        .or_else(|| object(root, "context_servers"))
        .or_else(|| object(root, "servers"))
        .or_else(|| object(mcp.as_ref()?, "servers"))
        .or_else(|| object(root, "mcp.servers"))
        .or(mcp);
    places.extend(servers.map(|servers| Place {
        name: client.name.clone(),
        description: Description::Client(client.title),
        servers,
        namespace: None,
        is_top: true,
        folder: None,
    }));
    for (folder, project) in root.get("projects").iter().flat_map(entries) {
        let servers = object(&project, "mcpServers");
        let servers = servers.filter(|servers| entries(servers).next().is_some());
        let last = folder.value.rsplit(['/', '\\']).find(|part| !part.is_empty());
        places.extend(servers.map(|servers| Place {
            name: format!("{}-{}", client.name, last.unwrap_or("root")),
            description: Description::Client(client.title),
            servers,
            namespace: None,
            is_top: false,
            folder: Some(folder.value.clone()),
        }));
    }
    places
}

fn is_object(node: &Node<'_>) -> bool {
    matches!(node.value, Value::Object(_))
}

/// The keys and values of an object; of what is no object, none.
pub(super) fn entries<'a>(node: &Node<'a>) -> impl Iterator<Item = (Located<String>, Node<'a>)> {
    let properties = node.value.as_object().map(|object| &object.properties);
    let node = node.clone();
    properties.into_iter().flatten().map(move |property| {
        let child = node.child(property);
        let key = Located { value: property.name.as_str().to_owned(), spot: child.spot.clone() };
        (key, child)
    })
}

/// Reads one server, or says why it cannot be carried over.
fn server(
    source: &Source,
    text: &str,
    (name, node): (Located<String>, &Node<'_>),
    dialect: &block::Dialect,
) -> Result<(Found, Vec<ImportFinding>), Vec<ImportFinding>> {
    let mut reader = Reader::new(None);
    let raw = raw_server(node, &mut reader);
    found(source, text, &name, raw, reader, dialect)
}

/// Puts one server into our words, or says why it cannot be carried over.
fn found(
    source: &Source,
    text: &str,
    name: &Located<String>,
    raw: Option<RawServer>,
    mut reader: Reader<'_>,
    dialect: &block::Dialect,
) -> Result<(Found, Vec<ImportFinding>), Vec<ImportFinding>> {
    let position = positions(text, &[name.spot.offset]).first().copied();
    let place = |grade, message: String, hint| ImportFinding {
        grade,
        file: source.file.clone(),
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
    let findings = reader.into_findings(text);
    let errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    let block = raw.zip(means).filter(|_| !errors);
    let block = block.and_then(|(raw, means)| Block::new(raw, means, dialect));
    let findings = findings.into_iter();
    let worst = findings.filter(|finding| !errors || finding.severity == Severity::Error);
    let mut notes = graded(source, worst.collect(), errors);
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
        block,
        grade: notes.iter().map(|note| note.grade).max().unwrap_or(Grade::Exact),
        file: source.file.clone(),
        path: name.spot.path(),
        position,
        name: name.value.clone(),
    };
    Ok((found, notes))
}

/// Reads a server block, also one whose `command` is an object, as Zed writes it.
fn raw_server(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<RawServer> {
    let mut fields = reader.fields(node)?;
    let Some(command) = node.get("command").filter(is_object) else {
        return Some(RawServer::read(&mut fields, reader));
    };
    fields.take_all(|key| key == "command");
    let mut raw = RawServer::read(&mut fields, reader);
    raw.command = command.get("path").and_then(|path| {
        let Located { value, spot } = reader.string(&path)?;
        Some(Located { value: vec![value], spot })
    });
    raw.args = command.get("args").and_then(|node| reader.strings(&node));
    let env = command.get("env").filter(|node| !node.is_null());
    raw.env = env.map(|node| environment(&node, reader));
    Some(raw)
}

/// The program that wrote a file.
struct Client {
    /// The name for a toolbox of its servers.
    name: String,
    /// What people call it.
    title: &'static str,
    /// Whether it expands `$NAME` too.
    bare_variables: bool,
}

impl Client {
    /// The client that keeps its servers in a file of this name.
    fn of(file: &str) -> Self {
        let path = file.replace('\\', "/").to_lowercase();
        let known = KNOWN.iter().find(|(marks, _, _)| marks.iter().any(|mark| path.contains(mark)));
        if let Some((_, name, title)) = known {
            return Self { name: (*name).to_owned(), title, bare_variables: *name == "gemini" };
        }
        let last = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let stem = last.trim_start_matches('.').split('.').next();
        let stem = stem.filter(|stem| !stem.is_empty());
        Self {
            name: stem.unwrap_or("imported").to_owned(),
            title: "another client",
            bare_variables: false,
        }
    }
}

/// What the path of a file contains, the name of its toolbox, and what people call the client.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (&["claude_desktop_config"], "claude-desktop", "Claude Desktop"),
    (&["cline_mcp_settings"], "cline", "Cline"),
    (&[".roo/", "mcp_settings.json"], "roo", "Roo Code"),
    (&["windsurf", ".codeium"], "windsurf", "Windsurf"),
    (&[".cursor"], "cursor", "Cursor"),
    (&[".gemini"], "gemini", "Gemini CLI"),
    (&["opencode"], "opencode", "opencode"),
    (&[".claude.json", ".mcp.json", ".claude/"], "claude-code", "Claude Code"),
    (&["zed/"], "zed", "Zed"),
    (&[".vscode", "code/user", "code - insiders/user"], "vscode", "VS Code"),
];
