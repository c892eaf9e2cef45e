//! Definitions that are shown otherwise than their servers wrote them. What is not to be different
//! stays byte for byte.

use crate::catalog::{Definition, ToolDefinition};
use crate::raw::{self, Raw};

/// The changes to a definition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alteration<'a> {
    /// The name in place of the tool's own.
    pub name: Option<&'a str>,
    /// The description in place of the tool's own.
    pub description: Option<&'a str>,
    /// The arguments that are not to be seen.
    pub hidden: &'a [&'a str],
}

impl ToolDefinition {
    /// The definition with `alteration` in it.
    ///
    /// # Errors
    ///
    /// When what comes of it cannot be read as a definition.
    pub fn altered(&self, alteration: &Alteration<'_>) -> Result<Self, String> {
        let Alteration { name, description, hidden } = alteration;
        let set = |raw: Raw, key: &str, value: Option<Raw>| match value {
            Some(value) => raw.with_member(key, &value).unwrap_or(raw),
            None => raw,
        };
        let schema = (!hidden.is_empty()).then(|| without(&self.schema, hidden));
        let raw = set(self.raw.clone(), "name", name.map(|name| Raw::encode(&name)));
        let raw = set(raw, "description", description.map(|text| Raw::encode(&text)));
        Self::parse(set(raw, "inputSchema", schema))
    }
}

/// An argument schema that knows nothing of the arguments called `hidden`.
fn without(schema: &Raw, hidden: &[&str]) -> Raw {
    let mut seen = schema.clone();
    if let Some(mut properties) = schema.member("properties") {
        for name in hidden {
            properties = properties.without_member(name).unwrap_or(properties);
        }
        seen = seen.with_member("properties", &properties).unwrap_or(seen);
    }
    if let Some(required) = schema.member("required").and_then(|required| required.items()) {
        let is_hidden =
            |item: &Raw| item.parse::<String>().is_ok_and(|name| hidden.contains(&name.as_str()));
        let kept: Vec<&Raw> = required.iter().filter(|item| !is_hidden(item)).collect();
        if kept.is_empty() {
            // In old drafts of JSON Schema the list may not be empty.
            seen = seen.without_member("required").unwrap_or(seen);
        } else if kept.len() < required.len() {
            seen = seen.with_member("required", &raw::array(kept)).unwrap_or(seen);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn definition(text: &str) -> ToolDefinition {
        ToolDefinition::parse(serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn what_is_not_to_be_different_stays_byte_for_byte() {
        let own = definition(
            r#"{ "name":"a",  "later": 1.0, "inputSchema": {"properties": {"x": {"const": 1e1}, "y" : {}}, "required":["x" , "y"], "additionalProperties":false}, "title":"T"}"#,
        );
        let all = Alteration { name: Some("b"), description: Some("said"), hidden: &["y", "z"] };
        let shown = own.altered(&all).unwrap();
        assert_eq!(
            shown.raw.as_str(),
            r#"{"description":"said", "name":"b",  "later": 1.0, "inputSchema": {"properties": {"x": {"const": 1e1}}, "required":["x"], "additionalProperties":false}, "title":"T"}"#,
        );
        assert_eq!((shown.name.as_str(), shown.description.as_deref()), ("b", Some("said")));
        assert_eq!(shown.signature(), "b(x: 10.0)");
        assert_eq!(own.altered(&Alteration::default()).unwrap().raw, own.raw);
    }

    #[test]
    fn an_empty_list_of_required_arguments_is_left_out() {
        let own = definition(
            r#"{"name":"a","inputSchema":{"type":"object","required":["x"],"properties":{"x":{}}}}"#,
        );
        let shown = own.altered(&Alteration { hidden: &["x"], ..Alteration::default() }).unwrap();
        assert_eq!(
            shown.raw.as_str(),
            r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#
        );
        let bare = definition(r#"{"name":"a","inputSchema":{"required":1,"properties":2}}"#);
        let shown = bare.altered(&Alteration { hidden: &["x"], ..Alteration::default() }).unwrap();
        assert_eq!(shown.raw, bare.raw);
    }
}
