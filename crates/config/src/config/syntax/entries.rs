//! Objects: those of ours, whose keys are known, and those whose keys are the user's own names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::syntax::document::Node;
use crate::config::syntax::reader::{Entry, Fields, Located, Reader};

/// An object with the user's own names as keys, in the order of the file.
pub struct Entries<T>(pub Vec<(Located<String>, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Reads an object with the user's own names as keys, each value by `read`.
pub(crate) fn entries<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&Entry<'_>, &mut Reader<'_>) -> Option<T>,
) -> Entries<T> {
    let found = reader.named_entries(node);
    let present = found.into_iter().filter(|entry| !entry.node.is_null());
    let read = present.filter_map(|entry| Some((entry.key.clone(), read(&entry, reader)?)));
    Entries(read.collect())
}

/// Reads an object of ours: a key that nobody asked for is an error.
pub(crate) fn object<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Fields<'_>, &mut Reader<'_>) -> T,
) -> Option<T> {
    let mut fields = reader.fields(node)?;
    let value = read(&mut fields, reader);
    let elsewhere = reader.elsewhere;
    fields.refuse_unknown(reader, elsewhere);
    Some(value)
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let entry = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": entry })
    }
}
