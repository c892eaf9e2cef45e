//! Finds the servers in a client's file, and identifies the client.

use std::borrow::Cow;

use crate::authoring::client_files::ClientApp;
use crate::authoring::import::entry::PromptInput;
use crate::authoring::import::nodes::{has_objects, is_object, object_entries};
use crate::authoring::import::{Grade, ImportFinding, SourceFile};
use mcp_workbench_config::syntax::document::{Node, line_columns};
use mcp_workbench_config::syntax::reader::{Located, quoted_list};

/// The source of a toolbox description.
#[derive(Clone, Debug)]
pub(super) enum ToolboxDescription {
    /// Written or reviewed by a person.
    Written(String),
    /// Generated from the client's title.
    Generated(&'static str),
}

pub(super) fn keys(program: &ClientApp) -> String {
    program.servers.join(".")
}

/// A group of servers in a file.
pub(super) struct RawServerGroup<'a> {
    pub(super) name: String,
    pub(super) description: ToolboxDescription,
    pub(super) servers: Vec<(Located<String>, Node<'a>)>,
    /// The prefix for the names of the servers' tools, resources and prompts.
    pub(super) namespace: Option<String>,
    /// `true` for the servers at the top level of the file.
    pub(super) is_top: bool,
    /// The project directory that the servers belong to.
    pub(super) folder: Option<String>,
}

pub(super) fn places<'a>(root: &Node<'a>, client: &SourceClient) -> Vec<RawServerGroup<'a>> {
    let mut places = Vec::new();
    let object = |node: &Node<'a>, key: &str| node.get(key).filter(is_object);
    let text = |node: &Node<'a>, key: &str| {
        Some(node.get(key)?.value.as_string_lit()?.value.clone().into_owned())
    };
    for (name, toolbox) in root.get("toolboxes").iter().flat_map(object_entries) {
        if let Some(servers) = object(&toolbox, "mcpServers") {
            let written = text(&toolbox, "description");
            places.push(RawServerGroup {
                name: name.value,
                description: written.map_or(
                    ToolboxDescription::Generated(client.title),
                    ToolboxDescription::Written,
                ),
                servers: object_entries(&servers).collect(),
                namespace: text(&toolbox, "namespace"),
                is_top: false,
                folder: None,
            });
        }
    }
    places.extend(top_level_servers(root).map(|servers| RawServerGroup {
        name: client.name.clone(),
        description: ToolboxDescription::Generated(client.title),
        servers,
        namespace: None,
        is_top: true,
        folder: None,
    }));
    for (folder, project) in root.get("projects").iter().flat_map(object_entries) {
        let servers = object(&project, "mcpServers");
        let servers = servers.filter(|servers| object_entries(servers).next().is_some());
        let last = folder.value.rsplit(['/', '\\']).find(|part| !part.is_empty());
        places.extend(servers.map(|servers| RawServerGroup {
            name: format!("{}-{}", client.name, last.unwrap_or("root")),
            description: ToolboxDescription::Generated(client.title),
            servers: object_entries(&servers).collect(),
            namespace: None,
            is_top: false,
            folder: Some(folder.value.clone()),
        }));
    }
    places
}

/// Returns the top-level servers of a client's file. `None` if it has no such key.
pub(super) fn top_level_servers<'a>(root: &Node<'a>) -> Option<Vec<(Located<String>, Node<'a>)>> {
    let object = |node: &Node<'a>, key: &str| node.get(key).filter(is_object);
    // Take only the first one found: next to `mcpServers`, `mcp` holds settings.
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
        return Some(object_entries(&servers).collect());
    }
    let list =
        |node: &Node<'a>, key: &str| node.get(key).filter(|node| !node.elements().is_empty());
    let old = || list(&root.get("experimental")?, "modelContextProtocolServers");
    let servers = list(root, "mcpServers").or_else(old)?;
    Some(servers_of_list(&servers))
}

/// Returns the servers of a list, by their `name`.
pub(super) fn servers_of_list<'a>(list: &Node<'a>) -> Vec<(Located<String>, Node<'a>)> {
    let elements = list.elements().into_iter().enumerate();
    let named = elements.map(|(index, node)| {
        let name =
            node.get("name").and_then(|name| Some(name.value.as_string_lit()?.value.clone()));
        let name = name.map_or_else(|| format!("server-{}", index + 1), Cow::into_owned);
        let key = Located { value: name, location: node.location.clone() };
        // The form of early Continue versions.
        let node = node.get("transport").filter(is_object).unwrap_or(node);
        (key, node)
    });
    named.collect()
}

/// Returns the inputs that VS Code prompts for, which server entries refer to.
pub(super) fn inputs(root: &Node<'_>) -> Vec<PromptInput> {
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
        Some(PromptInput {
            id: text(&node, "id")?,
            description: text(&node, "description"),
            default: text(&node, "default").filter(|_| !is_secret),
        })
    });
    inputs.collect()
}

/// Returns `true` if this is an extension built into the client, not a server.
pub(super) fn is_builtin_extension(node: &Node<'_>) -> bool {
    let inner = node.get("config").filter(is_object);
    let kind = inner.as_ref().unwrap_or(node).get("type");
    let kind = kind.as_ref().and_then(|kind| kind.value.as_string_lit());
    kind.is_some_and(|kind| {
        matches!(&*kind.value, "builtin" | "platform" | "frontend" | "inline_python")
    })
}

pub(super) fn builtin_extension_finding(
    source: &SourceFile,
    text: &str,
    own: &[(Located<String>, Node<'_>)],
    client: &SourceClient,
) -> Option<ImportFinding> {
    let (first, _) = own.first()?;
    let names: Vec<&str> = own.iter().map(|(name, _)| name.value.as_str()).collect();
    let noun = if names.len() == 1 { "a built-in extension" } else { "built-in extensions" };
    Some(ImportFinding {
        grade: Grade::Unsupported,
        file: source.file.clone(),
        path: first.location.path(),
        position: line_columns(text, &[first.location.offset]).first().copied(),
        message: format!(
            "not imported: {} ({noun} of {})",
            quoted_list(&names, "and"),
            client.title
        ),
        hint: None,
    })
}

pub(super) struct SourceClient {
    /// The name for a toolbox of its servers.
    pub(super) name: String,
    pub(super) title: &'static str,
    pub(super) program: Option<&'static ClientApp>,
}

impl SourceClient {
    /// Identifies the client by the path of its file. An unknown client is named after the file.
    pub(super) fn of(file: &str) -> Self {
        if let Some(program) = ClientApp::from_path(file) {
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
