//! Helpers for objects in a client's file.

use jsonc_parser::ast::Value;

use mcp_workbench_config::syntax::document::Node;
use mcp_workbench_config::syntax::reader::Located;

pub(super) fn is_object(node: &Node<'_>) -> bool {
    matches!(node.value, Value::Object(_))
}

pub(super) fn has_objects(node: &Node<'_>) -> bool {
    object_entries(node).all(|(_, value)| is_object(&value))
}

/// Returns the members of an object. Any other node has none.
pub(super) fn object_entries<'a>(
    node: &Node<'a>,
) -> impl Iterator<Item = (Located<String>, Node<'a>)> {
    let properties = node.value.as_object().map(|object| &object.properties);
    let node = node.clone();
    properties.into_iter().flatten().map(move |property| {
        let child = node.child(property);
        let key =
            Located { value: property.name.as_str().to_owned(), location: child.location.clone() };
        (key, child)
    })
}
