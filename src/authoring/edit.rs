//! Adding a server to the text of a configuration, and taking one out. Everything else stays byte
//! for byte as it is, comments included.
//!
//! `splice` makes the changes of one object's text, this module finds the object. What comes of it is
//! read again and compared with what was wanted, so that no odd text can lose anything.

pub(in crate::authoring) mod splice;

use std::path::Path;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::authoring::edit::splice::Layout;
use crate::config::dialect::{Dialect, is_toml};
use crate::config::is_yaml;
use crate::config::load::catalog;
use crate::config::syntax::document::{self, Node, positions};
use crate::config::syntax::finding::Report;
use crate::name;

/// A configuration that is to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The file as the user named it.
    pub file: &'a Path,
    /// Its content.
    pub text: &'a str,
}

/// A server that is to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// The toolbox that it goes into, which is made where there is none; `None`: it becomes a toolbox
    /// of its own.
    pub toolbox: Option<String>,
    /// The description of the toolbox, if it is made.
    pub description: Option<String>,
    /// Its entry.
    pub entry: Value,
}

/// A text with a server added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The new text.
    pub text: String,
    /// Its toolbox was made too.
    pub is_new_toolbox: bool,
}

/// A text with a server taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The new text.
    pub text: String,
    /// The toolbox that it was in.
    pub toolbox: String,
    /// The toolbox had no other server, and was taken out too.
    pub is_toolbox_gone: bool,
    /// Where it is still named, by keys and lines of the new text.
    pub mentions: Vec<(String, usize)>,
}

/// Why a configuration was not changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// It is a file of another program, or of a kind that cannot be changed.
    #[error("`{file}` is {owner}, which is not changed here")]
    NotOurs {
        /// The file.
        file: String,
        /// The toolbox that it belongs to.
        owner: String,
    },
    /// It is not JSON.
    #[error("{}", .0.body())]
    Broken(Report),
    /// Something that has to be an object is none.
    #[error("`{0}` is not an object")]
    NoObject(String),
    /// There is such a server.
    #[error("there already is a server `{server}` in toolbox `{toolbox}`")]
    AlreadyThere {
        /// The name of the server.
        server: String,
        /// The toolbox that it is in.
        toolbox: String,
    },
    /// A server that is a toolbox of its own has the name of the toolbox.
    #[error("`{0}` is a server that is a toolbox of its own, so that none can be added to it")]
    Alone(String),
    /// There is no such server.
    #[error("there is no server `{wanted}`")]
    NotThere {
        /// The name that was asked for.
        wanted: String,
        /// Names of servers that are like it.
        nearest: Vec<String>,
    },
    /// There are several.
    #[error("there is a server `{wanted}` in several toolboxes: {}", .toolboxes.join(", "))]
    Several {
        /// The name that was asked for.
        wanted: String,
        /// The toolboxes.
        toolboxes: Vec<String>,
    },
    /// The text would say something else than was wanted.
    #[error("this text is written in a way that cannot be changed without losing something")]
    Odd,
}

const TOOLBOXES: &str = "toolboxes";
const SERVERS: &str = "mcpServers";

/// Adds a server.
pub fn add(source: Text<'_>, new: &NewServer) -> Result<Added, EditError> {
    let (mark, text) = split_mark(source.text);
    let tree = read(source, text)?;
    let root = Node::root(&tree);
    let mut wanted = Value::from(tree.clone());
    let servers = object(&root, SERVERS)?;
    let toolboxes = object(&root, TOOLBOXES)?;
    let there = |toolbox: &str| EditError::AlreadyThere {
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
                return Err(EditError::Alone(toolbox.clone()));
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
    let text = insert(text, &root, &path, value.clone(), new.description.as_deref())?;
    insert_value(&mut wanted, &path, value, new.description.as_deref());
    check(source, &text, &wanted)?;
    Ok(Added { text: format!("{mark}{text}"), is_new_toolbox })
}

/// Takes a server out, of `toolbox` where more than one has such a server. A toolbox that has no other
/// server goes with it.
pub fn remove(source: Text<'_>, toolbox: Option<&str>, server: &str) -> Result<Removed, EditError> {
    let (mark, text) = split_mark(source.text);
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
            let near = name::nearest(server, known.iter().map(String::as_str), 3);
            let nearest = near.into_iter().map(str::to_owned).collect();
            return Err(EditError::NotThere { wanted: server.to_owned(), nearest });
        }
        several => {
            let toolboxes = several.iter().map(|(_, toolbox)| format!("`{toolbox}`")).collect();
            return Err(EditError::Several { wanted: server.to_owned(), toolboxes });
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
    Ok(Removed { text: format!("{mark}{text}"), toolbox: found, is_toolbox_gone, mentions })
}

/// The mark before a text that some editors write, and the text.
fn split_mark(text: &str) -> (&str, &str) {
    let rest = document::without_mark(text);
    (&text[..text.len() - rest.len()], rest)
}

/// Reads a file that can be changed.
fn read<'a>(source: Text<'_>, text: &'a str) -> Result<ast::Value<'a>, EditError> {
    let file = source.file.display().to_string();
    let not_ours = |owner: &str| EditError::NotOurs { file: file.clone(), owner: owner.to_owned() };
    if is_yaml(source.file) || catalog::folder_of(source.file).is_some() {
        return Err(not_ours("a YAML file"));
    }
    if is_toml(source.file) {
        return Err(not_ours("a file of Toolman"));
    }
    let broken =
        |finding| EditError::Broken(Report { file: file.clone(), findings: vec![finding] });
    let tree = document::parse(text).map_err(broken)?;
    let root = Node::root(&tree);
    if root.value.as_object().is_none() {
        return Err(EditError::NoObject(file));
    }
    match Dialect::of(source.file, &root) {
        Dialect::Native | Dialect::Client | Dialect::Modular => {}
        other => {
            let owner = other.owner().map_or("a catalog".to_owned(), |o| format!("a file of {o}"));
            return Err(not_ours(&owner));
        }
    }
    Ok(tree)
}

/// The object under a key, if there is one; `null` is as good as absent.
fn object<'a>(node: &Node<'a>, key: &str) -> Result<Option<Node<'a>>, EditError> {
    match node.get(key) {
        None => Ok(None),
        Some(found) if found.value.as_object().is_some() => Ok(Some(found)),
        Some(found) => Err(EditError::NoObject(found.spot.path())),
    }
}

/// The keys of an object.
fn names(node: &Node<'_>) -> Vec<String> {
    let properties = node.value.as_object().into_iter().flat_map(|object| &object.properties);
    properties.map(|property| property.name.as_str().to_owned()).collect()
}

/// Writes a value at the end of the last object on the way to it that is there.
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
    let [key, rest @ ..] = path else { return Err(EditError::Odd) };
    let object = at.value.as_object().ok_or(EditError::Odd)?;
    let value = nested(rest, value, description);
    Ok(Layout::of(text, object).append(key, &value))
}

/// The value under the keys of a path; a toolbox that is made gets its description.
fn nested(path: &[&str], value: Value, description: Option<&str>) -> Value {
    let mut value = value;
    for (depth, key) in path.iter().enumerate().rev() {
        let mut members = Map::new();
        // The servers of a toolbox stand right in it.
        let is_toolbox = *key == SERVERS && path.len() - depth == 2;
        if let (true, Some(description)) = (is_toolbox, description) {
            members.insert("description".to_owned(), description.into());
        }
        members.insert((*key).to_owned(), value);
        value = Value::Object(members);
    }
    value
}

/// Does the same to the value of a text.
fn insert_value(whole: &mut Value, path: &[&str], value: Value, description: Option<&str>) {
    let [key, rest @ ..] = path else { return };
    let Value::Object(members) = whole else { return };
    match members.get_mut(*key) {
        Some(inner) if !rest.is_empty() => insert_value(inner, rest, value, description),
        _ => _ = members.insert((*key).to_owned(), nested(rest, value, description)),
    }
}

/// The text without what a path leads to, however often it is written.
fn take_out(text: &str, path: &[&str]) -> Result<String, EditError> {
    let (last, above) = path.split_last().ok_or(EditError::Odd)?;
    let mut text = text.to_owned();
    loop {
        let next = {
            let tree = document::parse(&text).map_err(|_| EditError::Odd)?;
            let mut at = Node::root(&tree);
            for key in above {
                at = at.get(key).ok_or(EditError::Odd)?;
            }
            let object = at.value.as_object().ok_or(EditError::Odd)?;
            let is_it = |property: &ast::ObjectProp<'_>| property.name.as_str() == *last;
            let Some(index) = object.properties.iter().position(is_it) else { break };
            Layout::of(&text, object).without(index)
        };
        text = next;
    }
    Ok(text)
}

/// Finds out whether a text says what was wanted.
fn check(source: Text<'_>, text: &str, wanted: &Value) -> Result<(), EditError> {
    let is_so = |tree: ast::Value<'_>| Value::from(tree) == *wanted;
    if document::parse(text).is_ok_and(is_so) && read(source, text).is_ok() {
        Ok(())
    } else {
        Err(EditError::Odd)
    }
}

/// Where a server is named besides among servers: as a word, or before the `:` of a tool's name.
fn mentions(text: &str, server: &str) -> Vec<(String, usize)> {
    let Ok(tree) = document::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    walk(&Node::root(&tree), server, &mut found);
    let mut found: Vec<(usize, String)> =
        found.into_iter().map(|(path, offset)| (offset, path)).collect();
    found.sort();
    let offsets: Vec<usize> = found.iter().map(|(offset, _)| *offset).collect();
    let lines = positions(text, &offsets).into_iter().map(|(line, _)| line);
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
                // What is said there is said of other servers, or to people.
                SERVERS | TOOLBOXES | "description" | "$schema" => {}
                key if is_it(key) => found.push((child.spot.path(), property.start())),
                _ => walk(&child, server, found),
            }
        }
    } else if let Some(text) = node.value.as_string_lit() {
        if is_it(&text.value) {
            found.push((node.spot.path(), node.spot.offset));
        }
    } else {
        for element in node.elements() {
            walk(&element, server, found);
        }
    }
}

/// The entry of a server that is started.
pub fn command_entry(command: &[String], env: &[(String, String)]) -> Value {
    let (program, args) = command.split_first().map_or(("", [].as_slice()), |(p, a)| (p, a));
    let mut entry = json!({ "command": program });
    if !args.is_empty() {
        entry["args"] = args.into();
    }
    with_texts(entry, "env", env)
}

/// The entry of a server that is reached over HTTP.
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
