//! Arguments that fit their schema at a glance, so that most calls are checked without being taken
//! apart.

use serde_json::{Map, Value};

use crate::raw::Raw;

/// The most properties of a schema that is understood here.
const MAX_PROPERTIES: usize = 64;
/// The keywords of a schema that rule nothing out (JSON Schema, annotations and definitions).
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

/// The plain part of a schema: which properties there are, which of them must be there, and of what
/// type they are.
#[derive(Debug)]
pub(crate) struct Glance {
    properties: Vec<(String, Types)>,
    /// One bit for each property that must be there.
    required: u64,
    /// `true` if there may be others.
    is_open: bool,
}

/// The types that a property may have, one bit each; none where it takes more to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const UNSURE: Self = Self(0);
    const STRING: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const NULL: Self = Self(4);
    const OBJECT: Self = Self(8);
    const ARRAY: Self = Self(16);
    const INTEGER: Self = Self(32);
    /// Integers are numbers too.
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

    /// Either; what is unsure stays so.
    fn or(self, other: Self) -> Self {
        if self == Self::UNSURE || other == Self::UNSURE {
            Self::UNSURE
        } else {
            Self(self.0 | other.0)
        }
    }

    /// The type of a value as it is written. What may be an integer in another spelling, such as
    /// `1.0`, counts as a number.
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

impl Glance {
    /// Understands a schema, if it is plain enough.
    pub(crate) fn of(schema: &Value) -> Option<Self> {
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
            .map(|(name, schema)| (name.clone(), Types::of_schema(schema)))
            .collect();
        let mut required = 0;
        for name in schema.get("required").map_or(Some(&Vec::new()), Value::as_array)? {
            required |= 1 << properties.iter().position(|(known, _)| name == known)?;
        }
        let is_open = schema.get("additionalProperties").map_or(Some(true), Value::as_bool)?;
        Some(Self { properties, required, is_open })
    }

    /// Returns `true` if arguments fit for sure; else a real check has to tell.
    pub(crate) fn fits(&self, arguments: &Raw) -> bool {
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
            // Of a repeated member, it depends on who reads it which one counts.
            if seen & bit != 0 || !types.include(Types::of_value(&text[member.value])) {
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

    fn glance(schema: &Value) -> Glance {
        Glance::of(schema).expect("plain enough")
    }

    #[test]
    fn what_is_plain_is_told_at_a_glance() {
        let schema = json!({"type": "object", "$schema": "x", "required": ["path"], "properties": {
            "path": {"type": "string", "description": "Where"},
            "limit": {"type": ["integer", "null"]},
            "kind": {"enum": ["a"]},
        }});
        let fits = |text: &str| {
            glance(&schema).fits(&Raw::encode(
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
    fn what_is_not_plain_is_left_alone() {
        for schema in [
            json!({}),
            json!({"type": "object", "anyOf": []}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "required": ["x"]}),
            json!({"type": "object", "properties": []}),
        ] {
            assert!(Glance::of(&schema).is_none(), "{schema}");
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
        fn nothing_fits_at_a_glance_that_does_not_fit(schema in schema(), arguments in arguments()) {
            let fits = jsonschema::validator_for(&schema).unwrap().is_valid(&arguments);
            prop_assert!(fits || !glance(&schema).fits(&Raw::encode(&arguments)), "{schema} {arguments}");
        }
    }
}
