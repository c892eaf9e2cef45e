//! Applies the configuration's overrides to tool definitions. Everything that isn't overridden
//! stays byte for byte as the server wrote it.

use crate::catalog::{Definition, ToolDefinition};
use mcp_workbench_wire::json::{self, EditError, RawJson};

/// Changes to a tool definition. `None` leaves a member as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefinitionOverride<'a> {
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
    /// The arguments to remove from the schema.
    pub hidden: &'a [&'a str],
    /// `true` if results lack fields that `outputSchema` may require, so it is removed.
    pub is_output_partial: bool,
}

impl ToolDefinition {
    /// Returns a copy of the definition with the overrides applied.
    ///
    /// # Errors
    ///
    /// Returns an error if the result isn't a valid tool definition.
    pub fn with_override(&self, alteration: &DefinitionOverride<'_>) -> Result<Self, String> {
        let DefinitionOverride { name, description, hidden, is_output_partial } = alteration;
        let schema = (!hidden.is_empty()).then(|| without(&self.schema, hidden)).transpose();
        let members = [
            ("name", name.map(|name| RawJson::encode(&name))),
            ("description", description.map(|text| RawJson::encode(&text))),
            ("inputSchema", schema.map_err(|error| error.to_string())?),
        ];
        let mut raw = self.raw.clone();
        if *is_output_partial {
            raw = raw.without_member("outputSchema").map_err(|error| error.to_string())?;
        }
        for (key, value) in members {
            if let Some(value) = value {
                raw = raw.with_member(key, &value).map_err(|error| error.to_string())?;
            }
        }
        Self::parse(raw)
    }
}

fn without(schema: &RawJson, hidden: &[&str]) -> Result<RawJson, EditError> {
    let mut seen = schema.clone();
    // Other values than objects have no arguments to hide.
    if let Some(properties) = schema.member("properties").filter(is_object) {
        seen = seen.with_member("properties", &properties.without_members(hidden)?)?;
    }
    if let Some(required) = schema.member("required").and_then(|required| required.items()) {
        let is_hidden = |item: &RawJson| {
            item.parse::<String>().is_ok_and(|name| hidden.contains(&name.as_str()))
        };
        let kept: Vec<&RawJson> = required.iter().filter(|item| !is_hidden(item)).collect();
        if kept.is_empty() {
            // JSON Schema draft 4 doesn't allow an empty list.
            seen = seen.without_member("required")?;
        } else if kept.len() < required.len() {
            seen = seen.with_member("required", &json::array(kept))?;
        }
    }
    Ok(seen)
}

fn is_object(value: &RawJson) -> bool {
    value.as_bytes().starts_with(b"{")
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
            r#"{ "name":"a",  "later": 1.0, "inputSchema": {"properties": {"x": {"const": 1e1}, "y" : {}}, "required":["x" , "y"], "additionalProperties":false}, "outputSchema":{"type":"object"}, "title":"T"}"#,
        );
        let all = DefinitionOverride {
            name: Some("b"),
            description: Some("said"),
            hidden: &["y", "z"],
            is_output_partial: true,
        };
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
