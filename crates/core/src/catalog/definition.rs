//! The kinds of primitives that a server lists, each entry kept as the bytes it came in.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use crate::catalog::template::fits;
use crate::raw::Raw;

/// An entry of a server's list that cannot be used. Only that entry is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// Its name where it has one, else its place in the list.
    pub what: String,
    /// The fault of the entry.
    pub why: String,
}

/// One kind of entry in a server's lists.
pub trait Definition: Sized {
    /// The method that lists them.
    const METHOD: &'static str;
    /// The member of its result that has them.
    const MEMBER: &'static str;
    /// The word for one such primitive.
    const WORD: &'static str;
    /// The member of an entry that tells it from others.
    const KEY: &'static str;

    /// Reads one entry.
    fn parse(raw: Raw) -> Result<Self, String>;

    /// The name or address by which its server tells it from others.
    fn key(&self) -> &str;

    /// Reads the entries of all pages of a list. Entries that are malformed, or repeat a key, are
    /// left out and reported.
    fn read_all(entries: impl IntoIterator<Item = Raw>) -> (Vec<Arc<Self>>, Vec<BadEntry>) {
        let (mut read, mut bad): (Vec<Arc<Self>>, _) = (Vec::new(), Vec::new());
        let mut keys = HashSet::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let why = match Self::parse(entry.clone()) {
                Ok(definition) if !keys.insert(definition.key().to_owned()) => {
                    "it is listed twice".to_owned()
                }
                Ok(definition) => {
                    read.push(Arc::new(definition));
                    continue;
                }
                Err(why) => why,
            };
            let key = entry.member(Self::KEY).and_then(|key| key.parse::<String>().ok());
            let what = key.map_or_else(|| format!("entry {}", index + 1), |key| format!("`{key}`"));
            bad.push(BadEntry { what, why });
        }
        (read, bad)
    }
}

macro_rules! definition {
    ($(#[$doc:meta])* $name:ident, $field:ident: $(#[$field_doc:meta])*, $key:literal, $method:literal, $member:literal, $word:literal) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[$field_doc])*
            pub $field: String,
            /// The whole definition, byte for byte.
            pub raw: Raw,
        }

        impl Definition for $name {
            const METHOD: &'static str = $method;
            const MEMBER: &'static str = $member;
            const WORD: &'static str = $word;
            const KEY: &'static str = $key;

            fn parse(raw: Raw) -> Result<Self, String> {
                #[derive(Deserialize)]
                struct Head {
                    #[serde(rename = $key)]
                    key: String,
                }

                let Head { key } = raw.parse().map_err(|error| error.to_string())?;
                if key.is_empty() {
                    return Err(concat!("its `", $key, "` is empty").to_owned());
                }
                Ok(Self { $field: key, raw })
            }

            fn key(&self) -> &str {
                &self.$field
            }
        }
    };
}

definition! {
    /// One resource as its server defines it (MCP, server/resources).
    Resource, uri: /** Where it is read. */, "uri", "resources/list", "resources", "resource"
}
definition! {
    /// One resource template as its server defines it (MCP, server/resources, RFC 6570).
    Template, uri: /** The template of its URIs. */,
    "uriTemplate", "resources/templates/list", "resourceTemplates", "resource template"
}
definition! {
    /// One prompt as its server defines it (MCP, server/prompts).
    Prompt, name: /** The server's name for it. */, "name", "prompts/list", "prompts", "prompt"
}

impl Resource {
    /// The name that its server gives it beside its address.
    pub fn name(&self) -> Option<String> {
        name(&self.raw)
    }
}

impl Template {
    /// The name that its server gives it.
    pub fn name(&self) -> Option<String> {
        name(&self.raw)
    }

    /// Returns `true` if an address may have been made of it.
    pub fn may_have_made(&self, uri: &str) -> bool {
        fits(&self.uri, uri)
    }
}

fn name(definition: &Raw) -> Option<String> {
    definition.member("name").and_then(|name| name.parse().ok())
}
