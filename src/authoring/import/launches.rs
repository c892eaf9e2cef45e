//! The servers and settings of a configuration as its file has them, with variables that are not
//! expanded, for whoever writes them elsewhere.

use std::path::Path;

use jsonc_parser::cst::CstInputValue;
use serde_json::{Map, Value};

use crate::authoring::import::block::{self, Block};
use crate::authoring::import::{KeepSecrets, Source};
use crate::config::Dialect;
use crate::config::dialect::is_toml;
use crate::config::keys::oauth::RawOAuth;
use crate::config::keys::raw::{RawConfig, RawServer};
use crate::config::keys::server::Means;
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::reader::{Located, Reader};

/// The blocks of servers, in our own words.
#[derive(Debug, Default)]
pub struct Launches {
    /// The servers in toolboxes, by toolbox and name.
    placed: Vec<(String, String, Map<String, Value>)>,
    /// The servers that stand alone.
    alone: Vec<(String, Map<String, Value>)>,
    /// The rest of the file, in keys that the `_config.yaml` of a catalog has too.
    pub settings: Map<String, Value>,
    /// The keys of what it says besides, which is nowhere in a catalog.
    pub elsewhere: Vec<String>,
}

impl Launches {
    /// Finds them; there are none in what cannot be read.
    pub fn of(source: &Source) -> Self {
        let file = Path::new(&source.file);
        let text = document::without_mark(&source.text);
        let tree = if is_toml(file) { document::toml::parse(text) } else { document::parse(text) };
        let Ok(tree) = tree else { return Self::default() };
        let root = Node::root(&tree);
        let dialect = Dialect::of(file, &root);
        let mut reader = dialect.reader(None).keeping_references();
        let Some(raw) = dialect.read(&root, None, &mut reader) else { return Self::default() };
        let (settings, elsewhere) = settings(&root, dialect, &mut reader);
        let RawConfig { toolboxes, mcp_servers, categories, .. } = raw;
        let mut placed = Vec::new();
        for (toolbox, raw) in toolboxes.unwrap_or_default().0 {
            let servers = blocks(raw.mcp_servers.unwrap_or_default(), &mut reader);
            let servers = servers.into_iter();
            placed.extend(servers.map(|(name, block)| (toolbox.value.clone(), name, block)));
        }
        let alone = blocks(mcp_servers.unwrap_or_default(), &mut reader);
        for (category, raw) in categories.unwrap_or_default().0 {
            let server =
                raw.server.and_then(|server| alone.iter().find(|(n, _)| *n == server.value));
            if let Some((name, block)) = server {
                placed.push((category.value, name.clone(), block.clone()));
            }
        }
        Self { placed, alone, settings, elsewhere }
    }

    /// All texts in it.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let placed = self.placed.iter().map(|(_, _, block)| block);
        let blocks = placed.chain(self.alone.iter().map(|(_, block)| block));
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

    /// The block of a server of a toolbox.
    pub fn at(&self, toolbox: &str, server: &str) -> Option<&Map<String, Value>> {
        let mut placed = self.placed.iter();
        let placed = placed.find(|(of, name, _)| of == toolbox && name == server);
        let alone = || self.alone.iter().find(|(name, _)| name == server);
        placed.map(|(_, _, block)| block).or_else(|| Some(&alone()?.1))
    }
}

/// Returns what a file says beside its servers and how they are presented; and the keys of what a
/// catalog cannot say, or says in other words.
fn settings(
    root: &Node<'_>,
    dialect: Dialect,
    reader: &mut Reader<'_>,
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
                settings.insert(key.to_owned(), reader.json(&node));
            }
            key => elsewhere.push(key.to_owned()),
        }
    }
    (settings, elsewhere)
}

fn blocks(
    servers: Entries<RawServer>,
    reader: &mut Reader<'_>,
) -> Vec<(String, Map<String, Value>)> {
    let block = |(name, raw): (Located<String>, RawServer)| {
        let means = Means::of(&raw, &name, reader)?;
        let references = references(&raw, reader);
        let (block, _) =
            Block::new(raw, means, &block::Dialect::default(), ("", &mut KeepSecrets))?;
        let mut block = value(block.into_value());
        for (place, name, reference) in references {
            if let Some(members) = block.pointer_mut(&place).and_then(Value::as_object_mut) {
                members.insert(name, reference);
            }
        }
        match block {
            Value::Object(block) => Some((name.value, block)),
            _ => None,
        }
    };
    servers.0.into_iter().filter_map(block).collect()
}

/// The values of a server that its entry refers to: the place in the entry of the object that each stands in,
/// its name, and the reference.
fn references(raw: &RawServer, reader: &Reader<'_>) -> Vec<(String, String, Value)> {
    let env = raw.env.iter().flat_map(|env| &env.0);
    let env = env.map(|(name, _)| ("/env".to_owned(), name.value.as_str(), &name.spot));
    let headers = raw.headers.iter().flat_map(|headers| &headers.0);
    let headers = headers.map(|(name, _)| ("/headers".to_owned(), name.value.as_str(), &name.spot));
    let oauth = raw.oauth.iter().flat_map(RawOAuth::secrets);
    let oauth = oauth.map(|(place, key, spot)| (format!("/oauth{place}"), key, spot));
    let all = env.chain(headers).chain(oauth);
    all.filter_map(|(place, name, spot)| {
        Some((place, name.to_owned(), reader.written(spot)?.clone()))
    })
    .collect()
}

pub(super) fn value(written: CstInputValue) -> Value {
    match written {
        CstInputValue::Null => Value::Null,
        CstInputValue::Bool(flag) => flag.into(),
        CstInputValue::Number(text) => serde_json::from_str(&text).unwrap_or_default(),
        CstInputValue::String(text) => text.into(),
        CstInputValue::Array(values) => values.into_iter().map(value).collect(),
        CstInputValue::Object(members) => {
            members.into_iter().map(|(key, written)| (key, value(written))).collect()
        }
    }
}
