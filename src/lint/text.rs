//! The texts of a definition: all strings and keys that a model may see, each with its location.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use mcp_workbench_wire::json::RawJson;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An object key, such as a parameter name.
    Key,
    /// A description, a title or instructions.
    Prose,
    /// Any other string, such as a default or an enum value.
    Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextField {
    /// JSON pointer to the text (RFC 6901), or to the member if the text is a key.
    pub(super) pointer: String,
    pub(super) words: String,
    pub(super) role: Role,
}

/// Top-level members that clients don't show to a model: data for other programs, and icons.
const UNREAD: [&str; 2] = ["_meta", "icons"];

/// Returns the texts of a definition. Both of two equal members are included, because clients
/// differ in the one they read. JSON that can't be walked is one text.
pub(super) fn texts(definition: &RawJson) -> Vec<TextField> {
    let mut texts = Vec::new();
    let mut pointer = String::new();
    let walk = Walk { pointer: &mut pointer, texts: &mut texts, role: Role::Value };
    let json = definition.as_str();
    let mut reader = serde_json::Deserializer::from_str(&json);
    if walk.deserialize(&mut reader).is_err() {
        // It is nested beyond the recursion limit of `serde_json`.
        texts.push(TextField {
            pointer: String::new(),
            words: json.into_owned(),
            role: Role::Prose,
        });
    }
    texts
}

struct Walk<'a> {
    pointer: &'a mut String,
    texts: &'a mut Vec<TextField>,
    role: Role,
}

impl Walk<'_> {
    fn push(&mut self, words: String, role: Role) {
        self.texts.push(TextField { pointer: self.pointer.clone(), words, role });
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let length = self.pointer.len();
        let Self { pointer, texts, .. } = self;
        while let Some(key) = members.next_key::<String>()? {
            if length == 0 && UNREAD.contains(&key.as_str()) {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            pointer.push('/');
            pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            let role = match key.as_str() {
                "description" | "title" | "instructions" | "$comment" => Role::Prose,
                _ => Role::Value,
            };
            let mut walk = Walk { pointer, texts, role };
            walk.push(key, Role::Key);
            members.next_value_seed(walk)?;
            pointer.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.pointer.len();
        let Self { pointer, texts, role } = self;
        for index in 0_usize.. {
            pointer.push('/');
            pointer.push_str(&index.to_string());
            if items.next_element_seed(Walk { pointer, texts, role })?.is_none() {
                break;
            }
            pointer.truncate(length);
        }
        pointer.truncate(length);
        Ok(())
    }

    fn visit_string<E: Error>(mut self, text: String) -> Result<(), E> {
        let role = self.role;
        self.push(text, role);
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.visit_string(text.to_owned())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}
