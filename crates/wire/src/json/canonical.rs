//! Canonical JSON text, for comparing values that are written differently.

use crate::json::{RawJson, push_text};

/// The deepest nesting of a value.
const MAX_DEPTH: usize = 64;

impl RawJson {
    /// Returns the value without white space, with its members sorted by key and its strings
    /// escaped uniformly. Numbers keep their text.
    ///
    /// `None` if the result exceeds `most` bytes or the nesting limit, or if the value is
    /// ambiguous: a key is repeated, or a string isn't valid Unicode.
    pub fn canonical(&self, most: usize) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        write(self, MAX_DEPTH, most, &mut text)?;
        Some(text)
    }
}

fn write(value: &RawJson, depth: usize, most: usize, text: &mut Vec<u8>) -> Option<()> {
    let written = value.as_bytes().trim_ascii();
    match written.first()? {
        b'{' => {
            let deeper = depth.checked_sub(1)?;
            let mut members = value.members()?;
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
            text.push(b'{');
            for (index, (key, value)) in members.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                push_text(text, key);
                text.push(b':');
                write(value, deeper, most, text)?;
            }
            text.push(b'}');
        }
        b'[' => {
            let deeper = depth.checked_sub(1)?;
            text.push(b'[');
            for (index, item) in value.items()?.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write(item, deeper, most, text)?;
            }
            text.push(b']');
        }
        b'"' => push_text(text, &value.decode_string()?),
        _ => text.extend_from_slice(written),
    }
    (text.len() <= most).then_some(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::value::RawValue;

    use super::*;

    fn canonical(text: &str) -> Option<String> {
        let raw = RawJson::encode(&serde_json::from_str::<Box<RawValue>>(text).unwrap());
        raw.canonical(100).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn equal_values_have_the_same_canonical_text() {
        let expected = r#"{"a":[1,"x\"é/\n",{"b":null,"c":{}}],"z":-1.50}"#;
        for text in [
            expected,
            r#"{ "z" : -1.50 , "\u0061": [ 1 , "x\u0022\u00e9\/\u000A", {"c": { }, "b": null}] }"#,
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn different_or_ambiguous_values_are_not_unified() {
        assert_ne!(canonical("1"), canonical("1.0"));
        assert_ne!(canonical("9007199254740993"), canonical("9007199254740992"));
        assert_ne!(canonical("[1,2]"), canonical("[2,1]"));
        assert_ne!(canonical(r#""1""#), canonical("1"));
        for unclear in [
            r#"{"a":1,"\u0061":1}"#.to_owned(),
            r#""\ud800""#.to_owned(),
            format!("{}1{}", "[".repeat(65), "]".repeat(65)),
            format!("[{}]", "1000,".repeat(30).trim_end_matches(',')),
        ] {
            assert_eq!(canonical(&unclear), None, "{unclear}");
        }
    }
}
