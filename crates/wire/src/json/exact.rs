//! Parsed JSON that keeps the text of numbers, for checks that must agree with every receiver.
//!
//! `serde_json::Value` rounds numbers to 64 bits and keeps only the last of repeated members, so a
//! receiver with another parser could read another value than the one that was checked.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use crate::json::push_text;
use crate::json::scan::{self, Cursor, EscapedKey, StringHint};

/// The deepest nesting of a value, as in `serde_json`.
const MAX_DEPTH: usize = 128;

/// A JSON value without repeated member names.
#[derive(Clone, Debug)]
pub enum ExactJson {
    Null,
    Bool(bool),
    /// The number as written.
    Number(String),
    Text(String),
    Array(Vec<Self>),
    /// The members in order.
    Object(Vec<(String, Self)>),
}

impl ExactJson {
    /// Parses a JSON text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text isn't valid JSON or is nested too deeply, or if a name is
    /// repeated or a string isn't valid Unicode: receivers read such values differently.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = text.trim_ascii();
        let (value, end) = read(text, 0, MAX_DEPTH)?;
        if end == text.len() { Ok(value) } else { Err(format!("unexpected text at byte {end}")) }
    }

    /// Returns the value of a member; `None` if this isn't an object or has no such member.
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// Returns `true` if both values are equal. Numbers are compared by their exact value and
    /// objects without regard to order.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => {
                compare_numbers(one, other) == Some(Ordering::Equal)
            }
            (Self::Array(one), Self::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.equals(b))
            }
            (Self::Object(one), Self::Object(other)) => {
                one.len() == other.len()
                    && one.iter().all(|(name, value)| {
                        other.iter().any(|(key, other)| key == name && value.equals(other))
                    })
            }
            _ => false,
        }
    }
}

impl From<&Value> for ExactJson {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Bool(*is),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members.iter().map(|(key, value)| (key.clone(), value.into())).collect(),
            ),
        }
    }
}

impl fmt::Display for ExactJson {
    /// Writes the value as compact JSON, with numbers as they were written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let string = |f: &mut fmt::Formatter<'_>, text: &str| {
            let mut json = Vec::with_capacity(text.len() + 2);
            push_text(&mut json, text);
            f.write_str(&String::from_utf8_lossy(&json))
        };
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(is) => write!(f, "{is}"),
            Self::Number(number) => f.write_str(number),
            Self::Text(text) => string(f, text),
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "[" } else { "," })?;
                }
                f.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Self::Object(members) => {
                for (index, (key, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "{" } else { "," })?;
                    string(f, key)?;
                    write!(f, ":{value}")?;
                }
                f.write_str(if members.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

/// Parses the value at `at` and returns it with its end.
fn read(text: &[u8], at: usize, depth: usize) -> Result<(ExactJson, usize), String> {
    let deeper = || depth.checked_sub(1).ok_or("nested too deeply");
    let strings = StringHint::Any;
    Ok(match text.get(at) {
        Some(b'{') => {
            let (mut members, mut names) = (Vec::new(), HashSet::new());
            let mut cursor =
                Cursor::in_object(text, at, strings).map_err(|error| error.to_string())?;
            while let Some(key) = cursor.advance().map_err(|error| error.to_string())? {
                let name = key.text().ok_or("a name is not valid Unicode")?.into_owned();
                if !names.insert(name.clone()) {
                    return Err(format!("duplicate name `{name}`"));
                }
                let (value, end) = read(text, cursor.at(), deeper()?)?;
                cursor.pass_to(end);
                members.push((name, value));
            }
            (ExactJson::Object(members), cursor.at())
        }
        Some(b'[') => {
            let mut items = Vec::new();
            let mut cursor =
                Cursor::in_array(text, at, strings).map_err(|error| error.to_string())?;
            while cursor.advance().map_err(|error| error.to_string())?.is_some() {
                let (item, end) = read(text, cursor.at(), deeper()?)?;
                cursor.pass_to(end);
                items.push(item);
            }
            (ExactJson::Array(items), cursor.at())
        }
        _ => {
            let end = scan::skip_value(text, at, strings).map_err(|error| error.to_string())?;
            let written = &text[at..end];
            let value = match written {
                b"null" => ExactJson::Null,
                b"true" => ExactJson::Bool(true),
                b"false" => ExactJson::Bool(false),
                [b'"', ..] => {
                    let string = EscapedKey::of_string(written).and_then(EscapedKey::text);
                    ExactJson::Text(string.ok_or("a string is not valid Unicode")?.into_owned())
                }
                number => ExactJson::Number(String::from_utf8_lossy(number).into_owned()),
            };
            (value, end)
        }
    })
}

/// A number as sign and digits: ±0.DIGITS × 10^`point`, without zeros at either end. Zero has no
/// digits.
struct Decimal<'a> {
    is_negative: bool,
    point: i64,
    digits: Cow<'a, str>,
}

impl<'a> Decimal<'a> {
    /// Returns `None` if the exponent doesn't fit into 64 bits.
    fn parse(number: &'a str) -> Option<Self> {
        let (is_negative, rest) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number),
        };
        let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, digits) = match mantissa.split_once('.') {
            Some((whole, part)) => (whole, Cow::Owned(format!("{whole}{part}"))),
            None => (mantissa, Cow::Borrowed(mantissa)),
        };
        let leading = digits.len() - digits.trim_start_matches('0').len();
        let point = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(leading).ok()?)?;
        let digits = digits.trim_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { is_negative: false, point: 0, digits: Cow::Borrowed("") });
        }
        let point = point.checked_add(exponent.parse().ok()?)?;
        Some(Self { is_negative, point, digits: Cow::Owned(digits) })
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

/// Compares two JSON numbers by their exact decimal values; `None` if an exponent is too large.
pub fn compare_numbers(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (Decimal::parse(one)?, Decimal::parse(other)?);
    // Without zeros at the end, digits of a fraction are in alphabetical order.
    let by_size = one.point.cmp(&other.point).then_with(|| one.digits.cmp(&other.digits));
    let by_size = if one.sign() < 0 { by_size.reverse() } else { by_size };
    Some(one.sign().cmp(&other.sign()).then(by_size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_names_are_rejected_even_if_escaped() {
        let text = r#" {"a": [1, -2, 0.5, "x\n", null, true], "b": {"a": {}, "c": []}} "#;
        let read = ExactJson::parse(text.as_bytes()).unwrap();
        assert!(read.equals(&(&serde_json::from_str::<Value>(text).unwrap()).into()));
        assert_eq!(read.to_string(), r#"{"a":[1,-2,0.5,"x\n",null,true],"b":{"a":{},"c":[]}}"#);
        for twice in
            [r#"{"a": 1, "a": 2}"#, r#"{"a": 1, "\u0061": 1}"#, r#"[{"b": {"a": 1, "a": 1}}]"#]
        {
            assert_eq!(ExactJson::parse(twice.as_bytes()).unwrap_err(), "duplicate name `a`");
        }
        for invalid in ["", "{", "{} {}", r#""\ud800""#, r#"{"\udc00":1}"#, "[1,]", "nul"] {
            assert!(ExactJson::parse(invalid.as_bytes()).is_err(), "{invalid}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(ExactJson::parse(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert!(ExactJson::parse(deep(100_000).as_bytes()).is_err());
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let ascending = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.1000000000000000055511151231257827",
            "0.2",
            "1",
            "9007199254740992",
            "9007199254740992.0000000000000000000000001",
            "9007199254740993",
            "18446744073709551616",
            "123456789012345678901234567890",
            "1e400",
            "1.1E+400",
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                let order = compare_numbers(one, other);
                assert_eq!(order, Some(at.cmp(&other_at)), "{one} and {other}");
            }
        }
        for (one, other) in [
            ("1.0", "1"),
            ("10e-1", "1"),
            ("0.01E2", "1"),
            ("-0", "0"),
            ("0.0e99999999999999999999", "-0e-5"),
            ("100", "1e2"),
            ("-12.50", "-1250E-2"),
        ] {
            assert_eq!(compare_numbers(one, other), Some(Ordering::Equal), "{one} and {other}");
        }
        assert_eq!(compare_numbers("1e99999999999999999999", "1"), None);
        assert_eq!(compare_numbers("1e9223372036854775807", "1"), None);
    }

    #[test]
    fn equality_ignores_order_and_spelling_but_not_precision() {
        let equal = |one: &str, other: &str| {
            let parse = |text: &str| ExactJson::parse(text.as_bytes()).unwrap();
            parse(one).equals(&parse(other))
        };
        assert!(equal(r#"{"a":1.0,"b":["x"]}"#, r#"{"b":["\u0078"],"a":1}"#));
        assert!(!equal("9007199254740993", "9007199254740992"));
        assert!(!equal(r#"{"a":1}"#, r#"{"a":1,"b":2}"#));
        assert!(!equal(r#""1""#, "1") && !equal("[1,2]", "[2,1]") && !equal("null", "false"));
    }

    proptest! {
        #[test]
        fn comparison_agrees_with_integers(one in any::<i64>(), other in any::<i64>(), zeros in 0_usize..4) {
            let zeros = "0".repeat(zeros);
            let one_text = format!("{one}.0{zeros}e0");
            let other_text = format!("{other}{zeros}e-{}", zeros.len());
            prop_assert_eq!(compare_numbers(&one_text, &other_text), Some(one.cmp(&other)));
        }

        #[test]
        fn parsing_never_panics_and_printing_is_stable(text in "[\\[\\]{}\":,a0-9eE.\\\\ -]{0,40}") {
            if let Ok(value) = ExactJson::parse(text.as_bytes()) {
                let again = ExactJson::parse(value.to_string().as_bytes()).unwrap();
                prop_assert_eq!(again.to_string(), value.to_string());
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
            }
        }
    }

    #[test]
    fn values_of_the_configuration_keep_their_text() {
        let value = json!({"n": 0.1, "big": u64::MAX});
        assert_eq!(ExactJson::from(&value).to_string(), r#"{"n":0.1,"big":18446744073709551615}"#);
    }
}
