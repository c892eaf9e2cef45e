//! Environment variables as a server's block has them.

use jsonc_parser::ast::Value;

use crate::config::keys::reference::value;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{Entries, entries};
use crate::config::syntax::reader::{Entry, Reader};

/// Reads environment variables; a number or boolean is taken as it is written.
pub fn environment(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<String> {
    entries(node, reader, |entry, reader| {
        let Entry { key, node } = entry;
        if key.value.is_empty() || key.value.contains(['=', '\0']) {
            let message = "the name of a variable may not be empty or contain `=` or NUL";
            reader.error(&key.spot, message, None);
            return None;
        }
        let written = match node.value {
            Value::NumberLit(literal) => literal.value.to_owned(),
            Value::BooleanLit(literal) => literal.value.to_string(),
            Value::StringLit(_) | Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => {
                return value(node, reader).map(|text| text.value);
            }
        };
        reader.warn(
            &node.spot,
            "taken as a string",
            Some("put the value in double quotes".to_owned()),
        );
        Some(written)
    })
}
