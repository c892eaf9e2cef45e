//! Bounds on the work of compiling a server's schema and of validating arguments against it.
//!
//! A short schema can take exponential time: each of its definitions can refer to the previous one
//! twice. A validation can't be interrupted. So the schema is first walked together with the
//! arguments, with `$ref` expanded and without the shortcuts of a validator, until the walk ends or
//! exceeds the bound.

use std::collections::HashMap;

use serde_json::Value;

/// The largest schema that is compiled: values in it, plus the surcharges below.
const MAX_COMPILED: usize = 10_000;
/// Surcharges of references and patterns: compiling takes quadratic time in the number of
/// references, and up to milliseconds for each pattern.
const REFERENCE: usize = 10;
const PATTERN: usize = 100;
/// Maximum number of keywords that one validation may visit.
const MAX_VISITS: u64 = 50_000;
/// Maximum number of nested schemas and references. Validators recurse.
const MAX_DEPTH: usize = 128;
/// How often `unevaluatedProperties` and `unevaluatedItems` evaluate the schemas next to them.
const UNEVALUATED: u64 = 4;
/// Surcharge of a pattern or format, for each byte of the matched text.
const MATCHED_BYTE: u64 = 16;

/// Returns `true` if compiling the schema takes little time.
pub(super) fn can_compile(schema: &Value) -> bool {
    let mut sizes = Sizes { root: schema, known: HashMap::new() };
    sizes.weight(schema, false).is_some_and(|weight| weight <= MAX_COMPILED)
}

/// The sizes of the parts of a schema. A compiler expands `$ref` to find out which properties are
/// evaluated, and which alternative a constant selects.
struct Sizes<'a> {
    root: &'a Value,
    known: HashMap<*const Value, usize>,
}

impl<'a> Sizes<'a> {
    /// Returns the work of compiling a part; `None` if it is too large or unknown.
    fn weight(&mut self, part: &'a Value, has_base: bool) -> Option<usize> {
        let has_base = has_base || has_own_base(self.root, part);
        let mut weight = self.expanded(part, 0)?;
        match part {
            Value::Array(items) => {
                for item in items {
                    weight = weight.saturating_add(self.weight(item, has_base)?);
                }
            }
            Value::Object(members) => {
                for (key, value) in members {
                    let surcharge = match (key.as_str(), value) {
                        // It may refer to another part than the root would.
                        ("$ref", Value::String(_)) if has_base => return None,
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => REFERENCE,
                        ("pattern", Value::String(_)) => PATTERN,
                        ("patternProperties", Value::Object(patterns)) => PATTERN * patterns.len(),
                        _ => 0,
                    };
                    let value = self.weight(value, has_base)?;
                    weight = weight.saturating_add(value).saturating_add(surcharge);
                }
            }
            _ => {}
        }
        Some(weight)
    }

    /// Returns the number of schemas that apply to the same value as this one, with `$ref`
    /// expanded.
    fn expanded(&mut self, schema: &'a Value, depth: usize) -> Option<usize> {
        let Value::Object(keywords) = schema else { return Some(1) };
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Some(*known);
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let mut size: usize = 1;
        for (keyword, value) in keywords {
            let parts: Vec<&Value> = match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => vec![target(self.root, reference)?],
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter().collect(),
                ("not" | "if" | "then" | "else", part) => vec![part],
                ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                    parts.values().collect()
                }
                _ => continue,
            };
            for part in parts {
                size = size.saturating_add(self.expanded(part, depth + 1)?);
            }
        }
        self.known.insert(std::ptr::from_ref(schema), size);
        Some(size)
    }
}

/// Returns the number of values in a value.
fn weight(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(weight).sum::<usize>(),
        _ => 1,
    }
}

/// Returns `true` if validating the arguments takes little time. `false` also if that is unknown,
/// because the schema refers to other parts than by a JSON pointer.
pub(super) fn can_validate(schema: &Value, arguments: &Value) -> bool {
    Walk { root: schema, left: MAX_VISITS }.visit(schema, arguments, Position::default())
}

struct Walk<'a> {
    root: &'a Value,
    left: u64,
}

#[derive(Clone, Copy)]
struct Position {
    depth: usize,
    /// How often a validator visits this position.
    times: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self { depth: 0, times: 1 }
    }
}

impl<'a> Walk<'a> {
    fn spend(&mut self, visits: u64, at: Position) -> bool {
        let left = self.left.checked_sub(visits.saturating_mul(at.times));
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    fn visit(&mut self, schema: &'a Value, instance: &Value, at: Position) -> bool {
        let Value::Object(keywords) = schema else { return self.spend(1, at) };
        if at.depth > MAX_DEPTH || has_own_base(self.root, schema) {
            return false;
        }
        let is_repeated = ["unevaluatedProperties", "unevaluatedItems"]
            .iter()
            .any(|keyword| keywords.contains_key(*keyword));
        let times = at.times.saturating_mul(if is_repeated { UNEVALUATED } else { 1 });
        let at = Position { depth: at.depth + 1, times };
        let text = instance.as_str().map_or(0, str::len);
        self.spend(1 + count(keywords.len()) + count(text / 64), at)
            && keywords.iter().all(|(keyword, value)| self.apply(keyword, value, instance, at))
    }

    fn apply(&mut self, keyword: &str, value: &'a Value, instance: &Value, at: Position) -> bool {
        let members = || instance.as_object().into_iter().flatten();
        let items = || instance.as_array().into_iter().flatten();
        match keyword {
            "$defs" | "definitions" | "default" | "examples" => true,
            "const" | "enum" => self.spend(count(weight(value)), at),
            "uniqueItems" => self.spend(count(weight(instance)), at),
            "pattern" | "format" => {
                // A format can compile the text as a pattern.
                let compiled = if value == "regex" { 1000 } else { 0 };
                let matched = instance.as_str().map_or(0, |text| count(text.len()));
                self.spend(compiled + MATCHED_BYTE * matched, at)
            }
            "$ref" => match value.as_str().and_then(|reference| target(self.root, reference)) {
                Some(target) => self.visit(target, instance, at),
                None => false,
            },
            "$dynamicRef" | "$recursiveRef" => false,
            "properties" => schemas(value).all(|(name, schema)| {
                self.spend(1, at)
                    && instance.get(name).is_none_or(|member| self.visit(schema, member, at))
            }),
            "patternProperties" => schemas(value).all(|(_, schema)| {
                members().all(|(name, member)| {
                    self.spend(MATCHED_BYTE * count(name.len()), at)
                        && self.visit(schema, member, at)
                })
            }),
            "additionalProperties" | "unevaluatedProperties" => {
                members().all(|(_, member)| self.visit(value, member, at))
            }
            "propertyNames" => {
                members().all(|(name, _)| self.visit(value, &Value::String(name.clone()), at))
            }
            "items" | "prefixItems" if value.is_array() => {
                let schemas = value.as_array().into_iter().flatten();
                schemas.zip(items()).all(|(schema, item)| self.visit(schema, item, at))
            }
            "items" | "additionalItems" | "unevaluatedItems" | "contains" => {
                items().all(|item| self.visit(value, item, at))
            }
            "dependentSchemas" | "dependencies" => {
                schemas(value).all(|(_, schema)| self.visit(schema, instance, at))
            }
            _ => match value {
                Value::Object(_) => self.visit(value, instance, at),
                Value::Array(schemas) => {
                    schemas.iter().all(|schema| self.visit(schema, instance, at))
                }
                _ => true,
            },
        }
    }
}

/// Returns the target of a JSON pointer into the whole schema.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    // A validator also decodes percent signs.
    let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
    if pointer.is_empty() {
        return Some(root);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(root, |within, step| {
        let found = match within {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => within.get(step.replace("~1", "/").replace("~0", "~")),
        };
        found.filter(|found| !has_own_base(root, found))
    })
}

/// Returns `true` for a part of the schema whose references may mean something else.
fn has_own_base(root: &Value, schema: &Value) -> bool {
    let is_text = |key: &str| schema.get(key).is_some_and(Value::is_string);
    !std::ptr::eq(schema, root) && ["$id", "id", "$schema"].into_iter().any(is_text)
}

fn schemas(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
