//! Objects of a client's file, whatever they are.

use jsonc_parser::ast::Value;

use crate::config::syntax::document::Node;
use crate::config::syntax::reader::Located;

pub(super) fn is_object(node: &Node<'_>) -> bool {
    matches!(node.value, Value::Object(_))
}

/// Returns `true` if an object has objects in it and nothing else.
pub(super) fn has_objects(node: &Node<'_>) -> bool {
    entries(node).all(|(_, value)| is_object(&value))
}

/// The keys and values of an object; of what is no object, none.
pub(super) fn entries<'a>(node: &Node<'a>) -> impl Iterator<Item = (Located<String>, Node<'a>)> {
    let properties = node.value.as_object().map(|object| &object.properties);
    let node = node.clone();
    properties.into_iter().flatten().map(move |property| {
        let child = node.child(property);
        let key = Located { value: property.name.as_str().to_owned(), spot: child.spot.clone() };
        (key, child)
    })
}
