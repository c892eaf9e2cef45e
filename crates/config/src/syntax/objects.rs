//! Objects: sections with known keys, and maps with user-chosen keys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::syntax::document::Node;
use crate::syntax::reader::{ConfigReader, Located, ObjectEntry, ObjectFields};

/// A map with user-chosen keys, in file order.
pub struct LocatedMap<T>(pub Vec<(Located<String>, T)>);

impl<T> Default for LocatedMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Reads a map with user-chosen keys. `null` values are skipped.
pub(crate) fn read_map<T>(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
    read: impl Fn(&ObjectEntry<'_>, &mut ConfigReader<'_>) -> Option<T>,
) -> LocatedMap<T> {
    let found = reader.read_map_entries(node);
    let present = found.into_iter().filter(|entry| !entry.node.is_null());
    let read = present.filter_map(|entry| Some((entry.key.clone(), read(&entry, reader)?)));
    LocatedMap(read.collect())
}

/// Reads a section. Unknown keys are errors.
pub(crate) fn read_closed_object<T>(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
    read: impl Fn(&mut ObjectFields<'_>, &mut ConfigReader<'_>) -> T,
) -> Option<T> {
    let mut fields = reader.read_fields(node)?;
    let value = read(&mut fields, reader);
    let elsewhere = reader.key_hint;
    fields.report_unknown_keys(reader, elsewhere);
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

impl<T: JsonSchema> JsonSchema for LocatedMap<T> {
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
