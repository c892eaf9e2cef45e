//! Applies the configuration's overrides to tool definitions. Everything that isn't overridden
//! stays byte for byte as the server wrote it.

use crate::catalog::{Definition, ToolDefinition};
use crate::json::{self, RawJson};

/// Changes to a tool definition. `None` leaves a member as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefinitionOverride<'a> {
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
    /// The arguments to remove from the schema.
    pub hidden: &'a [&'a str],
}

impl ToolDefinition {
    /// Returns a copy of the definition with the overrides applied.
    ///
    /// # Errors
    ///
    /// Returns an error if the result isn't a valid tool definition.
    pub fn with_override(&self, alteration: &DefinitionOverride<'_>) -> Result<Self, String> {
        let DefinitionOverride { name, description, hidden } = alteration;
        let set = |raw: RawJson, key: &str, value: Option<RawJson>| match value {
            Some(value) => raw.with_member(key, &value).unwrap_or(raw),
            None => raw,
        };
        let schema = (!hidden.is_empty()).then(|| without(&self.schema, hidden));
        let raw = set(self.raw.clone(), "name", name.map(|name| RawJson::encode(&name)));
        let raw = set(raw, "description", description.map(|text| RawJson::encode(&text)));
        Self::parse(set(raw, "inputSchema", schema))
    }
}

fn without(schema: &RawJson, hidden: &[&str]) -> RawJson {
    let mut seen = schema.clone();
    if let Some(mut properties) = schema.member("properties") {
        for name in hidden {
            properties = properties.without_member(name).unwrap_or(properties);
        }
        seen = seen.with_member("properties", &properties).unwrap_or(seen);
    }
    if let Some(required) = schema.member("required").and_then(|required| required.items()) {
        let is_hidden = |item: &RawJson| {
            item.parse::<String>().is_ok_and(|name| hidden.contains(&name.as_str()))
        };
        let kept: Vec<&RawJson> = required.iter().filter(|item| !is_hidden(item)).collect();
        if kept.is_empty() {
            // JSON Schema draft 4 doesn't allow an empty list.
            seen = seen.without_member("required").unwrap_or(seen);
        } else if kept.len() < required.len() {
            seen = seen.with_member("required", &json::array(kept)).unwrap_or(seen);
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
    fn everything_not_overridden_stays_byte_for_byte() {
        let own = definition(
            r#"{ "name":"a",  "later": 1.0, "inputSchema": {"properties": {"x": {"const": 1e1}, "y" : {}}, "required":["x" , "y"], "additionalProperties":false}, "title":"T"}"#,
        );
        let all =
            DefinitionOverride { name: Some("b"), description: Some("said"), hidden: &["y", "z"] };
        let shown = own.with_override(&all).unwrap();
        assert_eq!(
            shown.raw.as_str(),
            r#"{"description":"said", "name":"b",  "later": 1.0, "inputSchema": {"properties": {"x": {"const": 1e1}}, "required":["x"], "additionalProperties":false}, "title":"T"}"#,
        );
        assert_eq!((shown.name.as_str(), shown.description.as_deref()), ("b", Some("said")));
        assert_eq!(shown.signature(), "b(x: 10.0)");
        assert_eq!(own.with_override(&DefinitionOverride::default()).unwrap().raw, own.raw);
    }

    #[test]
    fn emptied_required_list_is_removed() {
        let own = definition(
            r#"{"name":"a","inputSchema":{"type":"object","required":["x"],"properties":{"x":{}}}}"#,
        );
        let shown = own
            .with_override(&DefinitionOverride { hidden: &["x"], ..DefinitionOverride::default() })
            .unwrap();
        assert_eq!(
            shown.raw.as_str(),
            r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#
        );
        let bare = definition(r#"{"name":"a","inputSchema":{"required":1,"properties":2}}"#);
        let shown = bare
            .with_override(&DefinitionOverride { hidden: &["x"], ..DefinitionOverride::default() })
            .unwrap();
        assert_eq!(shown.raw, bare.raw);
    }
}
