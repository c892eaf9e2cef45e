//! A tool's argument schema: validates arguments against it, and formats it as a signature.
//!
//! Servers decide which arguments are valid. The validation here explains a server's error, asks
//! for missing arguments before a task runs, and decides for the workbench's own tools, which have
//! no server.

mod budget;
mod parameters;
mod violation;

use std::collections::HashSet;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use mcp_workbench_wire::json::RawJson;

pub use crate::catalog::schema::parameters::{Parameter, parameters};
pub use crate::catalog::schema::violation::{SchemaViolation, format_violations};

/// Longer arguments, in bytes, are left to the server to validate. Arguments of tools with a longer
/// schema, too.
pub(crate) const MAX_CHECKED: usize = 256 * 1024;
const MAX_REPORTED: usize = 5;
/// Limits for each pattern of a schema: its compiled size, in bytes, and the steps of one match.
const MAX_PATTERN: usize = 256 * 1024;
const MAX_BACKTRACKS: usize = 100_000;
/// The longest excerpt of a schema, and the longest problem text, in bytes.
const MAX_QUOTED: usize = 1000;
const MAX_PROBLEM: usize = 200;
/// The longest property name in a violation, in bytes. Agents may invent longer ones.
const MAX_PROPERTY: usize = 120;

/// The problem text of a missing required property.
pub const MISSING: &str = "is required but missing";

/// The schema keyword that mirrors an argument in a header.
const ANNOTATION: &str = "x-mcp-header";

/// A compiled schema. An invalid schema accepts all arguments, and so does one that takes too long
/// to validate.
#[derive(Debug)]
pub struct ArgumentValidator {
    validator: Option<Validator>,
    is_bounded: bool,
}

impl ArgumentValidator {
    /// Compiles the schema of a server. References to other documents aren't followed, and
    /// properties with a default count as optional.
    pub fn new(schema: &RawJson) -> Self {
        Self::compile(schema, true)
    }

    /// Compiles a schema of the user, who can make it as expensive as needed.
    pub(crate) fn unbounded(schema: &RawJson) -> Self {
        Self::compile(schema, false)
    }

    fn compile(schema: &RawJson, is_bounded: bool) -> Self {
        let compiled = compile(schema, is_bounded).inspect_err(|error| {
            tracing::debug!(error, "invalid schema, arguments are not validated");
        });
        Self { validator: compiled.ok(), is_bounded }
    }

    /// Validates arguments against `schema`, which must be the compiled one. `None` counts as an
    /// empty object.
    pub fn validate(
        &self,
        schema: &RawJson,
        arguments: Option<&RawJson>,
    ) -> Result<(), Vec<SchemaViolation>> {
        let Some(validator) = &self.validator else {
            return Ok(());
        };
        if arguments.is_some_and(|arguments| arguments.len() > MAX_CHECKED) {
            return Ok(());
        }
        let arguments = match arguments.map(RawJson::parse::<Value>) {
            None => Value::Object(Map::new()),
            Some(Ok(arguments)) => arguments,
            // Numbers and nesting that `serde_json` can't represent are for the server to judge.
            Some(Err(_)) => return Ok(()),
        };
        let schema = schema.parse::<Value>().unwrap_or_default();
        if self.is_bounded && !budget::can_validate(&schema, &arguments) {
            tracing::debug!("arguments are not validated, this would take too long");
            return Ok(());
        }
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        let mismatches: Vec<_> = validator
            .iter_errors(&arguments)
            .take(MAX_REPORTED)
            .map(|error| mismatch(&error, &schema))
            .map(|mismatch| SchemaViolation {
                property: cut(&mismatch.property, MAX_PROPERTY),
                ..mismatch
            })
            .collect();
        if mismatches.is_empty() { Ok(()) } else { Err(mismatches) }
    }
}

fn compile(schema: &RawJson, is_bounded: bool) -> Result<Validator, String> {
    let parse = || schema.parse::<Value>().map_err(|error| error.to_string());
    let mut options = jsonschema::options();
    let mut schema = if is_bounded {
        let short = (schema.len() <= MAX_CHECKED).then(parse).transpose()?;
        let patterns = PatternOptions::fancy_regex();
        let patterns = patterns.size_limit(MAX_PATTERN).backtrack_limit(MAX_BACKTRACKS);
        options = options.with_pattern_options(patterns);
        short.filter(budget::can_compile).ok_or("it is too large")?
    } else {
        parse()?
    };
    drop_defaulted_required(&mut schema);
    options.build(&schema).map_err(|error| error.to_string())
}

fn mismatch(error: &ValidationError<'_>, schema: &Value) -> SchemaViolation {
    let at = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
    let within = |name: &str| {
        if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
    };
    // The schema that contains the failed keyword.
    let holder = error.schema_path().as_str().rsplit_once('/').map_or("", |(holder, _)| holder);
    let holder = at_path(schema, holder).unwrap_or(schema);
    let known = holder.get("properties").and_then(Value::as_object);
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            SchemaViolation {
                property: within(name),
                problem: MISSING.to_owned(),
                expected: quote(known.and_then(|known| known.get(name)).unwrap_or(holder)),
            }
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => SchemaViolation {
            property: unexpected.iter().map(|name| within(name)).collect::<Vec<_>>().join("`, `"),
            problem: "is not a property of this tool".to_owned(),
            expected: known.map_or_else(
                || quote(holder),
                |known| {
                    let names: Vec<_> = known.keys().map(|name| format!("`{name}`")).collect();
                    cut(&format!("one of {}", names.join(", ")), MAX_QUOTED)
                },
            ),
        },
        ValidationErrorKind::Type { .. } => SchemaViolation {
            property: at,
            problem: format!("is {}", kind_of(error.instance())),
            expected: quote(holder),
        },
        _ => SchemaViolation {
            property: at,
            problem: cut(
                error.masked_with("it").to_string().trim_start_matches("it "),
                MAX_PROBLEM,
            ),
            expected: quote(holder),
        },
    }
}

/// Removes properties with a default from `required`, at every depth. Schema generators list them
/// there although the server fills them in, as zod does for `.default()`.
fn drop_defaulted_required(schema: &mut Value) {
    // Keywords whose values are data rather than schemas.
    const VALUES: [&str; 4] = ["default", "const", "enum", "examples"];

    let schema = match schema {
        Value::Object(schema) => schema,
        Value::Array(several) => return several.iter_mut().for_each(drop_defaulted_required),
        _ => return,
    };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let filled_in: HashSet<_> =
        properties.filter(|(_, has)| has_default(has)).map(|(name, _)| name.clone()).collect();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !filled_in.contains(name)));
    }
    for (_, part) in schema.iter_mut().filter(|(key, _)| !VALUES.contains(&key.as_str())) {
        drop_defaulted_required(part);
    }
}

fn has_default(property: &Value) -> bool {
    property.get("default").is_some()
}

/// Resolves a schema path reported by the validator, which leads through `$ref`.
fn at_path<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    steps.into_iter().try_fold(schema, |at, step| match (step.as_str(), at.get(&step)) {
        ("$ref", Some(Value::String(reference))) => schema.pointer(reference.strip_prefix('#')?),
        (_, Some(found)) => Some(found),
        _ => at.get(step.parse::<usize>().ok()?),
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn quote(schema: &Value) -> String {
    cut(&schema.to_string(), MAX_QUOTED)
}

fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max)])
}

/// Returns the arguments that HTTP clients mirror in headers, as header name and JSON pointer (MCP
/// 2026-07-28, basic/transports/streamable-http, `x-mcp-header`).
pub fn header_params(schema: &RawJson) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // Few schemas have the keyword, and every call gets here, so avoid parsing.
    if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_some()
        && let Ok(schema) = schema.parse()
    {
        walk_properties(&schema, "", &mut found);
    }
    found
}

fn walk_properties(schema: &Value, pointer: &str, found: &mut Vec<(String, String)>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        walk_properties(property, &pointer, found);
        if let Some(header) = property.get(ANNOTATION).and_then(Value::as_str) {
            found.push((format!("Mcp-Param-{header}"), pointer));
        }
    }
}

/// Formats a tool as `name(required: type, optional?: type)`, with `…` for properties beyond a
/// length limit.
pub fn signature(name: &str, schema: &RawJson) -> String {
    let schema = schema.parse::<Value>().unwrap_or_default();
    format!("{name}({})", listed(&schema, 0))
}

/// A longer property list, in bytes, omits the remaining properties.
const MAX_LISTED: usize = 4000;
/// Object types nested deeper than this aren't spelled out.
const MAX_DEPTH: usize = 2;
/// Maximum number of alternatives of a type that are spelled out.
const MAX_CHOICES: usize = 6;

fn listed(schema: &Value, depth: usize) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let required = required(schema);
    let (first, then): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| required.contains(name.as_str()));
    let marked = first.into_iter().map(|property| (":", property));
    let marked = marked.chain(then.into_iter().map(|property| ("?:", property)));
    let mut list = String::new();
    for (mark, (name, schema)) in marked {
        if !list.is_empty() {
            list.push_str(", ");
        }
        if list.len() > MAX_LISTED {
            list.push('…');
            break;
        }
        list.extend([name, mark, " ", &type_of(schema, depth)]);
    }
    list
}

/// Returns the names of the required properties that have no default.
fn required(schema: &Value) -> HashSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_filled_in = |name: &str| {
        properties.and_then(|properties| properties.get(name)).is_some_and(has_default)
    };
    names.filter(|name| !is_filled_in(name)).collect()
}

fn type_of(schema: &Value, depth: usize) -> String {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return choice(choices.iter().map(Value::to_string), choices.len());
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(key).and_then(Value::as_array) {
            return choice(options.iter().map(|option| type_of(option, depth)), options.len());
        }
    }
    match schema.get("type") {
        Some(Value::Array(types)) => {
            choice(types.iter().map(|t| t.as_str().unwrap_or("any").to_owned()), types.len())
        }
        Some(Value::String(name)) => match name.as_str() {
            "array" => {
                let item = schema.get("items").map_or("any".to_owned(), |s| type_of(s, depth));
                if item.contains(" | ") { format!("({item})[]") } else { format!("{item}[]") }
            }
            "object" if depth < MAX_DEPTH && schema.get("properties").is_some() => {
                format!("{{{}}}", listed(schema, depth + 1))
            }
            other => other.to_owned(),
        },
        _ => "any".to_owned(),
    }
}

fn choice(options: impl Iterator<Item = String>, count: usize) -> String {
    let mut shown: Vec<_> = options.take(MAX_CHOICES).collect();
    shown.dedup();
    if count > MAX_CHOICES {
        shown.push("…".to_owned());
    }
    shown.join(" | ")
}

#[cfg(test)]
mod tests;
