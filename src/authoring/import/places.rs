//! Where a client's file has servers, and whose file it is.

use std::borrow::Cow;

use crate::authoring::client_files::ClientProgram;
use crate::authoring::import::block::Input;
use crate::authoring::import::nodes::{entries, has_objects, is_object};
use crate::authoring::import::{Grade, ImportFinding, Source};
use crate::config::syntax::document::{Node, positions};
use crate::config::syntax::reader::{Located, listed};

/// Where the description of a toolbox comes from.
#[derive(Clone, Debug)]
pub(super) enum Description {
    /// A person wrote it, or has seen it.
    Written(String),
    /// It has to be made of the name of the client.
    Client(&'static str),
}

/// The keys that lead to a client's servers, as they are written.
pub(super) fn keys(program: &ClientProgram) -> String {
    program.servers.join(".")
}

/// Servers that stand together in a file.
pub(super) struct Place<'a> {
    pub(super) name: String,
    pub(super) description: Description,
    pub(super) servers: Vec<(Located<String>, Node<'a>)>,
    /// The prefix of the names of its primitives, where the file has one.
    pub(super) namespace: Option<String>,
    /// `true` if it is a block at the top of the file.
    pub(super) is_top: bool,
    /// The folder these servers belong to, where the file says so.
    pub(super) folder: Option<String>,
}

pub(super) fn places<'a>(root: &Node<'a>, client: &Client) -> Vec<Place<'a>> {
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
pub(super) fn at_the_top<'a>(root: &Node<'a>) -> Option<Vec<(Located<String>, Node<'a>)>> {
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
pub(super) fn named<'a>(list: &Node<'a>) -> Vec<(Located<String>, Node<'a>)> {
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

/// Returns the inputs that VS Code asks its user for, to be put into servers' blocks.
pub(super) fn inputs(root: &Node<'_>) -> Vec<Input> {
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

/// Returns `true` if this is something that a client brings along, and no server.
pub(super) fn is_part_of_its_client(node: &Node<'_>) -> bool {
    let inner = node.get("config").filter(is_object);
    let kind = inner.as_ref().unwrap_or(node).get("type");
    let kind = kind.as_ref().and_then(|kind| kind.value.as_string_lit());
    kind.is_some_and(|kind| {
        matches!(&*kind.value, "builtin" | "platform" | "frontend" | "inline_python")
    })
}

/// Returns remarks on what a client brings along.
pub(super) fn of_the_client(
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

/// The program that wrote a file.
pub(super) struct Client {
    /// The name for a toolbox of its servers.
    pub(super) name: String,
    /// Its name as people say it.
    pub(super) title: &'static str,
    /// The entry of the table of clients about it.
    pub(super) program: Option<&'static ClientProgram>,
}

impl Client {
    /// The client that keeps its servers in a file of this name.
    pub(super) fn of(file: &str) -> Self {
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
