//! Lists, adds and removes servers in a client's file. All other bytes stay the same, comments
//! included.
//!
//! Every edit is verified: the new text must parse to the expected value, and a removed entry must
//! survive being restored. Otherwise the edit fails.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::authoring::client_files::{ClientApp, FileSyntax};
use crate::authoring::setup::{ENTRY_NAME, json, toml, yaml};
use mcp_workbench_config::syntax::document;

/// Edits the servers of a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFileEditor {
    pub syntax: FileSyntax,
    /// The top-level key of the servers.
    pub key: &'static str,
    /// `true` if a new servers value must be a list of objects with a `name`.
    pub is_list: bool,
}

/// A server that was removed from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedServer {
    pub name: String,
    /// Its entry as the file had it.
    pub text: String,
}

/// Why a file was not edited.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientEditError {
    /// The file cannot be parsed.
    #[error("invalid file: {0}")]
    Syntax(String),
    /// The layout of the file cannot be edited. Holds the reason and the remedy.
    #[error("{0}")]
    UnsupportedLayout(String),
    /// The edited text would not parse to the expected value.
    #[error("the edited text would not parse to the expected value")]
    RoundTripFailed,
}

impl ClientFileEditor {
    /// Returns the editor for the files of `program`.
    pub fn for_client(program: &ClientApp) -> Self {
        let key = program.servers.first().copied().unwrap_or_default();
        Self { syntax: program.syntax, key, is_list: program.has_list }
    }

    /// Returns the servers in a text, by name.
    pub fn entries(self, text: &str) -> Result<Vec<(String, Value)>, ClientEditError> {
        let value = self.value(text)?;
        match value.get(self.key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(entries)) => {
                Ok(entries.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            Some(Value::Array(entries)) => {
                let named = entries.iter().filter_map(|entry| {
                    Some((entry.get("name")?.as_str()?.to_owned(), without_name(entry)))
                });
                Ok(named.collect())
            }
            Some(_) => Err(ClientEditError::UnsupportedLayout(format!(
                "`{}` has no servers but another value; correct it, then run setup again",
                self.key
            ))),
        }
    }

    /// Says why a file cannot be edited, at the server `name` or as a whole.
    fn explain(self, text: &str, name: Option<&str>, error: ClientEditError) -> ClientEditError {
        if error != ClientEditError::RoundTripFailed {
            return error;
        }
        let key = self.key;
        let name = name.unwrap_or("NAME");
        let reason = match self.syntax {
            FileSyntax::Json if json::has_duplicate(text, key, name) => {
                "the file has several entries of this name; remove all but one, then run setup again"
                    .to_owned()
            }
            FileSyntax::Json => return error,
            FileSyntax::Toml => format!(
                "`{key}` is written with inline tables or dotted keys; write each server as a \
                 table, such as `[{key}.{name}]`, then run setup again"
            ),
            FileSyntax::Yaml => format!(
                "`{key}` is written in one line or with anchors; write each server and each of its \
                 keys on a line of its own, then run setup again"
            ),
        };
        ClientEditError::UnsupportedLayout(reason)
    }

    /// Returns `true` if the client's settings block the workbench's entry, such as the lists of
    /// allowed and excluded servers of Gemini CLI.
    pub fn blocks_workbench(self, text: &str) -> bool {
        let Ok(value) = self.value(text) else { return false };
        let list = |name: &str| value.get("mcp").and_then(|mcp| mcp.get(name)?.as_array());
        let has_us = |list: &Vec<Value>| list.iter().any(|name| name == ENTRY_NAME);
        list("allowed").is_some_and(|list| !has_us(list)) || list("excluded").is_some_and(has_us)
    }

    /// Returns the text with a server added after the others.
    pub fn insert(self, text: &str, name: &str, entry: &Value) -> Result<String, ClientEditError> {
        self.try_insert(text, name, entry).map_err(|error| self.explain(text, None, error))
    }

    fn try_insert(self, text: &str, name: &str, entry: &Value) -> Result<String, ClientEditError> {
        let (mark, rest) = split_mark(text);
        let is_list = self.is_list_in(rest)?;
        let new = match self.syntax {
            FileSyntax::Json => json::insert(rest, self.key, name, entry),
            FileSyntax::Toml => toml::insert(rest, self.key, name, entry),
            FileSyntax::Yaml => yaml::insert(rest, (self.key, is_list), name, entry),
        };
        let new = new.ok_or(ClientEditError::RoundTripFailed)?;
        self.check(rest, &new, |value| add(value, (self.key, is_list), name, entry.clone()))?;
        Ok(format!("{mark}{new}"))
    }

    /// Returns the text without the server `name`, and the removed server.
    pub fn remove(
        self,
        text: &str,
        name: &str,
    ) -> Result<(String, RemovedServer), ClientEditError> {
        self.try_remove(text, name).map_err(|error| self.explain(text, Some(name), error))
    }

    fn try_remove(
        self,
        text: &str,
        name: &str,
    ) -> Result<(String, RemovedServer), ClientEditError> {
        let (mark, rest) = split_mark(text);
        let cut = match self.syntax {
            FileSyntax::Json => json::remove_entry(rest, self.key, name),
            FileSyntax::Toml => toml::remove_entry(rest, self.key, name),
            FileSyntax::Yaml => yaml::remove_entry(rest, self.key, name),
        };
        let (new, text) = cut.ok_or(ClientEditError::RoundTripFailed)?;
        self.check(rest, &new, |value| remove(value, self.key, name))?;
        let removed = RemovedServer { name: name.to_owned(), text };
        let back = self.restore(&new, &removed)?;
        let same = self.entries(&back)?.into_iter().find(|(other, _)| other == name);
        let before = self.entries(rest)?.into_iter().find(|(other, _)| other == name);
        if same != before {
            return Err(ClientEditError::RoundTripFailed);
        }
        Ok((format!("{mark}{new}"), removed))
    }

    /// Returns the text with a removed server restored in its original form.
    pub fn restore(self, text: &str, removed: &RemovedServer) -> Result<String, ClientEditError> {
        let (mark, rest) = split_mark(text);
        let is_list = self.is_list_in(rest)?;
        let new = match self.syntax {
            FileSyntax::Json => json::restore_entry(rest, self.key, &removed.name, &removed.text),
            FileSyntax::Toml => Some(toml::append(rest, &removed.text)),
            FileSyntax::Yaml => yaml::restore_entry(rest, (self.key, is_list), &removed.text),
        };
        let new = new.ok_or(ClientEditError::RoundTripFailed)?;
        let entries = self.entries(&new)?;
        let entry = entries.into_iter().find(|(name, _)| *name == removed.name);
        let (_, entry) = entry.ok_or(ClientEditError::RoundTripFailed)?;
        self.check(rest, &new, |value| add(value, (self.key, is_list), &removed.name, entry))?;
        Ok(format!("{mark}{new}"))
    }

    fn is_list_in(self, text: &str) -> Result<bool, ClientEditError> {
        Ok(match self.value(text)?.get(self.key) {
            None | Some(Value::Null) => self.is_list,
            Some(value) => value.is_array(),
        })
    }

    /// Parses a text. An empty one counts as an empty object.
    pub fn value(self, text: &str) -> Result<Value, ClientEditError> {
        let text = document::strip_bom(text);
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let tree = match self.syntax {
            FileSyntax::Json => document::parse_jsonc(text),
            FileSyntax::Toml => document::toml::parse(text),
            FileSyntax::Yaml => document::yaml::parse(text),
        };
        let tree = tree.map_err(|finding| {
            let place =
                finding.position.map(|(line, column)| format!(" (line {line}, column {column})"));
            ClientEditError::Syntax(format!("{}{}", finding.message, place.unwrap_or_default()))
        })?;
        match Value::from(tree) {
            Value::Null => Ok(Value::Object(Map::new())),
            value @ Value::Object(_) => Ok(value),
            _ => Err(ClientEditError::Syntax("expected an object".to_owned())),
        }
    }

    /// Checks that `after` parses to the value of `before` with `change` applied.
    fn check(
        self,
        before: &str,
        after: &str,
        change: impl FnOnce(&mut Value) -> Option<()>,
    ) -> Result<(), ClientEditError> {
        let mut wanted = self.value(before)?;
        change(&mut wanted).ok_or(ClientEditError::RoundTripFailed)?;
        let mut found = self.value(after).map_err(|_| ClientEditError::RoundTripFailed)?;
        for value in [&mut wanted, &mut found] {
            // Without servers, a missing value, `null`, `{}` and `[]` are equivalent.
            let is_empty = |servers: &Value| match servers {
                Value::Null => true,
                Value::Object(servers) => servers.is_empty(),
                Value::Array(servers) => servers.is_empty(),
                _ => false,
            };
            if let Some(all) = value.as_object_mut()
                && all.get(self.key).is_some_and(is_empty)
            {
                all.shift_remove(self.key);
            }
        }
        if wanted == found { Ok(()) } else { Err(ClientEditError::RoundTripFailed) }
    }
}

/// Splits off a leading byte order mark.
fn split_mark(text: &str) -> (&str, &str) {
    let rest = document::strip_bom(text);
    (&text[..text.len() - rest.len()], rest)
}

fn without_name(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        members.shift_remove("name");
    }
    entry
}

/// Returns the entry for a list, with the name as its first member.
fn with_name(name: &str, entry: &Value) -> Value {
    let own = entry.as_object().into_iter().flatten();
    let own = own.map(|(key, value)| (key.clone(), value.clone()));
    let name = ("name".to_owned(), Value::from(name));
    Value::Object(std::iter::once(name).chain(own).collect())
}

fn add(value: &mut Value, (key, is_list): (&str, bool), name: &str, entry: Value) -> Option<()> {
    let servers = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if servers.is_null() {
        *servers = if is_list { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
    }
    match servers {
        Value::Object(servers) => servers.insert(name.to_owned(), entry).is_none().then_some(()),
        Value::Array(servers) => {
            servers.push(with_name(name, &entry));
            Some(())
        }
        _ => None,
    }
}

fn remove(value: &mut Value, key: &str, name: &str) -> Option<()> {
    match value.get_mut(key)? {
        Value::Object(servers) => servers.shift_remove(name).map(|_| ()),
        Value::Array(servers) => {
            let is_it = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(name);
            let at = servers.iter().position(is_it)?;
            servers.remove(at);
            // With a second server of the same name, the target is ambiguous.
            (!servers.iter().any(is_it)).then_some(())
        }
        _ => None,
    }
}
