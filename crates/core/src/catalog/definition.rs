//! The kinds of primitives that a server lists. Each entry keeps the bytes that its server sent.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use crate::catalog::repair::{self, RepairNotes, Shape, is_absent, repair};
use crate::catalog::uri_template::{literal_length, may_expand_to};
use mcp_workbench_wire::json::{self, RawJson};

/// Maximum length of a timestamp (ISO 8601).
const MAX_TIME: usize = 40;

/// An invalid entry of a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEntry {
    /// The name or URI in backticks, or else the position in the list, such as `entry 3`.
    pub what: String,
    /// Why it was left out, or what was repaired.
    pub why: String,
    /// `true` if the entry is usable; `false` if it was left out.
    pub is_repaired: bool,
}

/// The kinds of primitives that servers list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrimitiveKind {
    Tool,
    Resource,
    ResourceTemplate,
    Prompt,
}

impl PrimitiveKind {
    /// Returns the kind's name in messages and records.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource template",
            Self::Prompt => "prompt",
        }
    }

    /// Returns the member of a definition that identifies it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::ResourceTemplate => "uriTemplate",
        }
    }

    /// Templates share their names with resources; only the braces tell them apart.
    pub fn family(self) -> Self {
        if self == Self::ResourceTemplate { Self::Resource } else { self }
    }
}

/// A definition in a server's listing.
pub trait Definition: Sized {
    /// The MCP method that lists the kind, such as `tools/list`.
    const METHOD: &'static str;
    /// The member of the result that contains the list.
    const MEMBER: &'static str;
    const KIND: PrimitiveKind;
    /// The member of an entry that identifies it.
    const KEY: &'static str;
    /// The members of an entry, as strict clients check them.
    const SHAPE: Shape;

    /// Parses one valid entry of the list.
    fn parse(raw: RawJson) -> Result<Self, String>;

    /// Returns the name or URI that identifies the primitive on its server.
    fn key(&self) -> &str;

    /// Adds required members that are missing and have an obvious value.
    fn complete(raw: RawJson, notes: &mut RepairNotes) -> Result<RawJson, String>;

    /// Removes members that strict clients can't use, although they have the right shape.
    fn check(raw: RawJson, _notes: &mut RepairNotes) -> RawJson {
        raw
    }

    /// Returns a valid form of an entry, or why there is none.
    fn repair(entry: &RawJson, notes: &mut RepairNotes) -> Result<RawJson, String> {
        repair(entry, Self::KEY, &Self::SHAPE, Self::complete, notes)
    }

    /// Parses the entries of all pages of a list.
    ///
    /// Malformed entries are repaired or left out, repeated keys are left out, and both are
    /// reported.
    fn read_all(entries: impl IntoIterator<Item = RawJson>) -> (Vec<Arc<Self>>, Vec<InvalidEntry>) {
        read_entries(entries, Self::check)
    }

    /// Parses entries that were checked before they were stored, maybe by an earlier release.
    fn read_stored(
        entries: impl IntoIterator<Item = RawJson>,
    ) -> (Vec<Arc<Self>>, Vec<InvalidEntry>) {
        read_entries(entries, |raw, _| raw)
    }
}

fn read_entries<T: Definition>(
    entries: impl IntoIterator<Item = RawJson>,
    check: fn(RawJson, &mut RepairNotes) -> RawJson,
) -> (Vec<Arc<T>>, Vec<InvalidEntry>) {
    let (mut read, mut bad): (Vec<Arc<T>>, _) = (Vec::new(), Vec::new());
    let mut keys = HashSet::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let mut notes = RepairNotes::default();
        let parsed =
            T::repair(&entry, &mut notes).map(|entry| check(entry, &mut notes)).and_then(T::parse);
        let (why, is_repaired) = match parsed {
            Ok(definition) if !keys.insert(definition.key().to_owned()) => {
                ("listed twice".to_owned(), false)
            }
            Ok(definition) => {
                read.push(Arc::new(definition));
                let Some(repairs) = notes.describe() else { continue };
                (repairs, true)
            }
            Err(why) => (why, false),
        };
        let key = entry.member(T::KEY).and_then(|key| key.parse::<String>().ok());
        let key = key.filter(|key| !key.is_empty());
        let what = key.map_or_else(|| format!("entry {}", index + 1), |key| format!("`{key}`"));
        bad.push(InvalidEntry { what, why, is_repaired });
    }
    (read, bad)
}

macro_rules! definition {
    ($(#[$doc:meta])* $name:ident, $field:ident: $(#[$field_doc:meta])*, $key:literal, $method:literal, $member:literal, $shape:path) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[$field_doc])*
            pub $field: String,
            /// The whole definition, byte for byte.
            pub raw: RawJson,
        }

        impl Definition for $name {
            const METHOD: &'static str = $method;
            const MEMBER: &'static str = $member;
            const KIND: PrimitiveKind = PrimitiveKind::$name;
            const KEY: &'static str = $key;
            const SHAPE: Shape = $shape;

            /// Names a resource without a name by its URI.
            fn complete(raw: RawJson, notes: &mut RepairNotes) -> Result<RawJson, String> {
                let Some(uri) = raw.member($key).filter(|_| is_absent(raw.member("name").as_ref()))
                else {
                    return Ok(raw);
                };
                notes.push(concat!("set `name` to `", $key, "`").to_owned());
                raw.with_member("name", &uri).map_err(|error| error.to_string())
            }

            fn parse(raw: RawJson) -> Result<Self, String> {
                #[derive(Deserialize)]
                struct Head {
                    #[serde(rename = $key)]
                    key: String,
                }

                let Head { key } = raw.parse().map_err(|error| error.to_string())?;
                if key.is_empty() {
                    return Err(concat!("`", $key, "` is empty").to_owned());
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
    /// A resource as its server defines it (MCP, server/resources).
    Resource, uri: /** Where it is read. */, "uri", "resources/list", "resources", repair::RESOURCE
}
definition! {
    /// A resource template as its server defines it (MCP, server/resources; RFC 6570).
    ResourceTemplate, uri: /** The template of its URIs. */,
    "uriTemplate", "resources/templates/list", "resourceTemplates", repair::TEMPLATE
}
definition! {
    /// A prompt as its server defines it (MCP, server/prompts).
    Prompt, name: /** The server's name for it. */, "name", "prompts/list", "prompts", repair::PROMPT
}

impl Resource {
    /// Returns the resource's name, if it has one in addition to its URI.
    pub fn name(&self) -> Option<String> {
        name(&self.raw)
    }
}

impl Resource {
    /// Returns the definition without the facts about its content that change with it: `size` and
    /// `annotations.lastModified`. Values that a model could read as text stay.
    pub(crate) fn stable_definition(&self) -> RawJson {
        let is_size = |value: &RawJson| value.parse::<u64>().is_ok();
        let is_time = |value: &RawJson| {
            let time = value.decode_string();
            let is_part =
                |c: char| c.is_ascii_digit() || matches!(c, 'T' | 'Z' | ':' | '.' | '+' | '-');
            time.is_some_and(|time| time.len() <= MAX_TIME && time.chars().all(is_part))
        };
        let Some(members) = self.raw.members() else { return self.raw.clone() };
        let kept = members.iter().filter(|(key, value)| key != "size" || !is_size(value));
        let kept: Vec<_> = kept
            .map(|(key, value)| match value.members() {
                Some(all) if key == "annotations" => {
                    let kept = all.iter().filter(|(key, at)| key != "lastModified" || !is_time(at));
                    (&**key, json::object(kept.map(|(key, value)| (&**key, value))))
                }
                _ => (&**key, value.clone()),
            })
            .collect();
        json::object(kept.iter().map(|(key, value)| (*key, value)))
    }
}

impl ResourceTemplate {
    /// Returns the template's name, if it has one.
    pub fn name(&self) -> Option<String> {
        name(&self.raw)
    }

    /// Returns how many bytes of `uri` the template fixes, if `uri` may be an expansion of it.
    pub fn literal_match(&self, uri: &str) -> Option<usize> {
        may_expand_to(&self.uri, uri).then(|| literal_length(&self.uri))
    }
}

fn name(definition: &RawJson) -> Option<String> {
    definition.member("name").and_then(|name| name.parse().ok())
}
