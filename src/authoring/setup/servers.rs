//! The servers of a client's file: who is there, one more, one less. Everything else stays byte for
//! byte as it is, comments included.
//!
//! Each syntax splices text. What comes of it is read again and compared with what was wanted, and what
//! is taken out is put back for a trial, so that no odd text can lose anything.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::authoring::client_files::{ClientProgram, Syntax};
use crate::authoring::setup::{NAME, json, toml, yaml};
use crate::config::syntax::document;

/// Where servers stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The syntax of the file.
    pub syntax: Syntax,
    /// The key that they stand under.
    pub key: &'static str,
    /// `true` if they stand in a list there, each with its name, if none is there yet.
    pub is_list: bool,
}

/// A server that was taken out of a file, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Why a file is not changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Broken(String),
    /// It is written in a way that cannot be changed for sure.
    #[error("it is written in a way that cannot be changed without losing something")]
    Odd,
}

impl Place {
    /// Where a client keeps its servers.
    pub fn of(program: &ClientProgram) -> Self {
        let key = program.servers.first().copied().unwrap_or_default();
        Self { syntax: program.syntax, key, is_list: program.has_list }
    }

    /// The servers of a text, by their names.
    pub fn entries(self, text: &str) -> Result<Vec<(String, Value)>, EditError> {
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
            Some(_) => Err(EditError::Odd),
        }
    }

    /// Returns `true` if the settings of a text keep an entry of ours from being used, as Gemini CLI's
    /// lists of allowed and excluded servers do.
    pub fn keeps_us_out(self, text: &str) -> bool {
        let Ok(value) = self.value(text) else { return false };
        let list = |name: &str| value.get("mcp").and_then(|mcp| mcp.get(name)?.as_array());
        let has_us = |list: &Vec<Value>| list.iter().any(|name| name == NAME);
        list("allowed").is_some_and(|list| !has_us(list)) || list("excluded").is_some_and(has_us)
    }

    /// The text with one server more, behind the others.
    pub fn insert(self, text: &str, name: &str, entry: &Value) -> Result<String, EditError> {
        let (mark, rest) = split_mark(text);
        let is_list = self.is_list_in(rest)?;
        let new = match self.syntax {
            Syntax::Json => json::insert(rest, self.key, name, entry),
            Syntax::Toml => toml::insert(rest, self.key, name, entry),
            Syntax::Yaml => yaml::insert(rest, (self.key, is_list), name, entry),
        };
        let new = new.ok_or(EditError::Odd)?;
        self.check(rest, &new, |value| add(value, (self.key, is_list), name, entry.clone()))?;
        Ok(format!("{mark}{new}"))
    }

    /// The text without a server, and that server.
    pub fn take(self, text: &str, name: &str) -> Result<(String, Taken), EditError> {
        let (mark, rest) = split_mark(text);
        let cut = match self.syntax {
            Syntax::Json => json::take(rest, self.key, name),
            Syntax::Toml => toml::take(rest, self.key, name),
            Syntax::Yaml => yaml::take(rest, self.key, name),
        };
        let (new, text) = cut.ok_or(EditError::Odd)?;
        self.check(rest, &new, |value| remove(value, self.key, name))?;
        let taken = Taken { name: name.to_owned(), text };
        let back = self.put_back(&new, &taken)?;
        let same = self.entries(&back)?.into_iter().find(|(other, _)| other == name);
        let before = self.entries(rest)?.into_iter().find(|(other, _)| other == name);
        if same != before {
            return Err(EditError::Odd);
        }
        Ok((format!("{mark}{new}"), taken))
    }

    /// The text with a server in it again that was taken out.
    pub fn put_back(self, text: &str, taken: &Taken) -> Result<String, EditError> {
        let (mark, rest) = split_mark(text);
        let is_list = self.is_list_in(rest)?;
        let new = match self.syntax {
            Syntax::Json => json::put_back(rest, self.key, &taken.name, &taken.text),
            Syntax::Toml => Some(toml::append(rest, &taken.text)),
            Syntax::Yaml => yaml::put_back(rest, (self.key, is_list), &taken.text),
        };
        let new = new.ok_or(EditError::Odd)?;
        let entries = self.entries(&new)?;
        let entry = entries.into_iter().find(|(name, _)| *name == taken.name);
        let (_, entry) = entry.ok_or(EditError::Odd)?;
        self.check(rest, &new, |value| add(value, (self.key, is_list), &taken.name, entry))?;
        Ok(format!("{mark}{new}"))
    }

    fn is_list_in(self, text: &str) -> Result<bool, EditError> {
        Ok(match self.value(text)?.get(self.key) {
            None | Some(Value::Null) => self.is_list,
            Some(value) => value.is_array(),
        })
    }

    /// A text as a value; one without anything in it is an object without anything in it.
    fn value(self, text: &str) -> Result<Value, EditError> {
        let text = document::without_mark(text);
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let tree = match self.syntax {
            Syntax::Json => document::parse(text),
            Syntax::Toml => document::toml::parse(text),
            Syntax::Yaml => document::yaml::parse(text),
        };
        let tree = tree.map_err(|finding| {
            let place =
                finding.position.map(|(line, column)| format!(" (line {line}, column {column})"));
            EditError::Broken(format!("{}{}", finding.message, place.unwrap_or_default()))
        })?;
        match Value::from(tree) {
            Value::Null => Ok(Value::Object(Map::new())),
            value @ Value::Object(_) => Ok(value),
            _ => Err(EditError::Broken("expected an object".to_owned())),
        }
    }

    /// Finds out whether a new text says what the old one says after a change, and nothing else.
    fn check(
        self,
        before: &str,
        after: &str,
        change: impl FnOnce(&mut Value) -> Option<()>,
    ) -> Result<(), EditError> {
        let mut wanted = self.value(before)?;
        change(&mut wanted).ok_or(EditError::Odd)?;
        let mut found = self.value(after).map_err(|_| EditError::Odd)?;
        for value in [&mut wanted, &mut found] {
            // Where the last server has gone, nothing, `{}` and `[]` are the same.
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
        if wanted == found { Ok(()) } else { Err(EditError::Odd) }
    }
}

/// The mark before a text that some editors write, and the text.
fn split_mark(text: &str) -> (&str, &str) {
    let rest = document::without_mark(text);
    (&text[..text.len() - rest.len()], rest)
}

fn without_name(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        members.shift_remove("name");
    }
    entry
}

/// An entry of a list: its name comes first.
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
            // Which of two is meant nobody knows.
            (!servers.iter().any(is_it)).then_some(())
        }
        _ => None,
    }
}
