//! The environment variables (`env`) of a server entry.

use jsonc_parser::ast::Value;

use crate::sections::secret_ref::read_text_or_ref;
use crate::syntax::document::Node;
use crate::syntax::objects::{LocatedMap, read_map};
use crate::syntax::reader::{ConfigReader, ObjectEntry};

/// Reads a map of environment variables. Numbers and booleans become strings, with a warning.
pub fn read_env_vars(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> LocatedMap<String> {
    read_map(node, reader, |entry, reader| {
        let ObjectEntry { key, node } = entry;
        if key.value.is_empty() || key.value.contains(['=', '\0']) {
            let message = "a variable name must not be empty or contain `=` or NUL";
            reader.report_error(&key.location, message, None);
            return None;
        }
        let written = match node.value {
            Value::NumberLit(literal) => literal.value.to_owned(),
            Value::BooleanLit(literal) => literal.value.to_string(),
            Value::StringLit(_) | Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => {
                return read_text_or_ref(node, reader).map(|text| text.value);
            }
        };
        reader.report_warning(
            &node.location,
            "read as a string",
            Some("put the value in double quotes".to_owned()),
        );
        Some(written)
    })
}
