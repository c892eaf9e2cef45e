//! The static description of a configuration section: its keys, with their names, types, ranges and
//! documentation.
//!
//! The [`section!`] macro describes a section once. The reader, the JSON schema, the detection of
//! the program that a file is for and the hints about misplaced keys are all derived from it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Number, Value};

use crate::syntax::document::Node;
use crate::syntax::objects::{LocatedMap, read_map};
use crate::syntax::reader::{ConfigReader, Located, ObjectFields};
use crate::syntax::renamed::renamed;

/// A type that can be read from a node of a file.
pub trait FromNode: Sized {
    /// The section of the value, or of its elements.
    const SECTION: Option<&'static SectionSpec> = None;

    /// Reads the value. Returns `None`, with an error reported, if it has the wrong type.
    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self>;
}

/// An object with native keys, described by [`section!`] or [`keys!`].
pub trait ConfigSection: Sized {
    const SPEC: &'static SectionSpec;

    /// Takes the keys of the section and leaves the others in `fields`.
    fn read_keys(fields: &mut ObjectFields<'_>, reader: &mut ConfigReader<'_>) -> Self;
}

/// The static description of a section.
#[derive(Debug)]
pub struct SectionSpec {
    /// The place of the keys in a file, for hints about misplaced keys. `None` if the key names are
    /// so common that a hint would mislead.
    pub location_hint: Option<&'static str>,
    pub keys: &'static [KeySpec],
}

/// The static description of a key.
#[derive(Debug)]
pub struct KeySpec {
    pub name: &'static str,
    /// The spelling that other programs use.
    pub alias: Option<&'static str>,
    pub ownership: KeyOwnership,
    pub section: Option<&'static SectionSpec>,
}

/// How strongly a key indicates that a file is a native one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwnership {
    /// Makes a file native, also if it is misspelled at the top level.
    Native,
    /// A native key that grants or restricts access. It makes a file native at every level where it
    /// belongs.
    Policy,
    /// A native key with a common name. A near miss is taken for a client's key, not for a typo.
    NativeExact,
    /// Other programs use this name too. The key counts as native only if its value has a native
    /// member.
    Ambiguous,
    /// Other programs use this name for the same setting, so it says nothing.
    Universal,
}

impl SectionSpec {
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Returns this section and all nested sections, breadth first and without duplicates.
    pub fn flatten(&'static self) -> Vec<&'static SectionSpec> {
        let mut all = vec![self];
        let mut next = 0;
        while let Some(section) = all.get(next) {
            let inside = section.keys.iter().filter_map(|key| key.section);
            for section in inside.collect::<Vec<_>>() {
                if !all.iter().any(|known| std::ptr::eq(*known, section)) {
                    all.push(section);
                }
            }
            next += 1;
        }
        all
    }
}

impl KeySpec {
    /// Returns `true` if this top-level key makes the file native.
    pub(crate) fn identifies_native(&self, root: &Node<'_>) -> bool {
        let Some(node) = root.get(self.name) else { return false };
        match self.ownership {
            KeyOwnership::Native | KeyOwnership::Policy | KeyOwnership::NativeExact => true,
            KeyOwnership::Ambiguous => {
                // Other programs have an object with other keys here.
                let is_member =
                    |key: &str| self.section.is_some_and(|section| section.key(key).is_some());
                node.value.as_object().is_none_or(|object| {
                    let mut keys = object.properties.iter().map(|entry| entry.name.as_str());
                    object.properties.is_empty()
                        || keys.any(|key| is_member(key) || renamed(key).any(is_member))
                })
            }
            KeyOwnership::Universal => false,
        }
    }
}

/// Describes a section: generates the type of its raw values, its schema and its reader.
///
/// A key is `"name" as pub(crate) field: Type`, with these optional parts:
///
/// - before the name, a keyword for its [`KeyOwnership`], unless it is `Native`;
/// - after the name, `| "other_name"`, the spelling that other programs use;
/// - after the type, the range of a number, `[(least, most)]`;
/// - at the end, `=> read`, a function that replaces the reader of the type.
///
/// The doc comment of a key is its description in the schema. `in "…"` says where the keys belong.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(in $place:literal)? { $($keys:tt)* }
    ) => {
        $crate::syntax::section::keys! {
            $(#[$attribute])*
            #[schemars(deny_unknown_fields)]
            $visibility struct $name $(in $place)? { $($keys)* }
        }

        impl $crate::syntax::section::FromNode for $name {
            const SECTION: Option<&'static $crate::syntax::section::SectionSpec> =
                Some(<Self as $crate::syntax::section::ConfigSection>::SPEC);

            fn from_node(
                node: &$crate::syntax::document::Node<'_>,
                reader: &mut $crate::syntax::reader::ConfigReader<'_>,
            ) -> Option<Self> {
                $crate::syntax::objects::read_closed_object(
                    node,
                    reader,
                    <Self as $crate::syntax::section::ConfigSection>::read_keys,
                )
            }
        }
    };
}

/// Describes the keys of a section like [`section!`], for types that implement [`FromNode`]
/// themselves. A `beside { … }` block adds fields that aren't keys.
macro_rules! keys {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(in $place:literal)? {
            $(
                $(#[$of_key:meta])*
                $($kind:ident)? $key:literal $(| $also:literal)?
                as $field_visibility:vis $field:ident: $type:ty $([$range:expr])? $(=> $read:expr)?
            ),* $(,)?
        }
        $(beside { $( $(#[$of_field:meta])* $beside:ident: $beside_type:ty ),* $(,)? })?
    ) => {
        #[derive(Default, schemars::JsonSchema)]
        #[schemars(transform = $crate::syntax::section::allow_aliases::<$name>)]
        $(#[$attribute])*
        $visibility struct $name {
            $(
                $(#[$of_key])*
                $(#[schemars(range(min = $range.0, max = $range.1))])?
                #[schemars(rename = $key)]
                $field_visibility $field: Option<$type>,
            )*
            $($( $(#[$of_field])* #[schemars(skip)] $visibility $beside: $beside_type, )*)?
        }

        impl $crate::syntax::section::ConfigSection for $name {
            const SPEC: &'static $crate::syntax::section::SectionSpec =
                &$crate::syntax::section::SectionSpec {
                    location_hint: $crate::syntax::section::keys!(@optional $($place)?),
                    keys: &[$(
                        $crate::syntax::section::KeySpec {
                            name: $key,
                            alias: $crate::syntax::section::keys!(@optional $($also)?),
                            ownership: $crate::syntax::section::keys!(@kind $($kind)?),
                            section: $crate::syntax::section::keys!(
                                @section $type $(=> $read)?
                            ),
                        },
                    )*],
                };

            fn read_keys(
                fields: &mut $crate::syntax::reader::ObjectFields<'_>,
                reader: &mut $crate::syntax::reader::ConfigReader<'_>,
            ) -> Self {
                $(
                    let node =
                        $crate::syntax::section::keys!(@take fields reader $key $($also)?);
                    let $field = node.and_then(|node| {
                        $crate::syntax::section::keys!(@read node reader $type $(=> $read)?)
                    });
                    $(
                        let $field = $field.and_then(|number| {
                            $crate::syntax::checks::check_range(number, $range, reader)
                        });
                    )?
                )*
                Self { $($field,)* $($($beside: Default::default(),)*)? }
            }
        }
    };
    (@optional) => { None };
    (@optional $text:literal) => { Some($text) };
    (@kind) => { $crate::syntax::section::KeyOwnership::Native };
    (@kind rule) => { $crate::syntax::section::KeyOwnership::Policy };
    (@kind common) => { $crate::syntax::section::KeyOwnership::NativeExact };
    (@kind shared) => { $crate::syntax::section::KeyOwnership::Ambiguous };
    (@kind everybodys) => { $crate::syntax::section::KeyOwnership::Universal };
    (@section $type:ty => $read:expr) => { None };
    (@section $type:ty) => { <$type as $crate::syntax::section::FromNode>::SECTION };
    (@take $fields:ident $reader:ident $key:literal) => { $fields.take($key) };
    (@take $fields:ident $reader:ident $key:literal $also:literal) => {
        $fields.take_aliased($key, $also, $reader)
    };
    (@read $node:ident $reader:ident $type:ty => $read:expr) => { $read(&$node, $reader) };
    (@read $node:ident $reader:ident $type:ty) => {
        <$type as $crate::syntax::section::FromNode>::from_node(&$node, $reader)
    };
}

pub(crate) use {keys, section};

const ALIAS: &str = "Alternative spelling in snake_case.";

/// Allows the alternative spellings of a section's keys in its schema.
pub(crate) fn allow_aliases<T: ConfigSection>(schema: &mut Schema) {
    let spellings: Vec<&str> = T::SPEC.keys.iter().filter_map(|key| key.alias).collect();
    if !spellings.is_empty() {
        let pattern = format!("^({})$", spellings.join("|"));
        let patterns = serde_json::json!({ pattern: { "description": ALIAS } });
        schema.insert("patternProperties".to_owned(), patterns);
    }
}

/// Implements [`FromNode`] with a method of the reader.
macro_rules! from_node {
    ($($type:ty: $read:ident),* $(,)?) => {
        $(impl FromNode for $type {
            fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
                reader.$read(node)
            }
        })*
    };
}

from_node! {
    Located<String>: read_string,
    Located<bool>: read_bool,
    Located<u64>: read_u64,
    Located<Number>: read_number,
    Vec<Located<String>>: read_strings,
    Vec<Value>: read_json_array,
    Vec<(String, Value)>: read_json_members,
}

impl<T: ConfigSection + FromNode> FromNode for Located<T> {
    const SECTION: Option<&'static SectionSpec> = <T as FromNode>::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        Some(Self { value: T::from_node(node, reader)?, location: node.location.clone() })
    }
}

impl<T: FromNode> FromNode for LocatedMap<T> {
    const SECTION: Option<&'static SectionSpec> = T::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        Some(read_map(node, reader, |entry, reader| T::from_node(&entry.node, reader)))
    }
}

pub(crate) fn read_one_or_many(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<Vec<Located<String>>> {
    if node.value.as_string_lit().is_some() {
        return reader.read_string(node).map(|text| vec![text]);
    }
    reader.read_strings(node)
}

/// The schema for [`read_one_or_many`].
pub(crate) struct OneOrMany;

impl JsonSchema for OneOrMany {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}
