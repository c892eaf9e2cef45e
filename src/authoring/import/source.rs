//! The servers of a client's file, and how its client is called.

use std::borrow::Cow;
use std::path::Path;

use jsonc_parser::ast::Value;

use crate::authoring::client_files::{ClientProgram, Timeout};
use crate::authoring::import::block::{self, Block, Doubt, Input};
use crate::authoring::import::category::Top;
use crate::authoring::import::rules::Rules;
use crate::authoring::import::{Grade, HideSecrets, ImportFinding, Source, spelling};
use crate::config::keys::raw::RawServer;
use crate::config::keys::server::Means;
use crate::config::load::catalog::is_yaml;
use crate::config::load::dialect::is_toml;
use crate::config::load::{toolman, toolman_server};
use crate::config::syntax::document::{self, Node, positions};
use crate::config::syntax::finding::{Finding, Severity};
use crate::config::syntax::reader::{Located, Reader, listed};
use crate::config::{Dialect, ToolMode};

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) groups: Vec<Group>,
    /// What it says beside its servers.
    pub(super) top: Option<Top>,
    /// Its rules of who may use what.
    pub(super) rules: Option<Rules>,
    /// What cannot be carried over of it.
    pub(super) findings: Vec<ImportFinding>,
    /// Whether it can be read and has nothing to do with servers.
    pub(super) is_beside_the_point: bool,
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
    /// A person wrote it, or has seen it.
    Written(String),
    /// It has to be made of the name of the client.
    Client(&'static str),
}

/// One server that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) block: Block,
    pub(super) grade: Grade,
    /// What cannot be known before it is started.
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
    let inputs = inputs(&root);
    for place in places {
        let mut group = Group {
            name: place.name,
            description: place.description,
            namespace: place.namespace,
            is_apart: top.is_some() && place.is_top,
            servers: Vec::new(),
        };
        let dialect = block::Dialect {
            bare_variables: client.program.is_some_and(|program| program.has_bare_variables),
            folder: place.folder,
            inputs: inputs.clone(),
            call_timeout: toolman_server::call_timeout(&root),
        };
        let (own, servers): (Vec<_>, Vec<_>) =
            place.servers.into_iter().partition(|(_, node)| is_part_of_its_client(node));
        findings.extend(of_the_client(source, text, &own, &client));
        for (name, node) in servers {
            match reading.server((name, &node), &dialect) {
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

/// The keys that lead to a client's servers, as they are written.
fn keys(program: &ClientProgram) -> String {
    program.servers.join(".")
}

/// Reads a file of Toolman.
fn toolman(
    source: &Source,
    text: &str,
    root: &Node<'_>,
    secrets: &mut dyn HideSecrets,
) -> Contents {
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
    let client = Client { name: group.name.clone(), title: "Toolman", program: None };
    let mut reading = Reading { source, text, client: &client, secrets };
    for (name, raw) in raw.mcp_servers.unwrap_or_default().0 {
        let dialect = block::Dialect::default();
        match reading.found(&name, Some(raw), Reader::of_toml(), &dialect) {
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

/// What a reader has found, in words of an import; with `hints`, what it advises too.
pub(super) fn graded(source: &Source, findings: Vec<Finding>, hints: bool) -> Vec<ImportFinding> {
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

/// Servers that stand together in a file.
struct Place<'a> {
    name: String,
    description: Description,
    servers: Vec<(Located<String>, Node<'a>)>,
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
    let text = |node: &Node<'a>, key: &str| {
        Some(node.get(key)?.value.as_string_lit()?.value.clone().into_owned())
    };
    for (name, toolbox) in root.get("toolboxes").iter().flat_map(entries) {
        if let Some(servers) = object(&toolbox, "mcpServers") {
            let written = text(&toolbox, "description");
            places.push(Place {
                name: name.value,
                description: written
                    .map_or(Description::Client(client.title), Description::Written),
                servers: entries(&servers).collect(),
                namespace: text(&toolbox, "namespace"),
                is_top: false,
                folder: None,
            });
        }
    }
    places.extend(at_the_top(root).map(|servers| Place {
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
            servers: entries(&servers).collect(),
            namespace: None,
            is_top: false,
            folder: Some(folder.value.clone()),
        }));
    }
    places
}

/// The servers at the top of a client's file; `None` where there is no such block.
fn at_the_top<'a>(root: &Node<'a>) -> Option<Vec<(Located<String>, Node<'a>)>> {
    let object = |node: &Node<'a>, key: &str| node.get(key).filter(is_object);
    // Only the first of these that is there: `mcp` beside `mcpServers` holds settings.
    let mcp = object(root, "mcp");
    let servers = object(root, "mcpServers")
        .or_else(|| object(root, "amp.mcpServers"))
        .or_else(|| object(root, "mcp_servers"))
        .or_else(|| object(root, "context_servers"))
        .or_else(|| object(root, "servers"))
        .or_else(|| object(mcp.as_ref()?, "servers"))
        .or_else(|| object(root, "mcp.servers"))
        .or_else(|| mcp.clone().filter(has_objects))
        .or_else(|| object(root, "extensions").filter(has_objects));
    if let Some(servers) = servers {
        return Some(entries(&servers).collect());
    }
    let list =
        |node: &Node<'a>, key: &str| node.get(key).filter(|node| !node.elements().is_empty());
    let old = || list(&root.get("experimental")?, "modelContextProtocolServers");
    let servers = list(root, "mcpServers").or_else(old)?;
    Some(named(&servers))
}

/// The servers of a list, by the names that they give themselves.
fn named<'a>(list: &Node<'a>) -> Vec<(Located<String>, Node<'a>)> {
    let elements = list.elements().into_iter().enumerate();
    let named = elements.map(|(index, node)| {
        let name =
            node.get("name").and_then(|name| Some(name.value.as_string_lit()?.value.clone()));
        let name = name.map_or_else(|| format!("server-{}", index + 1), Cow::into_owned);
        let key = Located { value: name, spot: node.spot.clone() };
        // As Continue once had it.
        let node = node.get("transport").filter(is_object).unwrap_or(node);
        (key, node)
    });
    named.collect()
}

/// What VS Code asks its user for, to be put into servers' blocks.
fn inputs(root: &Node<'_>) -> Vec<Input> {
    let mcp = root.get("mcp");
    let inputs = root.get("inputs").or_else(|| mcp?.get("inputs"));
    let text = |node: &Node<'_>, key: &str| {
        Some(node.get(key)?.value.as_string_lit()?.value.clone().into_owned())
    };
    let elements = inputs.iter().flat_map(Node::elements);
    let inputs = elements.filter_map(|node| {
        let is_secret = node
            .get("password")
            .is_some_and(|flag| flag.value.as_boolean_lit().is_some_and(|flag| flag.value));
        Some(Input {
            id: text(&node, "id")?,
            description: text(&node, "description"),
            default: text(&node, "default").filter(|_| !is_secret),
        })
    });
    inputs.collect()
}

/// Whether this is something that a client brings along, and no server.
fn is_part_of_its_client(node: &Node<'_>) -> bool {
    let inner = node.get("config").filter(is_object);
    let kind = inner.as_ref().unwrap_or(node).get("type");
    let kind = kind.as_ref().and_then(|kind| kind.value.as_string_lit());
    kind.is_some_and(|kind| {
        matches!(&*kind.value, "builtin" | "platform" | "frontend" | "inline_python")
    })
}

/// What there is to say of what a client brings along.
fn of_the_client(
    source: &Source,
    text: &str,
    own: &[(Located<String>, Node<'_>)],
    client: &Client,
) -> Option<ImportFinding> {
    let (first, _) = own.first()?;
    let names: Vec<&str> = own.iter().map(|(name, _)| name.value.as_str()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    Some(ImportFinding {
        grade: Grade::Unsupported,
        file: source.file.clone(),
        path: first.spot.path(),
        position: positions(text, &[first.spot.offset]).first().copied(),
        message: format!(
            "not carried over: {} {verb} a part of {} and no server",
            listed(&names, "and"),
            client.title
        ),
        hint: None,
    })
}

pub(super) fn is_object(node: &Node<'_>) -> bool {
    matches!(node.value, Value::Object(_))
}

/// Whether an object has objects in it and nothing else.
fn has_objects(node: &Node<'_>) -> bool {
    entries(node).all(|(_, value)| is_object(&value))
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

/// One file as it is read.
struct Reading<'a> {
    source: &'a Source,
    text: &'a str,
    client: &'a Client,
    secrets: &'a mut dyn HideSecrets,
}

impl Reading<'_> {
    /// Reads one server, or says why it cannot be carried over.
    fn server(
        &mut self,
        (name, node): (Located<String>, &Node<'_>),
        dialect: &block::Dialect,
    ) -> Result<(Found, Vec<ImportFinding>), Vec<ImportFinding>> {
        let mut reader = Reader::new(None);
        let timeout: Option<Timeout> = self.client.program.and_then(|program| program.timeout);
        let raw = spelling::server(node, timeout, &mut reader);
        self.found(&name, raw, reader, dialect)
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
            name: name.value.clone(),
        };
        Ok((found, notes))
    }
}

/// The program that wrote a file.
struct Client {
    /// The name for a toolbox of its servers.
    name: String,
    /// What people call it.
    title: &'static str,
    /// What is known of it.
    program: Option<&'static ClientProgram>,
}

impl Client {
    /// The client that keeps its servers in a file of this name.
    fn of(file: &str) -> Self {
        if let Some(program) = ClientProgram::of(file) {
            let name = program.id.to_owned();
            return Self { name, title: program.title, program: Some(program) };
        }
        let last = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let stem = last.trim_start_matches('.').split('.').next();
        let stem = stem.filter(|stem| !stem.is_empty());
        let name = stem.unwrap_or("imported").to_owned();
        Self { name, title: "another client", program: None }
    }
}
