//! A JSON parser that rejects duplicate member names: policy and server could otherwise read
//! different values of one argument.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    let Strict(value) = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    Ok(value)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate name `{name}`")));
            }
            members.insert(name, value);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_names_are_refused_even_if_escaped() {
        let text = br#"{"a": [1, -2, 0.5, "x", null, true], "b": {"a": {}}}"#;
        let wanted = json!({"a": [1, -2, 0.5, "x", null, true], "b": {"a": {}}});
        assert_eq!(parse(text), Ok(wanted));
        for twice in
            [r#"{"a": 1, "a": 2}"#, r#"{"a": 1, "\u0061": 1}"#, r#"[{"b": {"a": 1, "a": 1}}]"#]
        {
            let why = parse(twice.as_bytes()).unwrap_err();
            assert!(why.contains("duplicate name `a`"), "{why}");
        }
        assert!(parse(b"{").is_err());
    }
}
