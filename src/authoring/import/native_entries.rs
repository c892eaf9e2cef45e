//! Reads the servers and settings of a configuration as native entries, without expanding
//! variables.

use std::path::Path;

use serde_json::{Map, Value};

use crate::authoring::import::entry::{self, ImportedEntry, LaunchIdentity};
use crate::authoring::import::top_level::cst_to_json;
use crate::authoring::import::{NoExtraction, SourceFile};
use mcp_workbench_config::Dialect;
use mcp_workbench_config::dialect::is_toml;
use mcp_workbench_config::sections::oauth::RawOAuth;
use mcp_workbench_config::sections::root::{RawConfig, RawServer};
use mcp_workbench_config::sections::server::TransportChoice;
use mcp_workbench_config::syntax::document::{self, Node};
use mcp_workbench_config::syntax::objects::LocatedMap;
use mcp_workbench_config::syntax::reader::{ConfigReader, Located};

/// Server entries in native form.
#[derive(Debug, Default)]
pub struct NativeEntries {
    /// Servers in toolboxes, with the name of the toolbox.
    in_toolboxes: Vec<(String, NativeServer)>,
    standalone: Vec<NativeServer>,
    /// The other settings, under keys that a catalog's `_config.yaml` has too.
    pub settings: Map<String, Value>,
    /// Keys that a catalog doesn't support.
    pub unsupported_keys: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct NativeServer {
    pub(super) name: String,
    pub(super) block: Map<String, Value>,
    pub(super) launch: LaunchIdentity,
}

impl NativeEntries {
    /// Reads the entries. A file that cannot be read has none.
    pub fn read(source: &SourceFile) -> Self {
        let file = Path::new(&source.file);
        let text = document::strip_bom(&source.text);
        let tree =
            if is_toml(file) { document::toml::parse(text) } else { document::parse_jsonc(text) };
        let Ok(tree) = tree else { return Self::default() };
        let root = Node::root(&tree);
        let dialect = Dialect::detect(file, &root);
        let mut reader = dialect.reader(None).with_references_preserved();
        let Some(raw) = dialect.read(&root, None, &mut reader) else { return Self::default() };
        let (settings, elsewhere) = settings(&root, dialect, &mut reader);
        let RawConfig { toolboxes, mcp_servers, categories, .. } = raw;
        let mut placed = Vec::new();
        for (toolbox, raw) in toolboxes.unwrap_or_default().0 {
            let servers = blocks(raw.mcp_servers.unwrap_or_default(), &mut reader);
            let servers = servers.into_iter();
            placed.extend(servers.map(|server| (toolbox.value.clone(), server)));
        }
        let alone = blocks(mcp_servers.unwrap_or_default(), &mut reader);
        for (category, raw) in categories.unwrap_or_default().0 {
            let server =
                raw.server.and_then(|server| alone.iter().find(|own| own.name == server.value));
            if let Some(server) = server {
                placed.push((category.value, server.clone()));
            }
        }
        Self { in_toolboxes: placed, standalone: alone, settings, unsupported_keys: elsewhere }
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &NativeServer> {
        self.in_toolboxes.iter().map(|(_, server)| server).chain(&self.standalone)
    }

    /// Returns every string in the entries and settings.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let blocks = self.servers().map(|server| &server.block);
        let mut open: Vec<&Value> = blocks.chain([&self.settings]).flat_map(Map::values).collect();
        std::iter::from_fn(move || {
            loop {
                match open.pop()? {
                    Value::String(text) => return Some(text.as_str()),
                    Value::Array(values) => open.extend(values),
                    Value::Object(members) => open.extend(members.values()),
                    Value::Null | Value::Bool(_) | Value::Number(_) => {}
                }
            }
        })
    }

    /// Returns the entry of a server in a toolbox, or of a standalone server of that name.
    pub fn get(&self, toolbox: &str, server: &str) -> Option<&Map<String, Value>> {
        let mut placed = self.in_toolboxes.iter();
        let placed = placed.find(|(of, own)| of == toolbox && own.name == server);
        let alone = || self.standalone.iter().find(|own| own.name == server);
        placed.map(|(_, own)| own).or_else(alone).map(|own| &own.block)
    }
}

/// Returns the settings of a file apart from its servers, and the keys that a catalog doesn't
/// support under these names.
fn settings(
    root: &Node<'_>,
    dialect: Dialect,
    reader: &mut ConfigReader<'_>,
) -> (Map<String, Value>, Vec<String>) {
    let (mut settings, mut elsewhere) = (Map::new(), Vec::new());
    let properties = root.value.as_object().into_iter().flat_map(|object| &object.properties);
    for property in properties {
        let node = root.child(property);
        match property.name.as_str() {
            "$schema" | "toolMode" | "toolboxes" | "categories" | "mcpServers" | "mcp_servers"
            | "servers" => {}
            _ if node.is_null() || dialect == Dialect::Client => {}
            key if dialect == Dialect::Native && key != "macros" => {
                settings.insert(key.to_owned(), reader.read_json(&node));
            }
            key => elsewhere.push(key.to_owned()),
        }
    }
    (settings, elsewhere)
}

fn blocks(servers: LocatedMap<RawServer>, reader: &mut ConfigReader<'_>) -> Vec<NativeServer> {
    let block = |(name, raw): (Located<String>, RawServer)| {
        let means = TransportChoice::select(&raw, &name, reader)?;
        let references = references(&raw, reader);
        let (block, _) = ImportedEntry::new(
            raw,
            means,
            &entry::ClientConventions::default(),
            ("", &mut NoExtraction),
        )?;
        let launch = block.launch.clone();
        let mut block = cst_to_json(block.into_value());
        for (place, name, reference) in references {
            if let Some(members) = block.pointer_mut(&place).and_then(Value::as_object_mut) {
                members.insert(name, reference);
            }
        }
        match block {
            Value::Object(block) => Some(NativeServer { name: name.value, block, launch }),
            _ => None,
        }
    };
    servers.0.into_iter().filter_map(block).collect()
}

/// Returns the secret references of a server: the JSON pointer of the parent object, the key, and
/// the reference.
fn references(raw: &RawServer, reader: &ConfigReader<'_>) -> Vec<(String, String, Value)> {
    let env = raw.env.iter().flat_map(|env| &env.0);
    let env = env.map(|(name, _)| ("/env".to_owned(), name.value.as_str(), &name.location));
    let headers = raw.headers.iter().flat_map(|headers| &headers.0);
    let headers =
        headers.map(|(name, _)| ("/headers".to_owned(), name.value.as_str(), &name.location));
    let oauth = raw.oauth.iter().flat_map(RawOAuth::secret_fields);
    let oauth = oauth.map(|(place, key, location)| (format!("/oauth{place}"), key, location));
    let auth = raw.auth.iter().flat_map(|auth| auth.value.secret_fields());
    let auth = auth.map(|(key, location)| ("/auth".to_owned(), key, location));
    let all = env.chain(headers).chain(oauth).chain(auth);
    all.filter_map(|(place, name, location)| {
        Some((place, name.to_owned(), reader.reference_json_at(location)?.clone()))
    })
    .collect()
}
