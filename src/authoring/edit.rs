//! Adds a server to the text of a configuration, removes one, or sets a text. All other bytes stay the same,
//! comments included.
//!
//! This module finds the object to change, and `object_editor` edits its text. Every edit is
//! verified: the new text must parse to the expected value, or the edit fails.

pub(in crate::authoring) mod object_editor;

use std::path::Path;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::authoring::edit::object_editor::ObjectEditor;
use mcp_workbench_config::dialect::{Dialect, is_toml};
use mcp_workbench_config::is_yaml;
use mcp_workbench_config::loader::catalog;
use mcp_workbench_config::syntax::document::{self, Node, line_columns};
use mcp_workbench_config::syntax::finding::ConfigReport;

/// A configuration to edit.
#[derive(Clone, Copy, Debug)]
pub struct ConfigText<'a> {
    /// The file, as the user named it.
    pub file: &'a Path,
    pub text: &'a str,
}

/// A server to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewServer {
    pub name: String,
    /// The toolbox to add it to, which is created if needed. `None` adds it to the top-level
    /// `mcpServers`, as a separate toolbox.
    pub toolbox: Option<String>,
    /// The description for a new toolbox.
    pub description: Option<String>,
    pub entry: Value,
}

/// A text with a server added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddOutcome {
    pub text: String,
    pub is_new_toolbox: bool,
}

/// A text with a server removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveOutcome {
    pub text: String,
    pub toolbox: String,
    /// `true` if the toolbox had no other server and was removed too.
    pub removed_toolbox: bool,
    /// `true` if the configuration has no other server.
    pub was_last: bool,
    /// Remaining references to the server: key path and 1-based line in the new text.
    pub remaining_references: Vec<(String, usize)>,
}

/// Why a configuration was not edited.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// The file belongs to another program, or its format cannot be edited.
    #[error("cannot edit {owner}: `{file}`")]
    NotEditable {
        file: String,
        /// A description of the program or format, such as "a YAML file".
        owner: String,
    },
    /// The file isn't valid JSON.
    #[error("{}", .0.without_label())]
    Syntax(ConfigReport),
    /// A value that must be an object isn't one. Holds its path, or the file for the top level.
    #[error("`{0}` is not an object")]
    NotAnObject(String),
    /// The toolbox already has a server with this name.
    #[error("toolbox `{toolbox}` already has a server `{server}`")]
    ServerExists { server: String, toolbox: String },
    /// The toolbox of this name is a standalone server, which cannot take another one.
    #[error("cannot add a server to `{0}`: it is a single server in `mcpServers`, not a toolbox")]
    StandaloneServer(String),
    #[error("no server `{wanted}`")]
    ServerNotFound { wanted: String, nearest: Vec<String> },
    #[error("several toolboxes have a server `{wanted}`: {}", .toolboxes.join(", "))]
    Ambiguous { wanted: String, toolboxes: Vec<String> },
    /// The edited text would not parse to the expected value.
    #[error("the edited text would not parse to the expected value")]
    RoundTripFailed,
}

const TOOLBOXES: &str = "toolboxes";
const SERVERS: &str = "mcpServers";

/// Adds `new` to a configuration, and creates its toolbox if needed.
pub fn add_server(source: ConfigText<'_>, new: &NewServer) -> Result<AddOutcome, EditError> {
    let (mark, text) = split_bom(source.text);
    let tree = read(source, text)?;
    let root = Node::root(&tree);
    let mut wanted = Value::from(tree.clone());
    let servers = object(&root, SERVERS)?;
    let toolboxes = object(&root, TOOLBOXES)?;
    let there = |toolbox: &str| EditError::ServerExists {
        server: new.name.clone(),
        toolbox: toolbox.to_owned(),
    };
    let entry = new.entry.clone();
    let (path, value) = match &new.toolbox {
        None => {
            let is_alone = servers.as_ref().is_some_and(|servers| servers.get(&new.name).is_some());
            let is_toolbox = toolboxes.as_ref().is_some_and(|all| all.get(&new.name).is_some());
            if is_alone || is_toolbox {
                return Err(there(&new.name));
            }
            (vec![SERVERS, &new.name], entry)
        }
        Some(toolbox) => {
            if servers.as_ref().is_some_and(|servers| servers.get(toolbox).is_some()) {
                return Err(EditError::StandaloneServer(toolbox.clone()));
            }
            let found = toolboxes.as_ref().and_then(|all| all.get(toolbox));
            let inside = found.as_ref().map(|toolbox| object(toolbox, SERVERS)).transpose()?;
            if inside.flatten().is_some_and(|servers| servers.get(&new.name).is_some()) {
                return Err(there(toolbox));
            }
            (vec![TOOLBOXES, toolbox, SERVERS, &new.name], entry)
        }
    };
    let is_new_toolbox = new.toolbox.is_some() && {
        let toolboxes = wanted.get(TOOLBOXES);
        toolboxes.is_none_or(|all| all.get(path[1]).is_none())
    };
    let description = new.description.as_deref();
    let mut value = value;
    let mut after = insert(text, &root, &path, value.clone(), description)?;
    // Only Modular MCP describes single servers: a description, or its absence, could turn the file
    // into a file of another program.
    let (was, is) = (is_modular(source, text), is_modular(source, &after));
    if let (true, Some(entry)) = (was != is && new.toolbox.is_none(), value.as_object_mut()) {
        if is {
            entry.shift_remove("description");
        } else {
            entry.insert("description".to_owned(), format!("Tools of {}", new.name).into());
        }
        after = insert(text, &root, &path, value.clone(), description)?;
    }
    let text = after;
    insert_value(&mut wanted, &path, value, description);
    check(source, &text, &wanted)?;
    Ok(AddOutcome { text: format!("{mark}{text}"), is_new_toolbox })
}

/// Removes a server, from `toolbox` if several have one of that name. A toolbox without servers is
/// removed as well.
pub fn remove_server(
    source: ConfigText<'_>,
    toolbox: Option<&str>,
    server: &str,
) -> Result<RemoveOutcome, EditError> {
    let (mark, text) = split_bom(source.text);
    let tree = read(source, text)?;
    let mut wanted = Value::from(tree.clone());
    let root = Node::root(&tree);
    let mut places: Vec<(Vec<String>, String)> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let mut look = |path: &[&str], toolbox_name: Option<&str>, servers: &Node<'_>| {
        for name in names(servers) {
            let its_toolbox = toolbox_name.unwrap_or(&name);
            let is_meant = name == server && toolbox.is_none_or(|wanted| wanted == its_toolbox);
            if is_meant && !places.iter().any(|(_, other)| other == its_toolbox) {
                let is_last = toolbox_name.is_some() && names(servers).iter().all(|n| *n == name);
                let path: Vec<&str> = if is_last {
                    path[..2].to_vec()
                } else {
                    path.iter().copied().chain([name.as_str()]).collect()
                };
                let path = path.into_iter().map(str::to_owned);
                places.push((path.collect(), its_toolbox.to_owned()));
            }
            known.push(name);
        }
    };
    if let Some(servers) = object(&root, SERVERS)? {
        look(&[SERVERS], None, &servers);
    }
    if let Some(toolboxes) = object(&root, TOOLBOXES)? {
        for name in names(&toolboxes) {
            let Some(inside) = toolboxes.get(&name) else { continue };
            if let Some(servers) = object(&inside, SERVERS)? {
                look(&[TOOLBOXES, &name, SERVERS], Some(&name), &servers);
            }
        }
    }
    let (path, found) = match places.as_slice() {
        [(path, toolbox)] => (path, toolbox.clone()),
        [] => {
            let near = mcp_workbench_names::nearest(server, known.iter().map(String::as_str), 3);
            let nearest = near.into_iter().map(str::to_owned).collect();
            return Err(EditError::ServerNotFound { wanted: server.to_owned(), nearest });
        }
        several => {
            let toolboxes = several.iter().map(|(_, toolbox)| format!("`{toolbox}`")).collect();
            return Err(EditError::Ambiguous { wanted: server.to_owned(), toolboxes });
        }
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let text = take_out(text, &path)?;
    if let Some((last, above)) = path.split_last() {
        let servers = above.iter().try_fold(&mut wanted, |value, key| value.get_mut(*key));
        if let Some(Value::Object(servers)) = servers {
            servers.shift_remove(*last);
        }
    }
    check(source, &text, &wanted)?;
    let is_left = known.iter().filter(|name| *name == server).count() > 1;
    let mentions = if is_left { Vec::new() } else { mentions(&text, server) };
    let is_toolbox_gone = path.first() == Some(&TOOLBOXES) && path.len() == 2;
    Ok(RemoveOutcome {
        text: format!("{mark}{text}"),
        toolbox: found,
        removed_toolbox: is_toolbox_gone,
        was_last: known.len() == 1,
        remaining_references: mentions,
    })
}

fn is_modular(source: ConfigText<'_>, text: &str) -> bool {
    let tree = document::parse_jsonc(text);
    tree.is_ok_and(|tree| Dialect::detect(source.file, &Node::root(&tree)) == Dialect::Modular)
}

/// Splits off a leading byte order mark.
fn split_bom(text: &str) -> (&str, &str) {
    let rest = document::strip_bom(text);
    (&text[..text.len() - rest.len()], rest)
}

fn read<'a>(source: ConfigText<'_>, text: &'a str) -> Result<ast::Value<'a>, EditError> {
    let file = source.file.display().to_string();
    let not_ours =
        |owner: &str| EditError::NotEditable { file: file.clone(), owner: owner.to_owned() };
    if is_yaml(source.file) || catalog::catalog_root(source.file).is_some() {
        return Err(not_ours("a YAML file"));
    }
    if is_toml(source.file) {
        return Err(not_ours("a Toolman file"));
    }
    let broken =
        |finding| EditError::Syntax(ConfigReport { file: file.clone(), findings: vec![finding] });
    let tree = document::parse_jsonc(text).map_err(broken)?;
    let root = Node::root(&tree);
    if root.value.as_object().is_none() {
        return Err(EditError::NotAnObject(file));
    }
    match Dialect::detect(source.file, &root) {
        Dialect::Native | Dialect::Client | Dialect::Modular => {}
        other => {
            let owner = other
                .program_name()
                .map_or("a catalog folder".to_owned(), |o| format!("a file of {o}"));
            return Err(not_ours(&owner));
        }
    }
    Ok(tree)
}

/// Returns the object under `key`. `null` counts as absent.
fn object<'a>(node: &Node<'a>, key: &str) -> Result<Option<Node<'a>>, EditError> {
    match node.get(key) {
        None => Ok(None),
        Some(found) if found.value.as_object().is_some() => Ok(Some(found)),
        Some(found) => Err(EditError::NotAnObject(found.location.path())),
    }
}

fn names(node: &Node<'_>) -> Vec<String> {
    let properties = node.value.as_object().into_iter().flat_map(|object| &object.properties);
    properties.map(|property| property.name.as_str().to_owned()).collect()
}

/// Adds a value to the text, at the end of the deepest object on its path that exists.
fn insert(
    text: &str,
    root: &Node<'_>,
    path: &[&str],
    value: Value,
    description: Option<&str>,
) -> Result<String, EditError> {
    let mut at = root.clone();
    let mut path = path;
    while let [key, rest @ ..] = path
        && !rest.is_empty()
        && let Some(child) = object(&at, key)?
    {
        (at, path) = (child, rest);
    }
    let [key, rest @ ..] = path else { return Err(EditError::RoundTripFailed) };
    let object = at.value.as_object().ok_or(EditError::RoundTripFailed)?;
    let value = nested(rest, value, description);
    Ok(ObjectEditor::of(text, object).append(key, &value))
}

/// Wraps `value` in objects for the keys of `path`. A new toolbox gets `description`.
fn nested(path: &[&str], value: Value, description: Option<&str>) -> Value {
    let mut value = value;
    for (depth, key) in path.iter().enumerate().rev() {
        let mut members = Map::new();
        // `mcpServers` with one key below it is the server map of a toolbox.
        let is_toolbox = *key == SERVERS && path.len() - depth == 2;
        if let (true, Some(description)) = (is_toolbox, description) {
            members.insert("description".to_owned(), description.into());
        }
        members.insert((*key).to_owned(), value);
        value = Value::Object(members);
    }
    value
}

fn insert_value(whole: &mut Value, path: &[&str], value: Value, description: Option<&str>) {
    let [key, rest @ ..] = path else { return };
    let Value::Object(members) = whole else { return };
    match members.get_mut(*key) {
        Some(inner) if !rest.is_empty() => insert_value(inner, rest, value, description),
        _ => _ = members.insert((*key).to_owned(), nested(rest, value, description)),
    }
}

/// Sets the member at `path` to a text, replacing another value.
pub fn set_text(source: ConfigText<'_>, path: &[&str], value: &str) -> Result<String, EditError> {
    let (mark, text) = split_bom(source.text);
    let mut wanted = Value::from(read(source, text)?);
    let (_, above) = path.split_last().ok_or(EditError::RoundTripFailed)?;
    let above: Vec<String> = above.iter().map(|key| format!("/{key}")).collect();
    let is_there = wanted.pointer(&above.concat()).is_some();
    let text = if is_there { take_out(text, path)? } else { text.to_owned() };
    let tree = document::parse_jsonc(&text).map_err(|_| EditError::RoundTripFailed)?;
    let value = Value::from(value);
    let after = insert(&text, &Node::root(&tree), path, value.clone(), None)?;
    insert_value(&mut wanted, path, value, None);
    check(source, &after, &wanted)?;
    Ok(format!("{mark}{after}"))
}

/// Removes the key at `path` from the text, including all duplicates.
fn take_out(text: &str, path: &[&str]) -> Result<String, EditError> {
    let (last, above) = path.split_last().ok_or(EditError::RoundTripFailed)?;
    let mut text = text.to_owned();
    loop {
        let next = {
            let tree = document::parse_jsonc(&text).map_err(|_| EditError::RoundTripFailed)?;
            let mut at = Node::root(&tree);
            for key in above {
                at = at.get(key).ok_or(EditError::RoundTripFailed)?;
            }
            let object = at.value.as_object().ok_or(EditError::RoundTripFailed)?;
            let is_it = |property: &ast::ObjectProp<'_>| property.name.as_str() == *last;
            let Some(index) = object.properties.iter().position(is_it) else { break };
            ObjectEditor::of(&text, object).remove(index)
        };
        text = next;
    }
    Ok(text)
}

/// Checks that `text` parses to `wanted` and can still be edited.
fn check(source: ConfigText<'_>, text: &str, wanted: &Value) -> Result<(), EditError> {
    let is_so = |tree: ast::Value<'_>| Value::from(tree) == *wanted;
    if document::parse_jsonc(text).is_ok_and(is_so) && read(source, text).is_ok() {
        Ok(())
    } else {
        Err(EditError::RoundTripFailed)
    }
}

/// Finds references to a server outside the server maps: its bare name, or the prefix of
/// `server:tool`.
fn mentions(text: &str, server: &str) -> Vec<(String, usize)> {
    let Ok(tree) = document::parse_jsonc(text) else { return Vec::new() };
    let mut found = Vec::new();
    walk(&Node::root(&tree), server, &mut found);
    let mut found: Vec<(usize, String)> =
        found.into_iter().map(|(path, offset)| (offset, path)).collect();
    found.sort();
    let offsets: Vec<usize> = found.iter().map(|(offset, _)| *offset).collect();
    let lines = line_columns(text, &offsets).into_iter().map(|(line, _)| line);
    found.into_iter().map(|(_, path)| path).zip(lines).collect()
}

fn walk(node: &Node<'_>, server: &str, found: &mut Vec<(String, usize)>) {
    let is_it = |text: &str| {
        let text = text.trim_start_matches(['!', '-']);
        let text = text.rsplit_once('/').map_or(text, |(_, last)| last);
        text.strip_prefix(server).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    if let Some(object) = node.value.as_object() {
        for property in &object.properties {
            let (key, child) = (property.name.as_str(), node.child(property));
            match key {
                // Keys here name other servers, and these texts are prose.
                SERVERS | TOOLBOXES | "description" | "$schema" => {}
                key if is_it(key) => found.push((child.location.path(), property.start())),
                _ => walk(&child, server, found),
            }
        }
    } else if let Some(text) = node.value.as_string_lit() {
        if is_it(&text.value) {
            found.push((node.location.path(), node.location.offset));
        }
    } else {
        for element in node.elements() {
            walk(&element, server, found);
        }
    }
}

/// Builds the entry of a stdio server.
pub fn command_entry(command: &[String], env: &[(String, String)]) -> Value {
    let (program, args) = command.split_first().map_or(("", [].as_slice()), |(p, a)| (p, a));
    let mut entry = json!({ "command": program });
    if !args.is_empty() {
        entry["args"] = args.into();
    }
    with_texts(entry, "env", env)
}

/// Builds the entry of an HTTP server.
pub fn url_entry(url: &str, headers: &[(String, String)]) -> Value {
    with_texts(json!({ "url": url }), "headers", headers)
}

fn with_texts(mut entry: Value, key: &str, texts: &[(String, String)]) -> Value {
    for (name, text) in texts {
        entry[key][name] = text.as_str().into();
    }
    entry
}

#[cfg(test)]
mod tests;
