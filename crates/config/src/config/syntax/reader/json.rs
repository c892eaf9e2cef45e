//! Values that are any JSON: schemas, arguments, what they are compared with.

use jsonc_parser::ast::Value;
use serde_json::value::RawValue;
use serde_json::{Number, Value as Json};

use crate::config::syntax::document::{Node, Spot, shortened};
use crate::config::syntax::reader::{Located, Reader};

impl Reader<'_> {
    /// The node as any number.
    pub fn decimal(&mut self, node: &Node<'_>) -> Option<Located<Number>> {
        let Some(literal) = node.value.as_number_lit() else {
            self.mismatch(node, "a number", None);
            return None;
        };
        let value = self.exact(literal.value, &node.spot)?;
        Some(Located { value, spot: node.spot.clone() })
    }

    /// The node as an array of any JSON; variables in its strings are expanded.
    pub(crate) fn values(&mut self, node: &Node<'_>) -> Option<Vec<Json>> {
        if node.value.as_array().is_none() {
            self.mismatch(node, "an array", None);
            return None;
        }
        Some(node.elements().iter().map(|node| self.json(node)).collect())
    }

    /// The node as an object of any JSON; variables in its strings are expanded.
    pub(crate) fn members(&mut self, node: &Node<'_>) -> Option<Vec<(String, Json)>> {
        let Some(object) = node.value.as_object() else {
            self.mismatch(node, "an object", None);
            return None;
        };
        let members = object
            .properties
            .iter()
            .map(|property| (property.name.as_str().to_owned(), self.json(&node.child(property))));
        Some(members.collect())
    }

    /// The JSON text of what is neither an object nor an array, a number as it is spelled.
    pub(crate) fn scalar(&mut self, node: &Node<'_>) -> Option<String> {
        match node.value {
            Value::StringLit(literal) => {
                let text = self.expanded(&literal.value, &node.spot);
                Some(Json::from(text).to_string())
            }
            Value::BooleanLit(literal) => Some(literal.value.to_string()),
            Value::NullKeyword(_) => Some("null".to_owned()),
            Value::NumberLit(literal) => {
                let number = serde_json::from_str::<&RawValue>(literal.value).ok();
                let number = self.or_fault(number, literal.value, "no number of JSON", &node.spot);
                Some(number.map_or("null", RawValue::get).to_owned())
            }
            Value::Object(_) | Value::Array(_) => None,
        }
    }

    /// The node as any JSON; variables in its strings are expanded.
    pub fn json(&mut self, node: &Node<'_>) -> Json {
        match node.value {
            Value::StringLit(literal) => self.expanded(&literal.value, &node.spot).into(),
            Value::BooleanLit(literal) => literal.value.into(),
            Value::NullKeyword(_) => Json::Null,
            Value::NumberLit(literal) => {
                self.exact(literal.value, &node.spot).map_or(Json::Null, Json::Number)
            }
            Value::Object(_) => Json::Object(self.members(node).into_iter().flatten().collect()),
            Value::Array(_) => node.elements().iter().map(|node| self.json(node)).collect(),
        }
    }

    /// A number that is kept as it stands there: a whole one is not rounded.
    fn exact(&mut self, text: &str, spot: &Spot) -> Option<Number> {
        let is_whole =
            text != "-0" && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let number = serde_json::from_str(text).ok();
        let number = number.filter(|number: &Number| !(is_whole && number.is_f64()));
        self.or_fault(number, text, "too large a number", spot)
    }

    /// Passes a number on; reports an error if there is none.
    fn or_fault<T>(
        &mut self,
        number: Option<T>,
        text: &str,
        problem: &str,
        spot: &Spot,
    ) -> Option<T> {
        if number.is_none() {
            self.error(spot, format!("`{}` is {problem}", shortened(text)), None);
        }
        number
    }
}
