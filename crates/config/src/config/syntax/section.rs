//! The description of a section: its keys, and for each what it is called, its type, its range and
//! what it is for.
//!
//! A section is described once, by [`section!`]. Reading, the schema, the program that a file is
//! written for and the hints about keys in a wrong place all follow from that.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Number, Value};

use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{Entries, entries};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// A value that can be read from a place in a file.
pub trait FromNode: Sized {
    /// The section that the value is, or consists of.
    const SECTION: Option<&'static Section> = None;

    /// Reads the value; `None`, with an error noted, if it is of another kind.
    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

/// An object with keys of ours, described by [`section!`] or [`keys!`].
pub trait Described: Sized {
    /// The description.
    const DESCRIPTION: &'static Section;

    /// Takes the keys of the section; the others are left for whoever calls this.
    fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self;
}

/// The description of a section.
#[derive(Debug)]
pub struct Section {
    /// Where its keys stand, for hints about keys in a wrong place. A section without a place has
    /// keys with names so common that such a hint would mislead.
    pub place: Option<&'static str>,
    pub keys: &'static [Key],
}

/// The description of a key.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    /// Another spelling of the name, as other programs write it.
    pub also: Option<&'static str>,
    pub kind: Kind,
    /// The section under the key, if there is one.
    pub section: Option<&'static Section>,
}

/// The kind of a key: how much its name says about the file it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A key of ours: at the top of a file it makes the file ours, misspelt too.
    Ours,
    /// A key of ours that decides who may do what. It makes a file ours wherever it belongs.
    Rule,
    /// A key of ours with a common name: one that is spelled only nearly so is a client's.
    Common,
    /// A key that other programs have for something else: it is ours if what is in it is.
    Shared,
    /// A key that other programs have for the same: it says nothing.
    Everybodys,
}

impl Section {
    /// Returns the key called `name`.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Returns this section and all sections inside it, each once, in the order of the keys.
    pub fn all(&'static self) -> Vec<&'static Section> {
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

impl Key {
    /// Returns whether the key, at the top of a file, makes that file ours.
    pub(crate) fn marks(&self, root: &Node<'_>) -> bool {
        let Some(node) = root.get(self.name) else { return false };
        match self.kind {
            Kind::Ours | Kind::Rule | Kind::Common => true,
            Kind::Shared => {
                // In another program it is an object with other keys.
                let mut members = self.section.into_iter().flat_map(|section| section.keys);
                node.value.as_object().is_none_or(|object| object.properties.is_empty())
                    || members.any(|member| node.get(member.name).is_some())
            }
            Kind::Everybodys => false,
        }
    }
}

/// Describes a section: makes the type of its raw values, the schema of it and the reading.
///
/// A key is `"name" as pub(crate) field: Type`. Around that there may be
///
/// - before the name the [`Kind`] of the key, if it is not [`Kind::Ours`];
/// - after the name `| "other_name"`, if other programs spell it so;
/// - after the type the range of a number, `[(least, most)]`;
/// - at the end `=> read`, a function that reads the value in another way than its type does.
///
/// The doc comment of a key is its description in the schema. `in "…"` says where the keys stand.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(in $place:literal)? { $($keys:tt)* }
    ) => {
        $crate::config::syntax::section::keys! {
            $(#[$attribute])*
            #[schemars(deny_unknown_fields)]
            $visibility struct $name $(in $place)? { $($keys)* }
        }

        impl $crate::config::syntax::section::FromNode for $name {
            const SECTION: Option<&'static $crate::config::syntax::section::Section> =
                Some(<Self as $crate::config::syntax::section::Described>::DESCRIPTION);

            fn from_node(
                node: &$crate::config::syntax::document::Node<'_>,
                reader: &mut $crate::config::syntax::reader::Reader<'_>,
            ) -> Option<Self> {
                $crate::config::syntax::entries::object(
                    node,
                    reader,
                    <Self as $crate::config::syntax::section::Described>::read,
                )
            }
        }
    };
}

/// Describes the keys of a section like [`section!`], for types that implement [`FromNode`]
/// themselves. After the keys there may be `beside { … }` with fields that are no keys.
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
        #[schemars(transform = $crate::config::syntax::section::allow_spellings::<$name>)]
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

        impl $crate::config::syntax::section::Described for $name {
            const DESCRIPTION: &'static $crate::config::syntax::section::Section =
                &$crate::config::syntax::section::Section {
                    place: $crate::config::syntax::section::keys!(@optional $($place)?),
                    keys: &[$(
                        $crate::config::syntax::section::Key {
                            name: $key,
                            also: $crate::config::syntax::section::keys!(@optional $($also)?),
                            kind: $crate::config::syntax::section::keys!(@kind $($kind)?),
                            section: $crate::config::syntax::section::keys!(
                                @section $type $(=> $read)?
                            ),
                        },
                    )*],
                };

            fn read(
                fields: &mut $crate::config::syntax::reader::Fields<'_>,
                reader: &mut $crate::config::syntax::reader::Reader<'_>,
            ) -> Self {
                $(
                    let node =
                        $crate::config::syntax::section::keys!(@take fields reader $key $($also)?);
                    let $field = node.and_then(|node| {
                        $crate::config::syntax::section::keys!(@read node reader $type $(=> $read)?)
                    });
                    $(
                        let $field = $field.and_then(|number| {
                            $crate::config::syntax::checks::within(number, $range, reader)
                        });
                    )?
                )*
                Self { $($field,)* $($($beside: Default::default(),)*)? }
            }
        }
    };
    (@optional) => { None };
    (@optional $text:literal) => { Some($text) };
    (@kind) => { $crate::config::syntax::section::Kind::Ours };
    (@kind rule) => { $crate::config::syntax::section::Kind::Rule };
    (@kind common) => { $crate::config::syntax::section::Kind::Common };
    (@kind shared) => { $crate::config::syntax::section::Kind::Shared };
    (@kind everybodys) => { $crate::config::syntax::section::Kind::Everybodys };
    (@section $type:ty => $read:expr) => { None };
    (@section $type:ty) => { <$type as $crate::config::syntax::section::FromNode>::SECTION };
    (@take $fields:ident $reader:ident $key:literal) => { $fields.take($key) };
    (@take $fields:ident $reader:ident $key:literal $also:literal) => {
        $fields.either($key, $also, $reader)
    };
    (@read $node:ident $reader:ident $type:ty => $read:expr) => { $read(&$node, $reader) };
    (@read $node:ident $reader:ident $type:ty) => {
        <$type as $crate::config::syntax::section::FromNode>::from_node(&$node, $reader)
    };
}

pub(crate) use {keys, section};

/// Lets the schema of a section take its keys in their other spellings too.
pub(crate) fn allow_spellings<T: Described>(schema: &mut Schema) {
    let spellings: Vec<&str> = T::DESCRIPTION.keys.iter().filter_map(|key| key.also).collect();
    if !spellings.is_empty() {
        let pattern = format!("^({})$", spellings.join("|"));
        let patterns = serde_json::json!({ pattern: { "description": "The same in snake_case." } });
        schema.insert("patternProperties".to_owned(), patterns);
    }
}

/// Implements [`FromNode`] by a method of the reader.
macro_rules! from_node {
    ($($type:ty: $read:ident),* $(,)?) => {
        $(impl FromNode for $type {
            fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                reader.$read(node)
            }
        })*
    };
}

from_node! {
    Located<String>: string,
    Located<bool>: boolean,
    Located<u64>: number,
    Located<Number>: decimal,
    Vec<Located<String>>: strings,
    Vec<Value>: values,
    Vec<(String, Value)>: members,
}

impl<T: Described + FromNode> FromNode for Located<T> {
    const SECTION: Option<&'static Section> = <T as FromNode>::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { value: T::from_node(node, reader)?, spot: node.spot.clone() })
    }
}

impl<T: FromNode> FromNode for Entries<T> {
    const SECTION: Option<&'static Section> = T::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        Some(entries(node, reader, |entry, reader| T::from_node(&entry.node, reader)))
    }
}

/// Reads a string, or an array of strings.
pub(crate) fn one_or_more(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
) -> Option<Vec<Located<String>>> {
    if node.value.as_string_lit().is_some() {
        return reader.string(node).map(|text| vec![text]);
    }
    reader.strings(node)
}

/// The schema of what [`one_or_more`] reads.
pub(crate) struct OneOrMore;

impl JsonSchema for OneOrMore {
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
