//! Reads settings that can be any JSON, such as schemas, arguments and values to compare with.

use jsonc_parser::ast::Value;
use serde_json::value::RawValue;
use serde_json::{Number, Value as Json};

use crate::syntax::document::{Node, SourceLocation, truncate_for_message};
use crate::syntax::reader::{ConfigReader, Located};

impl ConfigReader<'_> {
    pub fn read_number(&mut self, node: &Node<'_>) -> Option<Located<Number>> {
        let Some(literal) = node.value.as_number_lit() else {
            self.report_type_mismatch(node, "a number", None);
            return None;
        };
        let value = self.exact(literal.value, &node.location)?;
        Some(Located { value, location: node.location.clone() })
    }

    /// Reads an array of any JSON. Variables in its strings are expanded.
    pub(crate) fn read_json_array(&mut self, node: &Node<'_>) -> Option<Vec<Json>> {
        if node.value.as_array().is_none() {
            self.report_type_mismatch(node, "an array", None);
            return None;
        }
        Some(node.elements().iter().map(|node| self.read_json(node)).collect())
    }

    /// Reads an object of any JSON. Variables in its strings are expanded.
    pub(crate) fn read_json_members(&mut self, node: &Node<'_>) -> Option<Vec<(String, Json)>> {
        let Some(object) = node.value.as_object() else {
            self.report_type_mismatch(node, "an object", None);
            return None;
        };
        let members = object.properties.iter().map(|property| {
            (property.name.as_str().to_owned(), self.read_json(&node.child(property)))
        });
        Some(members.collect())
    }

    /// Returns the JSON text of a scalar, with numbers spelled as in the file. `None` for an object
    /// or array.
    pub(crate) fn read_scalar_text(&mut self, node: &Node<'_>) -> Option<String> {
        match node.value {
            Value::StringLit(literal) => {
                let text = self.expand_variables(&literal.value, &node.location);
                Some(Json::from(text).to_string())
            }
            Value::BooleanLit(literal) => Some(literal.value.to_string()),
            Value::NullKeyword(_) => Some("null".to_owned()),
            Value::NumberLit(literal) => {
                let number = serde_json::from_str::<&RawValue>(literal.value).ok();
                let number =
                    self.or_fault(number, literal.value, "not a JSON number", &node.location);
                Some(number.map_or("null", RawValue::get).to_owned())
            }
            Value::Object(_) | Value::Array(_) => None,
        }
    }

    /// Reads any JSON value. Variables in its strings are expanded.
    pub fn read_json(&mut self, node: &Node<'_>) -> Json {
        match node.value {
            Value::StringLit(literal) => {
                self.expand_variables(&literal.value, &node.location).into()
            }
            Value::BooleanLit(literal) => literal.value.into(),
            Value::NullKeyword(_) => Json::Null,
            Value::NumberLit(literal) => {
                self.exact(literal.value, &node.location).map_or(Json::Null, Json::Number)
            }
            Value::Object(_) => {
                Json::Object(self.read_json_members(node).into_iter().flatten().collect())
            }
            Value::Array(_) => node.elements().iter().map(|node| self.read_json(node)).collect(),
        }
    }

    /// Parses a number without loss: a whole number that only fits an `f64` is an error.
    fn exact(&mut self, text: &str, location: &SourceLocation) -> Option<Number> {
        let is_whole =
            text != "-0" && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let number = serde_json::from_str(text).ok();
        let number = number.filter(|number: &Number| !(is_whole && number.is_f64()));
        self.or_fault(number, text, "too large", location)
    }

    fn or_fault<T>(
        &mut self,
        number: Option<T>,
        text: &str,
        problem: &str,
        location: &SourceLocation,
    ) -> Option<T> {
        if number.is_none() {
            self.report_error(
                location,
                format!("`{}` is {problem}", truncate_for_message(text)),
                None,
            );
        }
        number
    }
}
