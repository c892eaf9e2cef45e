//! The fast path of argument validation: accepts the arguments of most calls without parsing them.

use serde_json::{Map, Value};

use crate::json::RawJson;

/// Larger schemas have no fast path, because `required` has 64 bits.
const MAX_PROPERTIES: usize = 64;
/// Keywords that never reject a value (JSON Schema annotations and definitions).
const HARMLESS: [&str; 9] = [
    "$schema",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
];

/// The simple part of an object schema: its properties, their types, and which are required.
#[derive(Debug)]
pub(crate) struct FastPathSchema {
    properties: Vec<(String, TypeSet)>,
    /// One bit per property, set if it is required.
    required: u64,
    /// `true` if other properties are allowed.
    is_open: bool,
}

/// A set of JSON types, one bit each. Empty if only the validator can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeSet(u8);

impl TypeSet {
    const UNSURE: Self = Self(0);
    const STRING: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const NULL: Self = Self(4);
    const OBJECT: Self = Self(8);
    const ARRAY: Self = Self(16);
    const INTEGER: Self = Self(32);
    const NUMBER: Self = Self(64 | 32);
    const ANY: Self = Self(127);

    fn of_schema(schema: &Value) -> Self {
        let Value::Object(schema) = schema else {
            return if *schema == Value::Bool(true) { Self::ANY } else { Self::UNSURE };
        };
        if schema.keys().any(|key| key != "type" && !HARMLESS.contains(&key.as_str())) {
            return Self::UNSURE;
        }
        match schema.get("type") {
            None => Self::ANY,
            Some(Value::String(word)) => Self::of_word(word),
            Some(Value::Array(words)) => {
                let types =
                    words.iter().map(|word| word.as_str().map_or(Self::UNSURE, Self::of_word));
                types.reduce(Self::or).unwrap_or(Self::UNSURE)
            }
            Some(_) => Self::UNSURE,
        }
    }

    fn of_word(word: &str) -> Self {
        match word {
            "string" => Self::STRING,
            "boolean" => Self::BOOLEAN,
            "null" => Self::NULL,
            "object" => Self::OBJECT,
            "array" => Self::ARRAY,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            _ => Self::UNSURE,
        }
    }

    fn or(self, other: Self) -> Self {
        if self == Self::UNSURE || other == Self::UNSURE {
            Self::UNSURE
        } else {
            Self(self.0 | other.0)
        }
    }

    /// Returns the type of a value by how it is written. A number such as `1.0`, which JSON Schema
    /// also accepts as an integer, counts as `NUMBER`.
    fn of_value(value: &[u8]) -> Self {
        match value.first() {
            Some(b'"') => Self::STRING,
            Some(b't' | b'f') => Self::BOOLEAN,
            Some(b'n') => Self::NULL,
            Some(b'{') => Self::OBJECT,
            Some(b'[') => Self::ARRAY,
            Some(_) if value.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) => Self::INTEGER,
            _ => Self::NUMBER,
        }
    }

    fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl FastPathSchema {
    /// Compiles a schema; returns `None` if it isn't simple enough.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        let schema = schema.as_object()?;
        let known = ["type", "properties", "required", "additionalProperties"];
        let is_known = |key: &str| known.contains(&key) || HARMLESS.contains(&key);
        if !schema.keys().all(|key| is_known(key)) || schema.get("type")? != "object" {
            return None;
        }
        let empty = Map::new();
        let properties = schema.get("properties").map_or(Some(&empty), Value::as_object)?;
        if properties.len() > MAX_PROPERTIES {
            return None;
        }
        let properties: Vec<_> = properties
            .iter()
            .map(|(name, schema)| (name.clone(), TypeSet::of_schema(schema)))
            .collect();
        let mut required = 0;
        for name in schema.get("required").map_or(Some(&Vec::new()), Value::as_array)? {
            required |= 1 << properties.iter().position(|(known, _)| name == known)?;
        }
        let is_open = schema.get("additionalProperties").map_or(Some(true), Value::as_bool)?;
        Some(Self { properties, required, is_open })
    }

    /// Returns `true` if the arguments are certainly valid; `false` leaves the decision to the
    /// validator.
    pub(crate) fn accepts(&self, arguments: &RawJson) -> bool {
        let text = arguments.as_bytes();
        let Some(members) = arguments.entries() else { return false };
        let mut seen = 0;
        for member in members {
            let Some((member, _)) = member else { return false };
            let Some(key) = member.key.unescaped() else { return false };
            let known = self.properties.iter().position(|(name, _)| name.as_bytes() == &*key);
            let Some(known) = known else {
                if self.is_open {
                    continue;
                }
                return false;
            };
            let (bit, types) = (1 << known, self.properties[known].1);
            // Parsers disagree about repeated members: some read the first, some the last.
            if seen & bit != 0 || !types.include(TypeSet::of_value(&text[member.value])) {
                return false;
            }
            seen |= bit;
        }
        seen & self.required == self.required
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{prop_assert, prop_oneof, proptest};
    use serde_json::json;

    use super::*;

    fn glance(schema: &Value) -> FastPathSchema {
        FastPathSchema::compile(schema).expect("plain enough")
    }

    #[test]
    fn fast_path_accepts_valid_arguments_of_simple_schemas() {
        let schema = json!({"type": "object", "$schema": "x", "required": ["path"], "properties": {
            "path": {"type": "string", "description": "Where"},
            "limit": {"type": ["integer", "null"]},
            "kind": {"enum": ["a"]},
        }});
        let fits = |text: &str| {
            glance(&schema).accepts(&RawJson::encode(
                &serde_json::value::RawValue::from_string(text.to_owned()).unwrap(),
            ))
        };
        assert!(fits(r#"{"path": "x"}"#) && fits(r#"{"p\u0061th":"x","limit":-1,"else":[]}"#));
        assert!(fits(r#"{"limit":null,"path":""}"#));
        for unsure in [
            "{}",
            "[]",
            r#"{"path":1}"#,
            r#"{"path":"x","path":"y"}"#,
            r#"{"path":"x","kind":"a"}"#,
            r#"{"path":"x","limit":1.0}"#,
        ] {
            assert!(!fits(unsure), "{unsure}");
        }
    }

    #[test]
    fn fast_path_skips_schemas_it_cannot_decide() {
        for schema in [
            json!({}),
            json!({"type": "object", "anyOf": []}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "required": ["x"]}),
            json!({"type": "object", "properties": []}),
        ] {
            assert!(FastPathSchema::compile(&schema).is_none(), "{schema}");
        }
    }

    fn schema() -> impl Strategy<Value = Value> {
        let types = prop_oneof![
            Just(json!({})),
            Just(json!(true)),
            Just(json!({"type": "string"})),
            Just(json!({"type": ["number", "boolean"]})),
            Just(json!({"type": "integer"})),
            Just(json!({"type": "array", "items": {"type": "null"}})),
            Just(json!({"type": "object"})),
            Just(json!({"type": "string", "minLength": 2})),
        ];
        (types.clone(), types, any::<[bool; 3]>()).prop_map(|(a, b, [first, second, open])| {
            let required: Vec<_> = [("a", first), ("b", second)].into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
            json!({"type": "object", "properties": {"a": a, "b": b}, "required": required, "additionalProperties": open})
        })
    }

    fn arguments() -> impl Strategy<Value = Value> {
        let value = prop_oneof![
            Just(json!(null)),
            Just(json!(true)),
            Just(json!("x")),
            Just(json!("xyz")),
            Just(json!(7)),
            Just(json!(7.5)),
            Just(json!(1e3)),
            Just(json!([null])),
            Just(json!([1])),
            Just(json!({})),
        ];
        proptest::collection::vec(("[abc]", value), 0..3)
            .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into())
    }

    proptest! {
        #[test]
        fn fast_path_never_accepts_invalid_arguments(schema in schema(), arguments in arguments()) {
            let fits = jsonschema::validator_for(&schema).unwrap().is_valid(&arguments);
            prop_assert!(fits || !glance(&schema).accepts(&RawJson::encode(&arguments)), "{schema} {arguments}");
        }
    }
}
